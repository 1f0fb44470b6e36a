"""The segmenter and ``structboost segment``, end to end on made images."""

from __future__ import annotations

import json

import numpy as np
import pytest

from structboost import ModelFileError
from structboost.cli import main
from structboost.segmentation.crf_training import CRFSettings
from structboost.segmentation.image_files import read_mask, write_png
from structboost.segmentation.made_images import made_images
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.unaries import UnarySettings

QUICK = UnarySettings(n_folds=2, group_rounds=5)


def write_folder(root, n, seed):
    """Made images as folders, with masks of 0 and 255, and scribbles."""
    made = made_images(n, random_state=seed)
    for folder in ("images", "masks", "scribbles"):
        (root / folder).mkdir(parents=True)
    for number in range(n):
        name = f"{number:02d}.png"
        write_png(root / "images" / name, made.images[number])
        write_png(root / "masks" / name, made.masks[number] * 255)
        write_png(root / "scribbles" / name, made.scribbles[number])
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    made = made_images(8)
    segmenter = Segmenter(n_segments=100, C=1.0, unaries=QUICK).fit(made.images, made.masks)
    path = tmp_path_factory.mktemp("model") / "coins.model"
    segmenter.save(path)
    return segmenter, path


def agreement(segmenter, made, with_scribbles=False):
    return np.mean(
        [
            np.mean(segmenter.predict(image, strokes if with_scribbles else None) == mask)
            for image, mask, strokes in zip(made.images, made.masks, made.scribbles, strict=True)
        ]
    )


def test_new_images_are_segmented_and_files_give_the_same_model(trained):
    segmenter, path = trained
    made = made_images(4, random_state=7)
    assert agreement(segmenter, made) > 0.95
    assert segmenter.history_[-1]["certified"]
    loaded = Segmenter.load(path)
    for image, in_turn in zip(made.images, segmenter.predict_in_turn(made.images), strict=True):
        np.testing.assert_array_equal(loaded.predict(image), segmenter.predict(image))
        np.testing.assert_array_equal(in_turn, segmenter.predict(image))
    assert loaded.C_ == 1.0
    assert loaded.history_ == segmenter.history_


@pytest.mark.parametrize("learner", ["structboost", "ssvm"])
def test_scribbles_are_spread_over_the_image(learner, tmp_path):
    made, fresh = made_images(6), made_images(4, random_state=5)
    settings = CRFSettings(learner=learner)
    segmenter = Segmenter(n_segments=100, C=1.0, crf=settings).fit(made.images, made.masks, made.scribbles)
    assert segmenter.needs_scribbles
    assert agreement(segmenter, fresh, with_scribbles=True) > 0.9
    strokes = fresh.scribbles[0]
    found = segmenter.predict(fresh.images[0], strokes)
    assert (found[strokes == 1] == 1).mean() > 0.95
    with pytest.raises(ValueError, match="give scribbles"):
        segmenter.predict(fresh.images[0])
    with pytest.raises(ValueError, match="one size"):
        segmenter.predict(fresh.images[0], strokes[1:])
    segmenter.save(tmp_path / "m")
    again = Segmenter.load(tmp_path / "m").predict(fresh.images[0], strokes)
    np.testing.assert_array_equal(again, found)


def test_any_size_goes_in_and_comes_out(trained):
    segmenter, _ = trained
    for shape in ((1, 1, 3), (1, 40, 3), (700, 30, 3)):
        image = np.random.default_rng(0).integers(0, 256, size=shape).astype(np.uint8)
        assert segmenter.predict(image).shape == shape[:2]


def test_damaged_and_foreign_models_are_refused(trained, tmp_path):
    _, path = trained
    (tmp_path / "short").write_bytes(path.read_bytes()[:2000])
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "other.npz", header=np.frombuffer(b'{"format": "x", "version": 1, "features": 1}', np.uint8))
    for name in ("short", "text", "other.npz"):
        with pytest.raises(ModelFileError, match=name):
            Segmenter.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Segmenter.load(tmp_path / "nothing")


