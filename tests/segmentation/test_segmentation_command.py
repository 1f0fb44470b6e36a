"""The command ``structboost segment``, with Ctrl-C, logs and files."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
import warnings
from functools import partial

import numpy as np
import pytest

from structboost import progress
from structboost.cli import main
from structboost.errors import InterruptedFitWarning
from structboost.segmentation.image_files import ReadWhenUsed, read_mask, write_png
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.training.loop import Loop
from tests.helpers.photographs import QUICK, write_folder


@pytest.mark.slow
def test_settings_of_one_file_do_not_affect_the_next(trained, tmp_path):
    image = tmp_path / "image.png"
    write_png(image, make_synthetic_images(1).images[0])
    masks = []
    for more in ([], ["--longest", "9"], []):
        out = ["--out", str(tmp_path / "out"), "--jobs", "1"]
        assert (
            main(["segment", "predict", str(image), "--model", str(trained[1]), *out, *more]) == 0
        )
        masks.append(read_mask(tmp_path / "out/image.png"))
    np.testing.assert_array_equal(masks[0], masks[2])
    assert (masks[0] != masks[1]).any()


@pytest.mark.slow
def test_segment_command_names_void_masks_and_writes_null(trained, tmp_path, capsys):
    made = make_synthetic_images(2, random_state=3)
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    mask_of = {"a": np.full_like(made.masks[0], 255), "b": made.masks[1]}
    for name, image in zip("ab", made.images, strict=True):
        write_png(tmp_path / f"images/{name}.png", image)
        write_png(tmp_path / f"masks/{name}.png", mask_of[name])
    folders = [
        "--images",
        str(tmp_path / "images"),
        "--masks",
        str(tmp_path / "masks"),
        "--jobs",
        "1",
    ]
    scores = tmp_path / "s.json"
    command = ["segment", "evaluate", *folders, "--model", str(trained[1]), "--json", str(scores)]
    assert main(command) == 0
    assert "a.png is void everywhere: nothing of a counts" in capsys.readouterr().err
    assert json.loads(scores.read_text())["accuracy"] > 0.9
    # With a class that is nowhere 255 is void, not foreground: then nothing is known of either
    # image.
    write_png(tmp_path / "masks/b.png", mask_of["a"])
    assert main([*command, "--foreground", "1"]) == 1
    record = json.loads(scores.read_text(), parse_constant=pytest.fail)
    assert {name: record[name] for name in ("iou_foreground", "mean_iou", "accuracy")} == {
        "iou_foreground": None,
        "mean_iou": None,
        "accuracy": None,
    }
    assert record["by_image"]["a"] == {"mean_iou": None, "iou": {"0": None, "1": None}}
    assert record["images"] == 2


@pytest.mark.slow
def test_segment_command_never_overwrites_an_input(trained, tmp_path, capsys, monkeypatch):
    write_folder(tmp_path, 2, 0)
    model = tmp_path / "m"
    model.write_bytes(trained[1].read_bytes())
    (tmp_path / "split").write_text("00 test\n01 train\n")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(model)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(Segmenter, "fit", lambda *_: pytest.fail("the work has begun"))
    monkeypatch.setattr(Segmenter, "predict", lambda *_: pytest.fail("the work has begun"))
    monkeypatch.chdir(tmp_path)
    folders = ["--images", "images", "--masks", "masks", "--split", "split"]
    read = "would overwrite"
    for arguments, message in (
        (["train", *folders, "--model", "images/00.png"], read),
        (["train", *folders, "--model", "./masks/../masks/01.png"], read),
        (["train", *folders, "--model", "split"], read),
        (["train", *folders, "--model", "images"], "is a folder"),
        (["train", *folders, "--model", "new", "--cache", "file"], "--cache file is a file"),
        (["evaluate", *folders, "--model", "m", "--json", "link"], read),
        (["evaluate", *folders, "--model", "m", "--json", "masks/00.png"], read),
        (["evaluate", *folders, "--model", "m", "--json", "none/s.json"], "there is no folder"),
        (["predict", "images/00.png", "--model", "m", "--out", "file"], "--out file is a file"),
        (
            [
                "predict",
                "images/00.png",
                "--model",
                "m",
                "--scribbles",
                "scribbles",
                "--out",
                "scribbles",
            ],
            read,
        ),
        (["predict", "images/00.png", "--scribbles", "masks/00.png", "--out", "masks"], read),
    ):
        assert main(["segment", *arguments]) == 2, arguments
        error = capsys.readouterr().err.splitlines()
        assert message in error[-1], arguments
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_segment_command_trains_evaluates_and_predicts(tmp_path, capsys):
    write_folder(tmp_path / "data", 8, 0)
    split = tmp_path / "split.txt"
    split.write_text("".join(f"{i:02d} {'train' if i < 6 else 'test'}\n" for i in range(8)))
    model, scores, out = tmp_path / "m", tmp_path / "s.json", tmp_path / "out"
    folders = [
        "--images",
        str(tmp_path / "data/images"),
        "--masks",
        str(tmp_path / "data/masks"),
        "--split",
        str(split),
    ]
    strokes = ["--scribbles", str(tmp_path / "data/scribbles")]
    quick = ["--segments", "100", "--C", "1", "--jobs", "1"]
    assert main(["segment", "train", *folders, *strokes, *quick, "--model", str(model)]) == 0
    assert "255 is taken for the foreground" in capsys.readouterr().err
    cache = tmp_path / "features"
    evaluate = [
        "segment",
        "evaluate",
        *folders,
        *strokes,
        "--model",
        str(model),
        "--json",
        str(scores),
        "--jobs",
        "1",
    ]
    assert main([*evaluate, "--cache", str(cache)]) == 0
    record = json.loads(scores.read_text())
    assert len(list(cache.rglob("output.pkl"))) == 2
    assert record["images"] == 2
    assert record["accuracy"] > 0.9
    assert set(record["by_image"]) == {"06", "07"}
    counts = np.array(record["confusion"])
    union = counts.sum(axis=0) + counts.sum(axis=1) - np.diag(counts)
    np.testing.assert_allclose(list(record["iou"].values()), np.diag(counts) / union)
    assert list(record["iou"]) == ["background", "foreground"]
    assert record["mean_iou"] == pytest.approx(np.mean(np.diag(counts) / union))
    image = str(tmp_path / "data/images/07.png")
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no")
    arguments = [
        "segment",
        "predict",
        "--model",
        str(model),
        image,
        str(broken),
        "--out",
        str(out),
        *strokes,
        "--probabilities",
        "--jobs",
        "1",
        "--cache",
        str(cache),
    ]
    assert main(arguments) == 1  # the result is partial
    told = capsys.readouterr().err
    assert "broken.jpg" in told
    assert "segmented 1/2" in told
    files = ["07-confidence.png", "07-overlay.png", "07-probabilities.npz", "07.png"]
    assert sorted(path.name for path in out.iterdir()) == files
    with np.load(out / "07-probabilities.npz") as archive:
        chances = archive["probabilities"]
    np.testing.assert_array_equal(255 * chances.argmax(axis=2), read_mask(out / "07.png"))
    np.testing.assert_allclose(
        read_mask(out / "07-confidence.png") / 255, chances.max(axis=2), atol=0.004
    )
    assert set(np.unique(read_mask(out / "07.png"))) == {0, 255}
    assert main([*arguments, "--strict"]) == 2
    (tmp_path / "data/images/06.png").write_bytes(b"no")
    (tmp_path / "data/images/05.png").write_bytes(b"no")
    assert main(evaluate) == 1
    assert "06.png" in capsys.readouterr().err
    assert json.loads(scores.read_text())["images"] == 1


@pytest.mark.slow
def test_ctrl_c_during_crf_training_leaves_a_model(tmp_path, monkeypatch, capsys):
    write_folder(tmp_path, 3, 0)
    keep = Loop._record

    def pressed_meanwhile(self):
        keep(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Loop, "_record", pressed_meanwhile)
    quick = partial(Segmenter, unaries=QUICK)
    monkeypatch.setattr("structboost.segmentation.command.Segmenter", quick)
    model = tmp_path / "m.model"
    folders = ["--images", str(tmp_path / "images"), "--masks", str(tmp_path / "masks")]
    with pytest.warns(InterruptedFitWarning):
        code = main(
            [
                "segment",
                "train",
                *folders,
                "--model",
                str(model),
                *"--segments 40 --C 1 --jobs 1".split(),
            ]
        )
    assert code == 130
    assert "1 rounds" in capsys.readouterr().err
    assert len(Segmenter.load(model).history_) == 1


@pytest.mark.slow
def test_ctrl_c_during_prediction_leaves_the_finished_masks(trained, tmp_path, monkeypatch, capsys):
    made = make_synthetic_images(2, random_state=7)
    for number, image in enumerate(made.images):
        write_png(tmp_path / f"{number}.png", image)
    predict, n_calls = Segmenter.mask_and_probabilities, []

    def pressed_meanwhile(self, *arguments):
        n_calls.append(1)
        if len(n_calls) > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return predict(self, *arguments)

    monkeypatch.setattr(Segmenter, "mask_and_probabilities", pressed_meanwhile)
    out = tmp_path / "out"
    images = [str(tmp_path / f"{number}.png") for number in range(2)]
    command = ["segment", "predict", *images, "--model", str(trained[1]), "--out", str(out)]
    assert main([*command, "--jobs", "1", "--probabilities"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert (out / "0.png").exists()
    assert not (out / "1.png").exists()


def test_segment_command_works_with_scribbles_alone(tmp_path, capsys):
    made = write_folder(tmp_path, 1, 9)
    image, strokes = tmp_path / "images/00.png", tmp_path / "scribbles/00.png"
    out = tmp_path / "out"
    assert (
        main(["segment", "predict", str(image), "--scribbles", str(strokes), "--out", str(out)])
        == 0
    )
    assert "segmented 1/1" in capsys.readouterr().err
    assert np.mean(read_mask(out / "00.png") == made.masks[0]) > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "x.png", "--out", "o"], "give --model FILE, or --scribbles"),
        (["predict", "x.png", "--out", "o", "--model", "nothing"], "no model file"),
        (["train", "--images", ".", "--model", "m"], "go together"),
        (["train", "--images", "nowhere", "--masks", "nowhere", "--model", "m"], "no folder"),
        (["train", "--model", "nowhere/m"], "no folder"),
        (["train", "--model", "m", "--C", "-1"], "--C is -1.0"),
        (["train", "--model", "m", "--rounds", "0"], "--rounds is 0"),
        (["train", "--model", "m", "--longest", "-5"], "--longest is -5"),
        (["train", "--model", "m", "--segments", "0"], "--segments is 0"),
        (["train", "--model", "m", "--seed", "-1"], "--seed is -1"),
        (["predict", "x.png", "--out", "o", "--model", "m", "--longest", "0"], "--longest is 0"),
        (["predict", "x.png", "--out", "o", "--model", "m", "--jobs", "0"], "--jobs is 0"),
        (
            ["predict", "x.png", "--out", "o", "--scribbles", "s.png", "--background", "2"],
            "--background is 2; give a class from 0 to 1",
        ),
    ],
)
def test_segment_command_prints_one_line_for_bad_arguments(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["segment", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_strict_option_ends_with_the_first_problem(trained, tmp_path):
    write_folder(tmp_path, 2, 0)
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no")
    command = ["predict", "--model", str(trained[1]), str(bad), str(tmp_path / "images")]
    out = ["--out", str(tmp_path / "out"), "--jobs", "2", "--strict"]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert main(["segment", *command, *out]) == 2
        gc.collect()
    assert not warned


class Slow(ReadWhenUsed):
    """Pictures that take long to read."""

    def __getitem__(self, number):
        time.sleep(0.03)
        return super().__getitem__(number)


@pytest.mark.slow
def test_log_shows_progress_while_pictures_are_read(trained, tmp_path, monkeypatch, capsys):
    """Hundreds of photographs of a camera took minutes, without a sign of life."""
    monkeypatch.setattr(progress, "_PULSE", 0.01)
    monkeypatch.setattr(Segmenter, "_fit", lambda self, *of_superpixels: None)
    made = write_folder(tmp_path, 4, seed=0)
    images, masks = (Slow(part, lambda picture: picture) for part in (made.images, made.masks))
    Segmenter(n_segments=40, verbose=1).fit(images, masks)
    told = capsys.readouterr().err
    for phase in ("images and masks checked", "classes of superpixels"):
        assert f"{phase} 2/4" in told
    folder, out, model = (str(tmp_path / name) for name in ("images", "out", trained[1]))
    where = ["--images", folder, "--masks", str(tmp_path / "masks"), "--json", f"{out}.json"]
    for action in (["evaluate", *where], ["predict", folder, "--out", out]):
        assert main(["segment", *action, "--model", model, "--jobs", "1"]) == 0
        told = capsys.readouterr().err
        assert "segmented 0/4" in told
        assert ("images and masks read 4/4" in told) == (action[0] == "evaluate")


@pytest.mark.slow
def test_segment_command_never_writes_masks_over_images(trained, tmp_path, capsys):
    write_folder(tmp_path, 2, 0)
    image = str(tmp_path / "images/00.png")
    common = ["segment", "predict", "--model", str(trained[1]), image]
    assert main([*common, "--out", str(tmp_path / "images")]) == 2
    assert "would overwrite" in capsys.readouterr().err
    folder = tmp_path / "images"
    (folder / "00.png").rename(folder / "photo.jpg")  # the mask would be photo.png
    before = sorted(folder.iterdir())
    (tmp_path / "link").symlink_to(folder)
    for out in (str(folder), str(folder / ".." / "images"), str(tmp_path / "link")):
        assert main([*common[:-1], str(folder), "--out", out]) == 2
        assert "is the folder of the images" in capsys.readouterr().err
        assert sorted(folder.iterdir()) == before
    (folder / "photo.jpg").rename(image)
    other = tmp_path / "other"
    other.mkdir()
    write_png(other / "00.png", make_synthetic_images(1).images[0])
    assert main([*common, str(other / "00.png"), "--out", str(tmp_path / "out")]) == 2
    assert "rename one" in capsys.readouterr().err
