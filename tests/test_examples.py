"""Examples refuse arguments that they do not read, before they compute anything."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from structboost.segmentation import make_synthetic_images, write_png

EXAMPLES = Path(__file__).parent.parent / "examples"
# One of a benchmark's toolkit, which is not installed, is left out.
SCRIPTS = [path for path in sorted(EXAMPLES.glob("*.py")) if path.stem != "got10k_tracker"]


def run(script, *arguments, folder):
    return subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        capture_output=True, text=True, check=False, cwd=folder, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_refuses_an_argument_that_it_does_not_read(script, tmp_path):
    done = run(script, "a", "1,2,3,4", "--no-such-option", folder=tmp_path)
    assert done.returncode == 2
    assert "unrecognized arguments" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("segment_images.py", ["--images", "a"], "give both folders, or neither"),
        ("segment_images.py", ["--masks", "a"], "give both folders, or neither"),
        ("segment_images.py", ["--images", "a", "--masks", "b"], "There is no folder a"),
        ("track_video.py", ["clip.mp4"], "VIDEO needs the box"),
        ("track_video.py", ["clip.mp4", "1,2,3"], "invalid box_of value"),
        ("track_video.py", ["clip.mp4", "1,2,0,3"], "invalid box_of value"),
        ("readme_picture.py", [], "required: picture"),
    ],
)
@pytest.mark.slow
def test_an_example_refuses_arguments_that_are_not_all_there(script, arguments, message, tmp_path):
    done = run(script, *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_example_of_segmentation_takes_two_folders(tmp_path):
    made = make_synthetic_images(6)
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
        for i, picture in enumerate(getattr(made, kind)):
            write_png(tmp_path / kind / f"{i}.png", np.asarray(picture))
    folders = ("--images", tmp_path / "images", "--masks", tmp_path / "masks")
    done = run("segment_images.py", *folders, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "model and contact sheet are in" in done.stdout
    assert made.name not in done.stdout