def test_bad_training_sets_are_named():
    made = made_images(2)
    with pytest.raises(ValueError, match="2 images and 1 masks"):
        Segmenter().fit(made.images, made.masks[:1])
    with pytest.raises(ValueError, match="too few"):
        Segmenter().fit(made.images[:1], made.masks[:1])
    with pytest.raises(ValueError, match=r"masks\[1\]"):
        Segmenter().fit(made.images, [made.masks[0], made.masks[1][1:]])
    with pytest.raises(ValueError, match="at least two"):
        Segmenter().fit(made.images, [0 * mask for mask in made.masks])


def test_three_classes_are_learned_saved_and_loaded(tmp_path):
    made = made_images(4)
    masks = []
    for mask in made.masks:
        three = mask.copy()
        three[:, :80][mask[:, :80] == 0] = 2
        masks.append(three)
    segmenter = Segmenter(n_segments=40, C=1.0, crf=CRFSettings(max_rounds=3), unaries=QUICK).fit(made.images, masks)
    assert not segmenter.history_[-1]["certified"]
    segmenter.save(tmp_path / "three")
    loaded = Segmenter.load(tmp_path / "three")
    found = [loaded.predict(image) for image in made.images]
    np.testing.assert_array_equal(found[0], segmenter.predict(made.images[0]))
    assert np.mean(np.array(found) == np.array(masks)) > 0.7


def test_command_trains_evaluates_and_predicts(tmp_path, capsys):
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
    evaluate = ["segment", "evaluate", *folders, *strokes, "--model", str(model), "--json", str(scores), "--jobs", "1"]
    assert main([*evaluate, "--cache", str(cache)]) == 0
    record = json.loads(scores.read_text())
    assert len(list(cache.iterdir())) == 2
    assert set(record) == {"iou_foreground", "iou_background", "accuracy", "images"}
    assert record["images"] == 2
    assert record["accuracy"] > 0.9
    image = str(tmp_path / "data/images/07.png")
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no")
    arguments = ["segment", "predict", "--model", str(model), image, str(broken), "--out", str(out), *strokes]
    assert main(arguments) == 0
    assert "broken.jpg" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["07-overlay.png", "07.png"]
    assert set(np.unique(read_mask(out / "07.png"))) == {0, 255}
    assert main([*arguments, "--strict"]) == 1


def test_scribbles_alone_are_enough(tmp_path, capsys):
    made = write_folder(tmp_path, 1, 9)
    image, strokes = tmp_path / "images/00.png", tmp_path / "scribbles/00.png"
    out = tmp_path / "out"
    assert main(["segment", "predict", str(image), "--scribbles", str(strokes), "--out", str(out)]) == 0
    assert "made images" in capsys.readouterr().err
    assert np.mean(read_mask(out / "00.png") == made.masks[0]) > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "x.png", "--out", "o"], "give --model FILE, or --scribbles"),
        (["predict", "x.png", "--out", "o", "--model", "nothing"], "no model file"),
        (["train", "--images", ".", "--model", "m"], "go together"),
        (["train", "--images", "nowhere", "--masks", "nowhere", "--model", "m"], "no folder"),
        (["train", "--model", "nowhere/m"], "no folder"),
    ],
)
def test_wrong_arguments_are_a_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["segment", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_masks_never_overwrite_images(trained, tmp_path, capsys):
    write_folder(tmp_path, 2, 0)
    image = str(tmp_path / "images/00.png")
    common = ["segment", "predict", "--model", str(trained[1]), image]
    assert main([*common, "--out", str(tmp_path / "images")]) == 1
    assert "would be overwritten" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    write_png(other / "00.png", made_images(1).images[0])
    assert main([*common, str(other / "00.png"), "--out", str(tmp_path / "out")]) == 1
    assert "rename one" in capsys.readouterr().err
