"""The synthetic clip: its boxes hold the object, and it is the same each time."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from structboost.tracking.synthetic_clip import make_synthetic_clip


@pytest.fixture(scope="module")
def clip():
    return make_synthetic_clip()


@pytest.mark.slow
def test_synthetic_clip_is_the_same_each_time():
    clip, again = make_synthetic_clip(20), make_synthetic_clip(12)
    np.testing.assert_array_equal(again.frames, clip.frames[:12])
    np.testing.assert_array_equal(again.boxes, clip.boxes[:12])
    other = make_synthetic_clip(2, random_state=1)
    assert (other.boxes != clip.boxes[:2]).any()


@pytest.mark.slow
def test_true_boxes_of_the_synthetic_clip_hold_the_whole_object(clip, monkeypatch):
    module = sys.modules[
        "structboost.tracking.synthetic_clip"
    ]  # the package has a function of that name
    monkeypatch.setattr(module, "_lay_over", lambda *_: None)
    without = make_synthetic_clip()
    for frame, empty, box in zip(clip.frames, without.frames, clip.boxes, strict=True):
        rows, columns = np.nonzero((frame != empty).any(axis=2))
        corners = np.array([columns.min(), rows.min()]), np.array([columns.max(), rows.max()])
        assert (corners[0] >= box[:2] - 1).all()
        assert (corners[1] <= box[:2] + box[2:]).all()
        assert rows.max() - rows.min() > 0.9 * box[3]  # all of its height, even behind the post


@pytest.mark.slow
def test_synthetic_clip_moves_scales_and_hides_the_object(clip):
    """Moved, scaled, relit and partly hidden, yet smoothly and never for good."""
    centres = clip.boxes[:, :2] + clip.boxes[:, 2:] / 2
    steps = np.hypot(*np.diff(centres, axis=0).T)
    assert steps.max() < 12
    assert np.ptp(centres, axis=0).min() > 60
    assert clip.boxes[:, 2].max() / clip.boxes[:, 2].min() > 1.4
    assert clip.visible[0] == 1
    assert 0.5 < clip.visible.min() < 0.7
    assert 10 < (clip.visible < 1).sum() < 60
    middles = [
        frame[int(y) - 5 : int(y) + 5, int(x) - 5 : int(x) + 5].mean()
        for frame, (x, y) in zip(clip.frames, centres, strict=True)
    ]
    assert max(middles) > 1.5 * min(middles)


@pytest.mark.parametrize("seed", range(1, 6))
def test_synthetic_clip_starts_with_the_whole_object_visible(seed):
    clip = make_synthetic_clip(1, random_state=seed)
    assert clip.visible[0] == 1


def test_synthetic_clip_without_frames_is_refused():
    with pytest.raises(ValueError, match="n_frames is 0"):
        make_synthetic_clip(0)
