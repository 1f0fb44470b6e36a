"""The segmentation benchmark and its contact sheet on made images with scribbles."""

from __future__ import annotations

import json

import pytest

from benchmarks.ours import segmenting
from benchmarks.papers import segmentation
from benchmarks.runner.commands import main
from structboost.segmentation.crf_training import superpixel_scores
from structboost.segmentation.image_files import write_png
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.segmentation.unaries import combined


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Made images laid out as a set of the data folder; the benchmark made small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(segmenting, "N_SEGMENTS", 60)
    monkeypatch.setattr(segmenting, "BOOSTING_ROUNDS", 10)
    monkeypatch.setattr(segmenting, "CANDIDATES", (0.1, 1.0))
    segmenting.images.cache_clear()
    root = tmp_path / "segmentation" / "grabcut_bsds"
    for folder in ("images", "masks", "scribbles1", "scribbles2"):
        (root / folder).mkdir(parents=True)
    made = make_synthetic_images(8)
    lines = []
    for number, (image, mask, strokes) in enumerate(
        zip(made.images, made.masks, made.scribbles, strict=True)
    ):
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
    where = ["--data", str(data), "--json", str(tmp_path / "made.json")]
    assert (
        main(["run", "segmentation", *where, "--quick", "--results", str(tmp_path / "results")])
        == 0
    )
    page = (tmp_path / "results" / "segmentation.md").read_text()
    for method in ("adaboost_scribbles", "svm_scribbles", *segmenting.CRFS):
        assert f"grabcut_bsds {method} " in page
    assert "structboost_linear_and_stumps - ssvm" in page
    # Trees are searched greedily: nothing is proved, and no gap is shown.
    lines = [
        line for line in page.splitlines() if line.startswith("grabcut_bsds structboost_trees")
    ]
    kept = json.loads((tmp_path / "results" / "segmentation.json").read_text())["records"]
    gaps = {r["method"]: r["gap"] for r in kept if r["metric"] == "mean_iou"}
    assert gaps["structboost_trees"] is None
    assert gaps["ssvm"] is not None
    assert "%" not in lines[0]
    # Both sets of strokes of a photograph are one photograph.
    train = segmenting.images(segmentation.SOURCES["grabcut_bsds"], data, "train")
    assert train.photographs == [0, 1, 2, 3, 4] * 2
    assert len(train.strokes) == 10


def test_records_hold_what_was_measured(data):
    (unit,) = segmentation.units("grabcut_bsds", data, quick=True)
    result = unit.run()
    made = {
        (r["method"], r["metric"]): r
        for r in segmentation.records("grabcut_bsds", [(unit, result)])
    }
    ours, theirs = made[segmenting.OURS, "mean_iou"], made["ssvm", "mean_iou"]
    assert ours["value"] == result["methods"][segmenting.OURS]["mean_iou"]
    assert 0.8 < ours["value"] <= 1
    assert ours["difference"] == pytest.approx(ours["value"] - theirs["value"])
    assert theirs["difference"] is None
    assert ours["C"] in (0.1, 1.0)


@pytest.mark.slow
def test_photographs_without_strokes_have_the_classifiers_alone_beside_the_crfs(data, monkeypatch):
    (data / "segmentation" / "grabcut_bsds").rename(data / "segmentation" / "human_graz")
    monkeypatch.setattr(segmenting, "CRFS", {"ssvm": segmenting.CRFS["ssvm"]})
    (unit,) = segmentation.units("human_graz", data, quick=True)
    methods = unit.run()["methods"]
    assert set(methods) == {"adaboost_words", "svm_words", "unaries", "ssvm"}
    train, test = (
        segmenting.images(segmentation.SOURCES["human_graz"], data, part)
        for part in ("train", "test")
    )
    answers = segmenting.potentials(train, test, seed=0).test_answers
    labels = [combined(answer).argmax(axis=1) for answer in answers]
    assert methods["unaries"]["mean_iou"] == superpixel_scores(test.counts, labels).mean_iou
    assert 0 <= methods["unaries"]["precision_recall"] <= 1
