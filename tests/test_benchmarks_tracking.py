"""The tracking benchmark on a made sequence."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from benchmarks import __main__ as command_line
from benchmarks import tracking
from benchmarks.sequences import load_sequence
from structboost.tracking.boxes_file import write_boxes
from structboost.tracking.made_clip import made_clip

N_FRAMES = 8


@pytest.fixture
def data(tmp_path):
    """A made clip under the name of a sequence."""
    clip = made_clip(N_FRAMES)
    images = tmp_path / "data" / "tracking" / "deer" / "img"
    images.mkdir(parents=True)
    for number, frame in enumerate(clip.frames):
        cv2.imwrite(str(images / f"{number:04d}.png"), frame)
    truth = clip.boxes.copy()
    truth[3] = np.nan
    write_boxes(images.parent / "groundtruth.txt", truth)
    write_boxes(images.parent / "groundtruth_mil.txt", clip.boxes + np.array([2.0, 0.0, 0.0, 0.0]))
    return tmp_path / "data"


def test_from_frames_to_table_and_plots(data, tmp_path, capsys):
    arguments = [
        "run",
        "tracking",
        "--data",
        str(data),
        "--json",
        str(tmp_path / "r.json"),
        "--only",
        "deer",
        "--quick",
    ]
    assert command_line.main([*arguments, "--results", str(tmp_path / "results")]) == 0
    made = json.loads((tmp_path / "r.json").read_text())
    overlap = {r["method"]: r for r in made if r["metric"] == "overlap"}
    assert set(overlap) == set(tracking.METHODS)
    ours = overlap["structboost"]
    assert ours["value"] > 0.8
    assert 0.5 < ours["overlap_mil"] < ours["value"]
    assert len(ours["boxes"]) == N_FRAMES
    assert ours["fps"] > 1
    assert all(ours[f"{part}_ms"] > 0 for part in ("features", "search", "training"))
    assert f"{ours['value']:.3f}" in capsys.readouterr().out
    written = sorted(p.name for p in (tmp_path / "results").iterdir())
    assert written == ["tracking-frames.png", "tracking-sheet.jpg", "tracking.md", "tracking.png"]
    # A second run measures nothing again.
    assert command_line.main(arguments) == 0
    assert capsys.readouterr().err.count(": kept") == len(tracking.METHODS)


def test_other_frames_are_other_data(data):
    before = load_sequence("deer", data).content
    image = data / "tracking" / "deer" / "img" / "0004.png"
    cv2.imwrite(str(image), 255 - cv2.imread(str(image)))
    assert load_sequence("deer", data).content != before


def test_a_missing_sequence_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="tracking/coke"):
        tracking.units("coke", tmp_path)
