"""Motion, rotated views and rotation of an object, on images that were moved by known amounts."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from skimage import data

from structboost.inference.boxes import overlaps
from structboost.tracking import StructBoostTracker
from structboost.tracking.box_features import frame_planes
from structboost.tracking.object_search import (
    ObjectMotion,
    Rotation,
    best_box,
    object_motion,
    resized,
    rotated_view,
)

SCENE = np.ascontiguousarray(data.coffee()[:240, 100:420])
FACE = np.ascontiguousarray(data.astronaut()[8:168, 150:310])
SIDE, CENTRE = 70.0, (150, 120)


def spinning(centre, angle, size=SIDE):
    """The scene with a disc of the photograph, rotated by ``angle``; and the box of the disc."""
    cos, sin = size / FACE.shape[0] * np.array([np.cos(angle), np.sin(angle)])
    turn = np.array([[cos, -sin], [sin, cos]])
    matrix = np.column_stack((turn, centre - turn @ [80, 80]))
    disc = cv2.circle(np.zeros(FACE.shape[:2], np.float32), (80, 80), 79, 1.0, -1)
    face, share = (
        cv2.warpAffine(part, matrix, SCENE.shape[1::-1], flags=cv2.INTER_AREA)
        for part in (FACE, disc)
    )
    image = SCENE + share[:, :, None] * (face.astype(np.float32) - SCENE)
    return np.rint(image).astype(np.uint8), np.array([*np.subtract(centre, size / 2), size, size])


@pytest.mark.parametrize("channel", [slice(None), 1])
@pytest.mark.parametrize(
    ("shift", "growth", "angle"), [((6, -4), 1.0, 0.0), ((0, 3), 1.06, 0.0), ((-3, 2), 0.96, 0.1)]
)
def test_object_motion_estimates_shift_growth_and_angle(channel, shift, growth, angle):
    before, box = spinning(CENTRE, 0.3)
    now, _ = spinning(np.add(CENTRE, shift), 0.3 + angle, SIDE * growth)
    motion = object_motion(before[:, :, channel], now[:, :, channel], box)
    np.testing.assert_allclose(motion.shift, shift, atol=0.5)
    assert motion.log_size == pytest.approx(np.log(growth), abs=0.01)
    assert motion.angle == pytest.approx(angle, abs=0.02)
    assert 0 <= min(motion.size_deviation, motion.angle_deviation)
    assert max(motion.size_deviation, motion.angle_deviation) < 0.02


def test_motion_is_unknown_where_points_cannot_be_followed():
    before, box = spinning((150, 120), 0.0)
    noise = np.random.default_rng(0).integers(0, 255, before.shape).astype(np.uint8)
    assert object_motion(before, noise, box) is None
    assert object_motion(before, before[:200], box) is None  # another size of frames
    assert object_motion(before[:8, :8], before[:8, :8], np.array([1.0, 1.0, 5.0, 5.0])) is None


def test_rotated_view_shows_the_object_upright():
    (upright, box), (frame, _), reach = spinning(CENTRE, 0.0), spinning(CENTRE, 0.8), np.full(2, 20)
    view, own = rotated_view(frame, box, 0.8, reach)
    assert view.image.shape == (110, 110, 3)
    np.testing.assert_allclose(own, [20, 20, 70, 70])
    np.testing.assert_allclose(view.box_in_frame(own), box)
    wanted = upright[100:140, 130:170].astype(float)
    assert np.abs(view.image[35:75, 35:75] - wanted).mean() < 6
    assert np.abs(frame[100:140, 130:170] - wanted).mean() > 20
    # What lies right of it in the view lies along the angle in the frame, and the other way round.
    shift = view.box_in_frame(np.add(own, [10, 0, 0, 0]))[:2] - box[:2]
    np.testing.assert_allclose(shift, 10 * np.array([np.cos(0.8), np.sin(0.8)]))
    np.testing.assert_allclose(view.shift_in_view(shift), [10, 0], atol=1e-9)
    same, own = rotated_view(frame, box, 0.0, reach)
    assert same.image is frame
    np.testing.assert_array_equal(own, box)


def motion(angle, spread=0.01):
    return ObjectMotion(np.zeros(2), 0.0, spread, angle, spread)


def gone(rotation, steps, accepted=True):
    for step in steps:
        rotation.decide(rotation.propose(step), accepted)
    return rotation.angle


def test_rotation_continues_through_frames_without_clear_motion():
    rotation = Rotation()
    assert gone(rotation, [motion(0.1)] * 4) == pytest.approx(0.4)
    assert rotation.is_known
    assert gone(rotation, [None, motion(0.3, 0.2)]) == pytest.approx(0.6)
    assert gone(rotation, [None] * 20) == pytest.approx(
        0.6
    )  # four steps were seen: two unknown ones are too many
    assert not rotation.has_begun
    assert gone(rotation, [motion(0.1)] * 4 + [motion(0.0)]) == pytest.approx(1.0)
    assert not rotation.has_begun
    assert gone(rotation, [motion(0.9)] * 9) == pytest.approx(1.0)  # nothing turns that fast


def test_rotation_undoes_steps_that_others_do_not_follow():
    rotation = Rotation()
    assert gone(rotation, [motion(0.1), motion(0.1)]) == pytest.approx(0.2)
    assert rotation.has_begun
    assert gone(rotation, [motion(0.01)]) == 0.0
    assert gone(rotation, [motion(0.1), motion(-0.1)]) == 0.0
    assert gone(rotation, [motion(0.1, 0.2)] * 9) == 0.0  # not one thing
    assert gone(rotation, [motion(0.1)] * 9, accepted=False) == 0.0
    assert not rotation.has_begun


@pytest.mark.slow
def test_tracker_follows_an_object_that_rotates_in_place():
    places = [(110 + 2 * k, 110 + 20 * np.sin(0.2 * k)) for k in range(40)]
    frames, boxes = zip(*(spinning(place, 0.12 * k) for k, place in enumerate(places)), strict=True)
    tracker = StructBoostTracker(n_stumps=200).init(frames[0], boxes[0])
    found = [tracker.update(frame) for frame in frames[1:]]
    shares = [overlaps(true, box[None])[0] for true, box in zip(boxes[1:], found, strict=True)]
    assert np.mean(shares) > 0.85
    assert tracker.angle == pytest.approx(0.12 * 39, abs=0.6)


def test_tracker_follows_the_motion_where_scores_are_flat():
    def flat(planes, boxes):
        return np.zeros(len(boxes))

    frame, box = spinning((150, 120), 0.0)
    planes = frame_planes(frame, np.zeros(2), np.array([320, 240]), scale=40.0 / SIDE)
    expected = box + np.array([21.0, -14.0, 0, 0])
    found = best_box(flat, planes, box, SIDE, frame.shape, expected)
    assert overlaps(expected, found.box[None])[0] > 0.9
    assert found.score == 0.0
    assert found.margin == 0.0  # the motion does not make it look more like the object
    np.testing.assert_allclose(resized(flat, planes, box), box, atol=1e-9)  # no size is better
