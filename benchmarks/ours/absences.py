"""Objects that vanish and come back elsewhere, made from the tracking sequences; encoded video."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import cv2
import numpy as np

from benchmarks.ours.trackers import NAMES, load_sequence, track
from structboost.inference.boxes import overlaps
from structboost.tracking import StructBoostTracker, VideoWriter
from structboost.tracking.object_search import size_of
from structboost.vision.images import as_rgb

# "cut": frames of another sequence between two, then the frames moved around; "vanish": the object
# is painted over while the video goes on, then pasted elsewhere; "distractor": it is painted over,
# and the object of another sequence moves around.
KINDS = ("cut", "vanish", "distractor")
ENCODED = "mp4"
BEFORE, ABSENT, AFTER, IN_TIME = 40, 20, 40, 25
CLIPS = 6
_FAR = 2.0  # sizes of the object
_SAME = 0.3  # overlap


class Absence(NamedTuple):
    """Frames, and the true box in each: NaN where there is none."""

    frames: list[np.ndarray]
    truth: np.ndarray


def made_absence(sequence, other, kind, random):
    """The object for BEFORE frames, none for ABSENT, then it is back; None if there is no room."""
    frames, truth = [as_rgb(frame) for frame in sequence.frames()], sequence.truth
    strangers = [as_rgb(frame) for frame in other.frames()]
    length = BEFORE + ABSENT + AFTER
    starts = [
        start
        for start in range(len(frames) - length + 1)
        if not np.isnan(truth[start : start + length]).any()
    ]
    if not starts:
        return None
    at = int(random.choice(starts)) + np.arange(length)
    if kind == "cut":
        at[BEFORE:] -= ABSENT
    frames, truth = [frames[index] for index in at], truth[at].copy()
    last = truth[BEFORE - 1]
    shift = _far_shift(last, frames[0].shape, random)
    if shift is None:
        return None
    stranger = _cut_out(strangers[0], other.truth[0])
    end = BEFORE + ABSENT if kind != "distractor" else length
    for index in range(BEFORE, length):
        image, box, step = frames[index], truth[index].copy(), index - BEFORE
        if index < end and kind == "cut":
            size = image.shape[1::-1]
            frames[index] = cv2.resize(strangers[step % len(strangers)], size)
        elif kind == "cut":
            frames[index] = np.roll(image, shift[::-1], (0, 1))
            truth[index, :2] = box[:2] + shift
        else:
            frames[index] = _painted_over(image, box)
            place = last[:2] + shift + [0.5 * step, 0.0]
            if index >= end:
                truth[index] = _pasted(frames[index], _cut_out(image, box), place)
            elif kind == "distractor":
                same = cv2.resize(stranger, np.maximum(last[2:], 4).astype(int))
                _pasted(frames[index], same, place)
        if index < end:
            truth[index] = np.nan
    return Absence(frames, truth)


def _measured(absence, seed):
    """Whether the object was held, was seen to be lost, came back in time, or falsely."""
    tracker = StructBoostTracker(random_state=seed)
    tracker.init(absence.frames[0], absence.truth[0])
    lost, same = [False], [True]
    for frame, truth in zip(absence.frames[1:], absence.truth[1:], strict=True):
        tracker.update(frame)
        lost.append(tracker.lost)
        same.append(bool(overlaps(tracker.box, truth[None])[0] > _SAME))
    end = int(np.flatnonzero(np.isnan(absence.truth[:, 0]))[-1]) + 1
    back = [n for n in range(end, len(lost)) if same[n] and not lost[n]]
    seen = [n for n in range(BEFORE, end) if lost[n]]
    return {
        "held": same[BEFORE - 1] and not lost[BEFORE - 1],
        "noticed": bool(seen) and seen[0] < BEFORE + 5,
        "in_time": bool(back) and back[0] - end + 1 <= IN_TIME,
        "false_returns": bool(seen) and not all(lost[seen[0] : end]),
    }


def _far_shift(box, shape, random):
    """Whole pixels to a place in the frame that is far away."""
    room = np.maximum(np.array(shape[1::-1]) - box[2:], 1.0)
    for _ in range(1000):
        shift = np.floor(random.uniform(0, room) - box[:2]).astype(int)
        if np.hypot(*shift) >= _FAR * size_of(box):
            return shift
    return None


def _cut_out(image, box):
    left, top, width, height = np.rint(box).astype(int)
    return image[max(top, 0) : top + height, max(left, 0) : left + width]


def _painted_over(image, box):
    mask = np.zeros(image.shape[:2], np.uint8)
    near = np.maximum(np.floor(box[:2] - 0.12 * box[2:]), 0).astype(int)
    far = np.ceil(box[:2] + 1.12 * box[2:]).astype(int)
    mask[near[1] : far[1], near[0] : far[0]] = 255
    return cv2.inpaint(image, mask, 3, cv2.INPAINT_TELEA)


def _pasted(image, part, place):
    """Paste into ``image``; returns the box."""
    height, width = part.shape[:2]
    left, top = np.clip(place, 0, [image.shape[1] - width, image.shape[0] - height]).astype(int)
    image[top : top + height, left : left + width] = part
    return np.array([left, top, width, height], float)


def found_again(source, name, *, case):
    """Counts over the clips of a kind that are made from a sequence."""
    names = [other for other in NAMES if other != name]
    sequence, clips = load_sequence(name, source.folder), []
    for seed in range(CLIPS):
        random = np.random.default_rng([seed, NAMES.index(name), KINDS.index(case)])
        other = load_sequence(str(random.choice(names)), source.folder)
        absence = made_absence(sequence, other, case, random)
        clips += [] if absence is None else [_measured(absence, seed)]
    held = [one for one in clips if one["held"]]
    counts = {key: sum(one[key] for one in held) for key in ("noticed", "in_time", "false_returns")}
    return {"clips": len(clips), "held": len(held), **counts}


def overlap(source, is_encoded, *, case, seed):
    """Mean overlap with the truth, from the images or from the video that is made of them."""
    sequence, tracker = load_sequence(case, source.folder), StructBoostTracker
    if not is_encoded:
        return {"value": track(sequence, tracker, seed)["value"]}
    with TemporaryDirectory() as folder:
        return {
            "value": track(encoded(sequence, Path(folder) / "clip.mp4"), tracker, seed)["value"]
        }


def encoded(sequence, path):
    """The sequence as a video."""
    with VideoWriter(path) as writer:
        for frame in sequence.frames():
            writer.write(as_rgb(frame))
    return replace(sequence, folder=path)
