"""The command ``structboost segment``, with Ctrl-C, logs and files."""

from __future__ import annotations

import gc
import json
import os
import signal
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from structboost import progress
from structboost.cli import main
from structboost.errors import InterruptedFitWarning
from structboost.segmentation.image_files import read_mask, write_png
from structboost.segmentation.scores import SegmentationScores
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.training.loop import Loop
from tests.helpers.photographs import QUICK, write_folder


def segment(text, *more):
    """Run the command on words, in the folder of the test, and return its exit code."""
    return main(["segment", *text.split(), *map(str, more)])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the test, as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_settings_of_one_file_do_not_affect_the_next(trained, here):
    image = make_synthetic_images(1).images[0]
    write_png("image.png", image)
    masks = []
    for more in ("", "--longest 9", ""):
        command = f"predict image.png --out out --jobs 1 {more} --model"
        assert segment(command, trained[1]) == 0
        masks.append(read_mask("out/image.png"))
    assert_array_equal(masks[0], trained[0].predict(image))
    assert_array_equal(masks[0], masks[2])
    assert (masks[0] != masks[1]).any()


@pytest.mark.slow
def test_segment_command_names_void_masks_and_writes_null(trained, here, capsys):
    made, void = write_folder(here, 2, 3), np.full((120, 160), 255, np.uint8)
    write_png("masks/00.png", void)
    write_png("masks/01.png", made.masks[1])
    command = "evaluate --images images --masks masks --jobs 1 --json s.json --model"
    assert segment(command, trained[1]) == 0
    assert "00.png is void everywhere: nothing of 00 counts" in capsys.readouterr().err
    assert json.loads((here / "s.json").read_text())["accuracy"] > 0.9
    # With a class that is nowhere 255 is void, not foreground: then nothing is known of either
    # image.
    write_png("masks/01.png", void)
    assert segment(command, trained[1], "--foreground", 1) == 1
    record = json.loads((here / "s.json").read_text(), parse_constant=pytest.fail)
    scores = record["iou_foreground"], record["mean_iou"], record["accuracy"]
    assert (*scores, record["images"]) == (None, None, None, 2)
    assert record["by_image"]["00"] == {"mean_iou": None, "iou": {"0": None, "1": None}}


@pytest.mark.slow
def test_segment_command_never_overwrites_an_input(trained, here, capsys, monkeypatch):
    write_folder(here, 2, 0)
    (here / "m").write_bytes(trained[1].read_bytes())
    (here / "split").write_text("00 test\n01 train\n")
    (here / "file").write_text("")
    (here / "link").symlink_to("m")
    (here / "folder").symlink_to("images")
    (here / "other").mkdir()
    write_png("other/00.png", make_synthetic_images(1).images[0])
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    for name in ("fit", "predict"):
        monkeypatch.setattr(Segmenter, name, lambda *_: pytest.fail("the work has begun"))
    folders = "--images images --masks masks --split split"
    predict, own_folder = "predict images/00.png --model m", "is the folder of the images"
    for command, message in (
        (f"train {folders} --model images/00.png", "would overwrite"),
        (f"train {folders} --model split", "would overwrite"),
        (f"train {folders} --model images", "is a folder"),
        (f"train {folders} --model new --cache file", "--cache file is a file"),
        (f"evaluate {folders} --model m --json link", "would overwrite"),
        (f"evaluate {folders} --model m --json masks/00.png", "would overwrite"),
        (f"evaluate {folders} --model m --json none/s.json", "a folder that exists"),
        (f"{predict} --out file", "--out file is a file"),
        (f"{predict} --out images", "would overwrite"),
        (f"{predict} --scribbles scribbles --out scribbles", "would overwrite"),
        ("predict images/00.png other/00.png --model m --out out", "rename one"),
        ("predict images/00.png --scribbles masks/00.png --out masks", "would overwrite"),
        ("predict images --model m --out images", own_folder),
        ("predict images --model m --out folder", own_folder),
    ):
        assert segment(command) == 2, command
        assert message in capsys.readouterr().err.splitlines()[-1], command
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_segment_command_trains_evaluates_and_predicts(here, capsys):
    write_folder(here / "data", 8, 0)
    lines = [f"{i:02d} {'train' if i < 6 else 'test'}\n" for i in range(8)]
    (here / "split").write_text("".join(lines))
    folders = "--images data/images --masks data/masks --split split --jobs 1 "
    folders += "--scribbles data/scribbles --model m"
    assert segment(f"train {folders} --segments 100 --C 1") == 0
    assert "255 is taken for the foreground" in capsys.readouterr().err
    evaluate = f"evaluate {folders} --json s.json --cache features"
    assert segment(evaluate) == 0
    record = json.loads((here / "s.json").read_text())
    assert len(list((here / "features").glob("*.npz"))) == 2
    assert record["images"] == 2
    assert record["accuracy"] > 0.9
    assert set(record["by_image"]) == {"06", "07"}
    iou = SegmentationScores(np.array(record["confusion"])).iou
    assert_allclose(list(record["iou"].values()), iou)
    assert list(record["iou"]) == ["background", "foreground"]
    assert record["mean_iou"] == pytest.approx(np.mean(iou))
    (here / "broken.jpg").write_bytes(b"no")
    predict = "predict data/images/07.png broken.jpg --model m --scribbles data/scribbles "
    predict += "--out out --probabilities --jobs 1 --cache features"
    assert segment(predict) == 1  # the result is partial
    printed = capsys.readouterr().err
    assert "broken.jpg" in printed
    assert "segmented 1/2" in printed
    files = ["07-confidence.png", "07-overlay.png", "07-probabilities.npz", "07.png"]
    assert sorted(path.name for path in (here / "out").iterdir()) == files
    with np.load("out/07-probabilities.npz") as archive:
        probabilities = archive["probabilities"]
    assert_array_equal(255 * probabilities.argmax(axis=2), read_mask("out/07.png"))
    confidence = read_mask("out/07-confidence.png") / 255
    assert_allclose(confidence, probabilities.max(axis=2), atol=0.004)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert segment(f"{predict} --strict") == 2
        gc.collect()
    assert not warned
    for name in ("05", "06"):
        (here / f"data/images/{name}.png").write_bytes(b"no")
    assert segment(evaluate) == 1
    assert "06.png" in capsys.readouterr().err
    assert json.loads((here / "s.json").read_text())["images"] == 1


