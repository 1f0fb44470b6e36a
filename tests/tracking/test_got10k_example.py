"""The adapter for the got10k toolkit, against the interface of its class Tracker."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np
import pytest
from PIL import Image

from structboost.tracking import StructBoostTracker, make_synthetic_clip


class Tracker:
    """What got10k 0.1 asks of its subclasses, and what its experiments call."""

    def __init__(self, name, is_deterministic=False):
        self.name, self.is_deterministic = name, is_deterministic

    def track(self, img_files, box, visualize=False):
        boxes = np.zeros((len(img_files), 4))
        for number, file in enumerate(img_files):
            image = Image.open(file)
            if image.mode != "RGB":
                image = image.convert("RGB")
            if number == 0:
                self.init(image, box)
                boxes[0] = box
            else:
                boxes[number] = self.update(image)
        return boxes, np.zeros(len(img_files))


@pytest.fixture
def example(monkeypatch):
    toolkit, trackers = types.ModuleType("got10k"), types.ModuleType("got10k.trackers")
    trackers.Tracker = Tracker
    monkeypatch.setitem(sys.modules, "got10k", toolkit)
    monkeypatch.setitem(sys.modules, "got10k.trackers", trackers)
    monkeypatch.delitem(sys.modules, "examples.got10k_tracker", raising=False)
    yield importlib.import_module("examples.got10k_tracker")
    sys.modules.pop("examples.got10k_tracker", None)


@pytest.mark.slow
def test_got10k_toolkit_receives_the_boxes_of_the_tracking_loop(example, tmp_path):
    clip = make_synthetic_clip(4)
    files = []
    for number, frame in enumerate(clip.frames):
        files.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(frame).save(files[-1])
    adapter = example.Got10kTracker(random_state=3)
    assert (adapter.name, adapter.is_deterministic) == ("StructBoost", True)
    boxes, _ = adapter.track(files, clip.boxes[0])
    ours = StructBoostTracker(random_state=3).init(clip.frames[0], clip.boxes[0])
    wanted = [clip.boxes[0]] + [ours.update(frame) for frame in clip.frames[1:]]
    np.testing.assert_array_equal(boxes, wanted)
    # The same object tracks the next sequence afresh.
    again, _ = adapter.track(files, clip.boxes[0])
    np.testing.assert_array_equal(again, boxes)
