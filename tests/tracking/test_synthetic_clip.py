"""The synthetic clip: its boxes hold the object, and it is the same each time."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from structboost.tracking.synthetic_clip import make_synthetic_clip


@pytest.mark.slow
def test_synthetic_clip_is_the_same_each_time():
    clip, again = make_synthetic_clip(20), make_synthetic_clip(12)
    np.testing.assert_array_equal(again.frames, clip.frames[:12])
    np.testing.assert_array_equal(again.boxes, clip.boxes[:12])


@pytest.mark.slow
def test_true_boxes_hold_an_object_that_moves_grows_and_hides(monkeypatch):
    clip = make_synthetic_clip()
    # The package has a function of the name of the module.
    module = sys.modules["structboost.tracking.synthetic_clip"]
    monkeypatch.setattr(module, "_lay_over", lambda *_: None)
    without = make_synthetic_clip()
    for frame, empty, box in zip(clip.frames, without.frames, clip.boxes, strict=True):
        places = np.argwhere((frame != empty).any(axis=2))[:, ::-1]
        assert (places.min(axis=0) >= box[:2] - 1).all()
        assert (places.max(axis=0) <= box[:2] + box[2:]).all()
        assert np.ptp(places[:, 1]) > 0.9 * box[3]  # all of its height, even behind the post
    centres = clip.boxes[:, :2] + clip.boxes[:, 2:] / 2
    assert np.hypot(*np.diff(centres, axis=0).T).max() < 12
    assert np.ptp(centres, axis=0).min() > 60
    assert clip.boxes[:, 2].max() / clip.boxes[:, 2].min() > 1.4
    assert 0.5 < clip.visible.min() < 0.7
    assert 10 < (clip.visible < 1).sum() < 60


def test_synthetic_clip_of_any_seed_starts_with_the_whole_object_visible():
    clips = [make_synthetic_clip(1, random_state=seed) for seed in range(6)]
    assert [clip.visible[0] for clip in clips] == [1] * 6
    assert len(np.unique([clip.boxes[0] for clip in clips], axis=0)) == 6


def test_synthetic_clip_without_frames_is_refused():
    with pytest.raises(ValueError, match="n_frames is 0"):
        make_synthetic_clip(0)
