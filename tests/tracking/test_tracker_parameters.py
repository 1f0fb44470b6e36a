"""Each parameter of each tracker changes how it follows the object."""

import numpy as np
import pytest

from structboost.tracking import AdaBoostTracker, StruckTracker, StructBoostTracker
from structboost.tracking.synthetic_clip import make_synthetic_clip

COMMON = {"n_boxes": 50, "every": 2, "lost_below": 0.99, "random_state": 1}
OTHER = {
    StructBoostTracker: {"C": 0.01, "ridge": 3e4, "n_stumps": 20, "n_kept": 11, **COMMON},
    AdaBoostTracker: {"n_rounds": 5, "n_kept": 10, **COMMON},
    StruckTracker: {"budget": 4, "C": 0.01, "width": 20.0, **COMMON},
}
QUICK = {
    StructBoostTracker: {"n_stumps": 100},
    AdaBoostTracker: {"n_rounds": 30},
    StruckTracker: {"budget": 20},
}


@pytest.fixture(scope="module")
def follow():
    clip = make_synthetic_clip(16)
    done = {}

    def boxes_and_confidences(tracker, **changed):
        key = tracker, *changed.items()
        if key not in done:
            settings = {"n_boxes": 40, "every": 1, **QUICK[tracker], **changed}
            follower = tracker(**settings).init(clip.frames[0], clip.boxes[0])
            done[key] = np.array(
                [(*follower.update(frame), follower.confidence) for frame in clip.frames[1:]]
            )
        return done[key]

    return boxes_and_confidences


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tracker", "name"), [(tracker, name) for tracker in OTHER for name in OTHER[tracker]]
)
def test_a_parameter_of_a_tracker_with_another_value_changes_the_track(follow, tracker, name):
    changed = follow(tracker, **{name: OTHER[tracker][name]})
    assert np.isfinite(changed).all()
    assert (changed != follow(tracker)).any()
