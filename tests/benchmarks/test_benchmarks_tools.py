"""The page of the tools: made strokes, outlines, scenes, and from units to targets."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.ours import absences, outlines, segmenters, strokes
from benchmarks.papers import tools
from benchmarks.runner.commands import main
from benchmarks.runner.units import Unit
from structboost.segmentation.image_files import write_png
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.tracking import make_synthetic_clip


def disc(size, radius):
    y, x = np.indices((size, size))
    return (np.hypot(x - size // 2, y - size // 2) < radius).astype(np.uint8)


@pytest.fixture
def data(tmp_path):
    """Made images with strokes, laid out as the set whose strokes are by hand."""
    made, root = make_synthetic_images(3), tmp_path / "segmentation" / "grabcut_bsds"
    pictures = {"images": made.images, "masks": made.masks}
    pictures |= dict.fromkeys(("scribbles1", "scribbles2"), made.scribbles)
    for folder, each in pictures.items():
        (root / folder).mkdir(parents=True)
        for number, pixels in enumerate(each):
            write_png(root / folder / f"{number}.png", pixels)
    (root / "split.txt").write_text("0 train\n1 test\n2 test\n")
    return tmp_path


def test_from_photographs_to_page_and_back(data, tmp_path, monkeypatch, capsys):
    by_hand = tools.KINDS["strokes"]._replace(sources=(tools.BY_HAND,))
    monkeypatch.setitem(tools.KINDS, "strokes", by_hand)
    results = ["--results", str(tmp_path / "results")]
    where = ["tools", "--data", str(data)]
    kept = ["--json", str(tmp_path / "r.json"), "--quick"]
    assert main(["run", *where, *kept, *results]) == 0
    page = (tmp_path / "results" / "tools.md").read_text()
    assert "| strokes by hand, 18 photographs: above GrabCut | " in page
    assert "| training on 1,000 photographs, bytes | - | not measured |" in page
    made = json.loads((tmp_path / "r.json").read_text())
    assert {r["case"] for r in made} == {case for case in tools.STROKES if "made" not in case}
    ours = {r["case"]: r for r in made if r["method"] == "structboost"}
    assert 0.8 < ours["set 1"]["value"] <= 1
    assert ours["set 1"]["value"] == ours["set 2"]["value"]
    assert main(["check", *where, *results, "--share", "0.3"]) == 0
    assert "differ" not in capsys.readouterr().out.replace("0 differ", "")


def test_made_strokes_lie_inside_and_have_a_seed():
    mask = disc(80, 20)
    mask[:, 70:] = 255
    found = strokes.made_strokes(mask, np.random.default_rng(0))
    for value, inside in ((1, mask == 1), (2, mask == 0)):
        assert (found == value).sum() > 20
        assert not (found == value)[~inside].any()
    again = strokes.made_strokes(mask, np.random.default_rng(0))
    np.testing.assert_array_equal(found, again)
    assert (found != strokes.made_strokes(mask, np.random.default_rng(1))).any()


def test_outlines_count_within_their_reach():
    mask = disc(60, 15)
    assert outlines.boundary_f(mask, mask, 0) == 1
    moved = np.roll(mask, 2, axis=1)
    assert outlines.boundary_f(moved, mask, 2) == 1
    assert 0 < outlines.boundary_f(moved, mask, 1) < 0.9
    assert outlines.boundary_f(0 * mask, mask, 9) == 0


def test_an_enlarged_photograph_has_a_sharp_outline():
    mask = disc(60, 15)
    image = np.where(mask[:, :, None] == 1, (200, 40, 40), (40, 40, 200)).astype(np.uint8)
    larger, truth = outlines.enlarged(image, mask, 16 * mask.size)
    assert larger.shape == (240, 240, 3)
    assert truth.mean() == pytest.approx(mask.mean(), rel=0.05)
    steps = np.abs(np.diff(larger[120, :, 0].astype(int)))
    assert steps.max() > 40  # 10 without the sharp outline
    assert truth[120, steps.argmax()] != truth[120, steps.argmax() + 1]


def test_frames_in_a_row_are_a_scene():
    names = [f"one_{k:03d}" for k in range(25)] + [f"two_a_{k}" for k in range(3)]
    scenes = segmenters._scenes(names)
    assert [scenes.count(scene) for scene in dict.fromkeys(scenes)] == [20, 5, 3]


def test_an_encoded_video_is_tracked_like_its_images(monkeypatch):
    clip = make_synthetic_clip(6)
    frames = list(clip.frames)
    sequence = SimpleNamespace(frames=lambda: frames)
    monkeypatch.setattr(absences, "load_sequence", lambda name, data: sequence)
    monkeypatch.setattr(absences, "replace", lambda sequence, folder: folder.stat().st_size)
    monkeypatch.setattr(absences, "track", lambda source, method, seed: {"value": source})
    assert absences.overlap("images", "coke", None, 0) == {"value": sequence}
    assert absences.overlap("mp4", "coke", None, 0)["value"] > 1000


def test_clips_are_counted_and_targets_told():
    counts = {"clips": 3, "held": 3, "noticed": 3, "in_time": 3, "false_returns": 0}
    finished = [
        (Unit("tools", "absences", name, {"case": kind, "seed": None}, "1", dict), dict(counts))
        for kind in absences.KINDS
        for name in ("coke", "girl")
    ]
    finished[-1][1]["false_returns"] = 1
    made = tools.records("absences", finished)
    assert [r["held"] for r in made] == [6, 6, 6]
    told = {one.wanted: one for one in tools.targets(made)}
    assert told["found again within 25 frames, 9 of 10"].measured == "100%"
    assert told["clips with another object: false returns"].met is False
