"""The tracking benchmark on a made sequence."""

from __future__ import annotations

import json
import signal

import cv2
import numpy as np
import pytest

from benchmarks.ours import trackers
from benchmarks.ours.trackers import load_sequence
from benchmarks.papers import tracking
from benchmarks.runner import commands as command_line
from structboost.tracking.boxes_file import write_boxes
from structboost.tracking.synthetic_clip import make_synthetic_clip

N_FRAMES = 8


@pytest.fixture
def data(tmp_path):
    """A made clip under the name of a sequence."""
    clip = make_synthetic_clip(N_FRAMES)
    images = tmp_path / "data" / "tracking" / "deer" / "img"
    images.mkdir(parents=True)
    for number, frame in enumerate(clip.frames):
        cv2.imwrite(str(images / f"{number:04d}.png"), frame[:, :, ::-1])
    truth = clip.boxes.copy()
    truth[3] = np.nan
    write_boxes(images.parent / "groundtruth.txt", truth)
    write_boxes(images.parent / "groundtruth_mil.txt", clip.boxes + np.array([2.0, 0.0, 0.0, 0.0]))
    return tmp_path / "data"


def arguments(data, tmp_path):
    where = ["--data", str(data), "--json", str(tmp_path / "r.json")]
    return ["run", "tracking", *where, "--only", "deer", "--quick"]


def test_from_frames_to_table_and_plots(data, tmp_path, capsys):
    run = arguments(data, tmp_path)
    assert command_line.main([*run, "--results", str(tmp_path / "results")]) == 0
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
    ends = ("-frames.png", "-sheet.jpg", ".json", ".md", ".png")
    assert written == [f"tracking{end}" for end in ends]
    page = (tmp_path / "results" / "tracking.md").read_text()
    assert "chosen on these seven" in page
    assert "![tracking-frames.png](tracking-frames.png)" in page
    # Boxes are not kept one by one.
    assert (tmp_path / "results" / "tracking.json").stat().st_size < 20_000
    # A second run measures nothing again.
    assert command_line.main(run) == 0
    assert capsys.readouterr().err.count(": kept") == len(tracking.METHODS)


@pytest.mark.parametrize("moment", ["update", "init"])
def test_ctrl_c_in_a_tracker_ends_the_run(data, tmp_path, capsys, monkeypatch, moment):
    """A tracker keeps what it has and returns; the boxes of half the frames are no result."""
    tracker = trackers.TRACKERS["structboost"]
    calls = 0
    called = getattr(tracker, moment)

    def press_in_the_clip(self, image, *box):
        nonlocal calls
        found = called(self, image, *box)
        frame = image[0] if isinstance(image, list) else image
        calls += frame.shape[0] > 48  # not the frames that warm up
        if calls == 1 + 2 * (moment == "update"):
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(tracker, moment, press_in_the_clip)
    assert command_line.main(arguments(data, tmp_path)) == command_line.INTERRUPTED
    assert calls == 1 + 2 * (moment == "update")
    said = capsys.readouterr().err
    assert "Interrupted" in said
    assert "FAILED" not in said
    assert "adaboost" not in said
    assert not list((tmp_path / ".bench").glob("*"))


def test_other_frames_are_other_data(data):
    before = load_sequence("deer", data).content
    image = data / "tracking" / "deer" / "img" / "0004.png"
    cv2.imwrite(str(image), 255 - cv2.imread(str(image)))
    assert load_sequence("deer", data).content != before


def test_a_missing_sequence_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="tracking/coke"):
        tracking.units("coke", tmp_path)


def test_mil_does_not_depend_on_what_a_process_drew_before(data):
    sequence = load_sequence("deer", data)
    first, again = (trackers.track(sequence, "opencv_mil", 0)["boxes"] for _ in range(2))
    assert np.array_equal(first, again)
