"""The command ``structboost segment``, with Ctrl-C, logs and files."""

import json
import os
import signal
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from examples.synthetic_images import make_synthetic_images
from structboost.cli import main
from structboost.errors import InterruptedFitWarning
from structboost.segmentation.scores import SegmentationScores
from structboost.segmentation.segmenter import Segmenter
from structboost.training.loop import Loop
from structboost.vision.images import read_mask, write_png
from tests.helpers.photographs import QUICK, write_folder

pytestmark = pytest.mark.slow


def segment(text, *more):
    """Run the command on words, in the folder of the test, and return its exit code."""
    return main(["segment", *text.split(), *map(str, more), "--jobs", "1"])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the test, as the current one."""
    monkeypatch.chdir(tmp_path)
    quick = partial(Segmenter, n_segments=60, unaries=QUICK)
    quick.load = Segmenter.load
    monkeypatch.setattr("structboost.segmentation.command.Segmenter", quick)
    return tmp_path


def test_segment_command_never_overwrites_an_input(trained, here, capsys, monkeypatch):
    write_folder(here, 2, 0)
    (here / "m").write_bytes(trained[1].read_bytes())
    (here / "split").write_text("00 test\n01 train\n")
    (here / "file").write_text("")
    (here / "link").symlink_to("m")
    (here / "loop").symlink_to("loop")
    (here / "other").mkdir()
    write_png("other/00.png", make_synthetic_images(1).images[0])

    def contents():
        return {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}

    before = contents()
    for name in ("fit", "predict"):
        monkeypatch.setattr(Segmenter, name, lambda *_: pytest.fail("the work has begun"))
    folders = "--images images --masks masks --split split"
    predict = "predict images/00.png --model m"
    for command, message in (
        (f"train {folders} --model images/00.png", "would overwrite"),
        (f"train {folders} --model split", "would overwrite"),
        (f"train {folders} --model images", "is a folder"),
        (f"evaluate {folders} --model m --json link", "would overwrite"),
        (f"evaluate {folders} --model m --json masks/00.png", "would overwrite"),
        (f"evaluate {folders} --model m --json none/s.json", "a folder that exists"),
        (f"{predict} --out file", "--out file is a file"),
        (f"{predict} --out images", "would overwrite"),
        (f"{predict} --scribbles scribbles --out scribbles", "would overwrite"),
        ("predict images/00.png other/00.png --model m --out out", "rename one"),
        ("predict loop --model m --out out", "none of the images"),
        ("predict images/00.png --scribbles masks/00.png --out masks", "would overwrite"),
    ):
        assert segment(command) == 2, command
        assert message in capsys.readouterr().err.splitlines()[-1], command
    assert contents() == before


def test_segment_command_trains_evaluates_and_predicts(here, capsys):
    made = write_folder(here, 8, 0)
    lines = [f"{i:02d} {'train' if i < 6 else 'test'}\n" for i in range(8)]
    (here / "split").write_text("".join(lines))
    folders = "--images images --masks masks --split split --model m"
    assert segment(f"train {folders} --C 1 --groups ^.") == 2  # one group
    assert segment(f"train {folders} --C 1 --groups ..$ --longest 150") == 0
    printed = capsys.readouterr().err
    for line in ("images and masks read 6/6", "classes of superpixels 6/6", "255 is taken for the"):
        assert line in printed
    assert "groups of images: 6" in printed
    model = Segmenter.load("m")
    assert (model.sizes_, model.C_) == ((60, 150), 1.0)
    capsys.readouterr()
    assert segment(f"evaluate {folders} --json -") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["accuracy"] > 0.9
    assert set(record["by_image"]) == {"06", "07"}
    iou = SegmentationScores(np.array(record["confusion"])).iou
    assert_allclose(list(record["iou"].values()), iou)
    assert list(record["iou"]) == ["background", "foreground"]
    (here / "broken.jpg").write_bytes(b"no")
    predict = "predict images/07.png broken.jpg --model m --out out"
    assert segment(f"{predict} --probabilities") == 1  # the result is partial
    printed = capsys.readouterr().err
    assert "left out: broken.jpg" in printed
    assert "segmented 1/2" in printed
    files = ["07-overlay.png", "07-probabilities.npz", "07.png"]
    assert sorted(path.name for path in (here / "out").iterdir()) == files
    mask, probabilities = model.mask_and_probabilities(made.images[7])
    assert_array_equal(read_mask("out/07.png"), 255 * mask)
    with np.load("out/07-probabilities.npz") as archive:
        assert_allclose(archive["probabilities"], probabilities, atol=1e-3)
    strokes = np.where(made.scribbles[7] == 2, 0, 2).astype(np.uint8)  # as on the background
    write_png("scribbles/07.png", strokes)
    assert segment(f"{predict} --scribbles scribbles") == 1
    assert_array_equal(read_mask("out/07.png"), 255 * model.predict(made.images[7], strokes))
    assert segment("predict broken.jpg --model m --out out") == 2
    for name in ("05", "06"):
        (here / f"images/{name}.png").write_bytes(b"no")
    assert segment(f"evaluate {folders} --json s.json") == 2
    assert "06.png cannot be read as an image" in capsys.readouterr().err


def test_ctrl_c_during_crf_training_leaves_a_model(here, monkeypatch, capsys):
    write_folder(here, 3, 0)
    record = Loop._record

    def pressed_meanwhile(self):
        record(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Loop, "_record", pressed_meanwhile)
    train = "train --images images --masks masks --model m --C 1"
    with pytest.warns(InterruptedFitWarning):
        assert segment(train) == 130
    assert "1 rounds" in capsys.readouterr().err
    assert len(Segmenter.load("m").history_) == 1


def test_ctrl_c_during_prediction_leaves_the_finished_masks(trained, here, monkeypatch, capsys):
    write_folder(here, 2, 7)
    predict, n_calls = Segmenter.predict, []

    def pressed_meanwhile(self, *arguments):
        n_calls.append(1)
        if len(n_calls) > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return predict(self, *arguments)

    monkeypatch.setattr(Segmenter, "predict", pressed_meanwhile)
    assert segment("predict images --out out --model", trained[1]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert (here / "out/00.png").exists()
    assert not (here / "out/01.png").exists()


def test_segment_command_works_with_scribbles_alone(here, capsys):
    made = write_folder(here, 1, 9)
    assert segment("predict images/00.png --scribbles scribbles/00.png --out out") == 0
    assert "segmented 1/1" in capsys.readouterr().err
    assert np.mean(read_mask("out/00.png") == made.masks[0]) > 0.9


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("predict x.png --out o", "give --model FILE, or only --scribbles"),
        ("predict x.png --out o --scribbles s --probabilities", "give --model FILE, or only"),
        ("predict x.png --out o --model nothing", "There is no structboost segmenter nothing"),
        ("predict nowhere/ --out o --scribbles s", "none of the images"),
        ("train --images nowhere --masks nowhere --model m", "no folder"),
        ("train --images . --masks . --model nowhere/m", "nowhere/m cannot be written"),
        ("train --images images --masks masks --model m --C -1", "C is -1.0"),
        ("train --images images --masks masks --model m --longest 0", "longest is 0"),
        ("train --images images --masks masks --model m --groups x", "does not match 00"),
    ],
)
def test_segment_command_prints_one_line_for_bad_arguments(command, message, here, capsys):
    write_folder(here, 2, 0)
    assert segment(command) == 2
    assert message in capsys.readouterr().err
