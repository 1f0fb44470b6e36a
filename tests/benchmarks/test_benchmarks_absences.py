"""Made absences: the object is gone, then it is where the truth says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.ours.absences import ABSENT, AFTER, BEFORE, KINDS, made_absence
from benchmarks.ours.trackers import Sequence

LENGTH = BEFORE + ABSENT + AFTER


class Still(Sequence):
    """A bright square at one place of dark noise."""

    def frames(self):
        random = np.random.default_rng(len(self.name))
        frames = random.integers(0, 60, (LENGTH, 60, 80, 3), dtype=np.uint8)
        frames[:, 10:20, 12:24] = self.level
        return list(frames)


def still(name, level):
    sequence = Still(name, Path(), np.tile([12.0, 10, 12, 10], (LENGTH, 1)), None)
    object.__setattr__(sequence, "level", level)
    return sequence


@pytest.mark.parametrize("kind", KINDS)
def test_the_object_is_where_the_truth_says(kind):
    ours, other = still("a", 250), still("bb", 150)
    frames, truth = made_absence(ours, other, kind, np.random.default_rng(0))
    assert len(frames) == len(truth) == LENGTH
    end = LENGTH if kind == "distractor" else BEFORE + ABSENT
    gone = slice(BEFORE, end)
    assert np.isnan(truth[gone]).all()
    assert not np.isnan(np.delete(truth, np.arange(BEFORE, end), axis=0)).any()
    assert max(frame.max() for frame in frames[gone]) < 250
    if kind == "distractor":
        assert min(frame.max() for frame in frames[gone]) >= 150
        return
    for frame, box in zip(frames[end:], truth[end:], strict=True):
        assert np.hypot(*(box[:2] - [12, 10])) >= 2 * np.sqrt(120) - 1
        x, y, width, height = box.astype(int)
        assert (frame[y : y + height, x : x + width] == 250).all()
        assert (frame == 250).all(axis=2).sum() == width * height