@pytest.mark.slow
def test_ctrl_c_during_crf_training_leaves_a_model(here, monkeypatch, capsys):
    write_folder(here, 3, 0)
    record = Loop._record

    def pressed_meanwhile(self):
        record(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Loop, "_record", pressed_meanwhile)
    quick = partial(Segmenter, unaries=QUICK)
    monkeypatch.setattr("structboost.segmentation.command.Segmenter", quick)
    train = "train --images images --masks masks --model m --segments 40 --C 1 --jobs 1"
    with pytest.warns(InterruptedFitWarning):
        assert segment(train) == 130
    assert "1 rounds" in capsys.readouterr().err
    assert len(Segmenter.load("m").history_) == 1


@pytest.mark.slow
def test_ctrl_c_during_prediction_leaves_the_finished_masks(trained, here, monkeypatch, capsys):
    write_folder(here, 2, 7)
    predict, n_calls = Segmenter.mask_and_probabilities, []

    def pressed_meanwhile(self, *arguments):
        n_calls.append(1)
        if len(n_calls) > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return predict(self, *arguments)

    monkeypatch.setattr(Segmenter, "mask_and_probabilities", pressed_meanwhile)
    command = "predict images --out out --jobs 1 --probabilities --model"
    assert segment(command, trained[1]) == 130
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
        ("predict x.png --out o", "give --model FILE, or --scribbles"),
        ("predict x.png --out o --model nothing", "There is no structboost segmenter nothing"),
        ("train --images . --model m", "go together"),
        ("train --images nowhere --masks nowhere --model m", "no folder"),
        ("train --model nowhere/m", "nowhere/m cannot be written"),
        ("train --model m --C -1", "--C is -1.0"),
        ("train --model m --rounds 0", "--rounds is 0"),
        ("train --model m --longest -5", "--longest is -5"),
        ("train --model m --segments 0", "--segments is 0"),
        ("train --model m --seed -1", "--seed is -1"),
        ("predict x.png --out o --model m --jobs 0", "--jobs is 0"),
        ("predict x.png --out o --scribbles s --background 2", "give a class from 0 to 1"),
    ],
)
def test_segment_command_prints_one_line_for_bad_arguments(command, message, here, capsys):
    assert segment(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_log_shows_progress_while_pictures_are_read(trained, here, monkeypatch, capsys):
    """Hundreds of photographs of a camera took minutes, without a sign of life."""
    monkeypatch.setattr(progress, "_PULSE", 0.01)
    monkeypatch.setattr(Segmenter, "_fit", lambda self, *of_superpixels: None)
    made = write_folder(here, 4, seed=0)
    Segmenter(n_segments=40, verbose=1).fit(made.images, made.masks)
    printed = capsys.readouterr().err
    for phase in ("images and masks checked", "classes of superpixels"):
        assert f"{phase} 4/4" in printed
    for command in ("evaluate --images images --masks masks --json s", "predict images --out o"):
        assert segment(f"{command} --jobs 1 --model", trained[1]) == 0
        printed = capsys.readouterr().err
        assert "segmented 0/4" in printed
        assert ("images and masks read 4/4" in printed) == command.startswith("evaluate")
