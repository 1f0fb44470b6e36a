"""Each parameter of the tracker changes how it follows the object."""

import numpy as np
import pytest

from structboost.tracking import StructBoostTracker
from structboost.tracking.synthetic_clip import make_synthetic_clip

OTHER = {
    "C": 0.01, "ridge": 3e4, "n_stumps": 20, "n_kept": 11, "n_boxes": 50, "every": 2,
    "lost_below": 0.99, "random_state": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def follow():
    clip = make_synthetic_clip(16)

    def boxes_and_confidences(**changed):
        settings = {"n_boxes": 40, "every": 1, "n_stumps": 100, **changed}
        tracker = StructBoostTracker(**settings).init(clip.frames[0], clip.boxes[0])
        return np.array([(*tracker.update(frame), tracker.confidence) for frame in clip.frames[1:]])

    return boxes_and_confidences


@pytest.fixture(scope="module")
def followed(follow):
    return follow()


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER)
def test_a_parameter_of_the_tracker_with_another_value_changes_the_track(follow, followed, name):
    changed = follow(**{name: OTHER[name]})
    assert np.isfinite(changed).all()
    assert (changed != followed).any()
