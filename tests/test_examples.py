"""Examples refuse arguments that they do not read, before they compute anything."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples.synthetic_images import make_synthetic_images
from structboost.segmentation import write_png

EXAMPLES = Path(__file__).parent.parent / "examples"
# One of a benchmark's toolkit, which is not installed, is left out.
SCRIPTS = [path.name for path in sorted(EXAMPLES.glob("*.py")) if path.stem != "got10k_tracker"]


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_refuses_arguments_that_it_does_not_read(script, tmp_path, monkeypatch, capsys):
    """In this interpreter, which has imported already what each would take a second for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, *"a 1,2,3,4 b --no-such-option".split()])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert left.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_example_of_segmentation_takes_two_folders(tmp_path):
    made = make_synthetic_images(6)
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
        for i, picture in enumerate(getattr(made, kind)):
            write_png(tmp_path / kind / f"{i}.png", np.ascontiguousarray(picture[::3, ::3]))
    done = subprocess.run(
        [
            sys.executable, EXAMPLES / "segment_images.py", tmp_path / "images", tmp_path / "masks",
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "model and pictures are in" in done.stdout
