"""The segmentation benchmark and its contact sheet on made images with scribbles."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import segmentation, segmentation_sheet
from benchmarks.__main__ import main
from structboost.segmentation.crf_training import superpixel_scores
from structboost.segmentation.image_files import write_png
from structboost.segmentation.made_images import made_images
from structboost.segmentation.unaries import combined


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Made images laid out as a set of the data folder; the benchmark made small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(segmentation, "N_SEGMENTS", 60)
    monkeypatch.setattr(segmentation, "BOOSTING_ROUNDS", 10)
    monkeypatch.setattr(segmentation, "CANDIDATES", (0.1, 1.0))
    segmentation.images.cache_clear()
    root = tmp_path / "segmentation" / "grabcut_bsds"
    for folder in ("images", "masks", "scribbles1", "scribbles2"):
        (root / folder).mkdir(parents=True)
    made = made_images(8)
    lines = []
    for number, (image, mask, strokes) in enumerate(zip(made.images, made.masks, made.scribbles, strict=True)):
        name = f"{number:02d}"
        write_png(root / "images" / f"{name}.png", image)
        write_png(root / "masks" / f"{name}.png", mask)
        write_png(root / "scribbles1" / f"{name}.png", strokes)
        fewer = strokes.copy()
        fewer[:, :20] = 0
        write_png(root / "scribbles2" / f"{name}.png", fewer)
        lines.append(f"{name} {'train' if number < 5 else 'test'}")
    (root / "split.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_all_methods_are_run_recorded_and_shown(data, tmp_path):
    arguments = ["run", "segmentation", "--data", str(data), "--json", str(tmp_path / "made.json"), "--quick"]
    assert main([*arguments, "--results", str(tmp_path / "results")]) == 0
    page = (tmp_path / "results" / "segmentation.md").read_text()
    for method in set(segmentation.METHODS) - {segmentation.UNARIES}:  # strokes need no classifiers
        assert f"grabcut_bsds {method}" in page
    assert "structboost - ssvm" in page
    # Both sets of strokes of a photograph are one photograph.
    train = segmentation.images("grabcut_bsds", data, "train")
    assert train.photographs == [0, 1, 2, 3, 4] * 2
    assert len(train.strokes) == 10


def test_records_hold_what_was_measured(data):
    (unit,) = segmentation.units("grabcut_bsds", data, quick=True)
    result = unit.run()
    made = {(r["method"], r["metric"]): r for r in segmentation.records("grabcut_bsds", [(unit, result)])}
    ours, theirs = made["structboost", "mean_iou"], made["ssvm", "mean_iou"]
    assert ours["value"] == result["methods"]["structboost"]["mean_iou"]
    assert 0.8 < ours["value"] <= 1
    assert ours["difference"] == pytest.approx(ours["value"] - theirs["value"])
    assert theirs["difference"] is None
    assert ours["C"] in (0.1, 1.0)


def test_photographs_without_strokes_have_the_classifiers_alone_beside_the_crfs(data, monkeypatch):
    (data / "segmentation" / "grabcut_bsds").rename(data / "segmentation" / "human_graz")
    monkeypatch.setattr(segmentation, "CRFS", {"ssvm": segmentation.CRFS["ssvm"]})
    (unit,) = segmentation.units("human_graz", data, quick=True)
    methods = unit.run()["methods"]
    assert set(methods) == {"adaboost", "svm", "unaries", "ssvm"}
    train, test = (segmentation.images("human_graz", data, part) for part in ("train", "test"))
    answers = segmentation.potentials(train, test, seed=0).test_answers
    labels = [combined(answer).argmax(axis=1) for answer in answers]
    assert methods["unaries"]["mean_iou"] == superpixel_scores(test.counts, labels).mean_iou
    assert 0 <= methods["unaries"]["precision_recall"] <= 1


def test_the_sheet_has_a_row_an_image(data):
    rows, n_labels = segmentation_sheet.sheet_rows("grabcut_bsds", data, 1.0)
    assert n_labels == 2
    assert len(rows) == 6
    assert list(rows[0][2]) == ["truth", "adaboost", "ssvm", "structboost"]
    assert all(np.unique(mask).max() <= 1 for mask in rows[0][2].values())
