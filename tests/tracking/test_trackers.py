"""Trackers follow made clips, and their parts are those of plain references."""

import os
import subprocess
import sys

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from skimage import data

from examples.synthetic_clip import make_synthetic_clip
from structboost.inference.boxes import overlaps
from structboost.tracking import BoxTracker, StructBoostTracker, VideoError, evaluate, track_objects
from structboost.tracking.box_features import (
    COLOUR_GRID,
    GRADIENT_GRID,
    GREY_GRID,
    N_ORIENTATIONS,
    ColourPalette,
    box_features,
    frame_planes,
)
from structboost.tracking.object_search import (
    BoxMatch,
    ObjectMotion,
    Recognition,
    Rotation,
    best_box,
    best_box_in_piece,
    object_motion,
    resized,
    rotated_view,
    size_of,
    training_boxes,
)
from structboost.tracking.online_learner import N_BINS, FrameStore, StructBoostLearner
from tests.helpers.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clip():
    return make_synthetic_clip(40)


def tracked(tracker, frames, box):
    """Boxes and confidences of the frames after the first."""
    tracker.init(frames[0], box)
    return np.array([[*tracker.update(frame), tracker.confidence] for frame in frames[1:]])


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr("structboost.tracking.online_learner._N_SLOTS", 12)
    monkeypatch.setattr("structboost.tracking.online_learner._N_STUMPS", 80)
    monkeypatch.setattr("structboost.tracking.box_tracker._EVERY", 1)


@pytest.mark.usefixtures("_small")
def test_the_tracker_follows_the_synthetic_clip_in_bounded_memory(clip):
    tracker = StructBoostTracker()
    boxes = tracked(tracker, clip.frames, clip.boxes[0])[:, :4]
    assert evaluate(boxes, clip.boxes[1:]).mean_overlap > 0.8
    assert len(tracker.learner.weights) <= 160
    assert len(tracker.learner.pool) <= 51
    assert tracker.learner.frames.n_frames == 12


@pytest.mark.usefixtures("_small")
def test_each_parameter_with_another_value_changes_the_track(clip):
    followed, *others = (
        tracked(StructBoostTracker(**changed), clip.frames[:16], clip.boxes[0])
        for changed in ({}, {"C": 0.01}, {"ridge": 3e4}, {"random_state": 1})
    )
    for changed in others:
        assert np.isfinite(changed).all()
        assert (changed != followed).any()


_BOXES = """
import cv2
from examples.synthetic_clip import make_synthetic_clip
from structboost.tracking import StructBoostTracker

cv2.setNumThreads(1)
clip = make_synthetic_clip(6)
tracker = StructBoostTracker().init(clip.frames[0], clip.boxes[0])
for frame in clip.frames[1:]:
    print(*map(float.hex, [*tracker.update(frame), tracker.confidence]))
"""


def test_boxes_do_not_depend_on_threads_or_kernels_of_blas(clip):
    """On one kind of processor: OpenCV chooses its code by what that can do, too."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "4", "OPENBLAS_CORETYPE": "Nehalem"}
    shown = subprocess.check_output([sys.executable, "-c", _BOXES], text=True, env=environment)
    here = tracked(StructBoostTracker(), clip.frames[:6], clip.boxes[0])
    assert shown.split() == [*map(float.hex, here.ravel())]


class Template:
    """A learner of a user's own: the grey values of the first frame's box."""

    selected = np.arange(144)

    def begin(self, n_boxes, n_features, random):
        self.frames = 0

    def add(self, features, boxes, *, first):
        self.frames += 1
        if first:
            self.wanted = features[0, self.selected]

    def train(self, *, initial):
        return self

    def scores(self, features):
        return features @ self.wanted / 144.0


def test_box_tracker_accepts_any_learner(clip):
    tracker = BoxTracker(Template())
    boxes = tracked(tracker, clip.frames[:20], clip.boxes[0])[:, :4]
    assert evaluate(boxes, clip.boxes[1:20]).mean_overlap > 0.5
    assert 6 <= tracker.learner.frames <= 5 + 10  # five samples of the first frame


@pytest.fixture
def lost_tracker(clip):
    """A tracker whose object has just been lost, and frames without it."""
    tracker = StructBoostTracker().init(clip.frames[10], clip.boxes[10])
    for frame in clip.frames[11:20]:
        tracker.update(frame)
        assert not tracker.lost
    empty = cv2.resize(clip.frames[0, :60, :80], (320, 240))
    tracker.update(empty)
    assert tracker.lost
    return tracker, empty


def test_a_lost_object_stays_where_it_was_seen_and_nothing_is_learned(clip, lost_tracker):
    tracker, empty = lost_tracker
    last, codes = tracker.box.copy(), tracker.learner.frames.codes.copy()
    other = cv2.resize(data.astronaut()[290:420, 380:480], (60, 70))
    for step in range(60, 180, 4):  # another thing passes
        frame = empty.copy()
        frame[140:210, step : step + 60] = other
        assert_array_equal(tracker.update(frame), last)
        assert tracker.lost
    assert_array_equal(tracker.learner.frames.codes, codes)
    for frame in clip.frames[20:24]:
        tracker.update(frame)
    assert not tracker.lost
    assert overlaps(clip.boxes[23], tracker.box[None])[0] > 0.7


@pytest.mark.parametrize(("shift", "size"), [((-180, 40), 1.0), ((-170, -60), 1.2)])
def test_a_lost_object_is_found_anywhere_in_the_frame(clip, lost_tracker, shift, size):
    """It comes back more than two of its sizes away, and of another size."""
    tracker, empty = lost_tracker
    for _ in range(4):
        tracker.update(empty)
    x, y, width, height = np.rint(clip.boxes[20]).astype(int)
    head = cv2.resize(clip.frames[20][y : y + height, x : x + width], None, fx=size, fy=size)
    left, top = np.clip(np.add((x, y), shift), 0, np.subtract((320, 240), head.shape[1::-1]))
    truth = np.array([left, top, *head.shape[1::-1]], float)
    assert np.hypot(left - x, top - y) > 2 * size_of(truth) / size
    frame = empty.copy()
    frame[top : top + len(head), left : left + head.shape[1]] = head
    for _ in range(25):
        tracker.update(frame)
    assert not tracker.lost
    assert overlaps(truth, tracker.box[None])[0] > 0.5


@pytest.mark.parametrize(("shape", "n_pieces"), [((90, 120), 1), ((400, 600), 6)])
def test_the_whole_frame_is_searched_in_pieces(shape, n_pieces):
    """Whatever the frame and wherever the object: after all pieces it was the best in one."""
    random = np.random.default_rng(1)
    height, width = shape
    frame = cv2.resize(random.integers(90, 160, (height // 8, width // 8), np.uint8), shape[::-1])
    patch = cv2.resize(random.integers(0, 255, (4, 4), np.uint8), (24, 24))
    learner = Template()

    def score(planes, boxes):
        return learner.scores(box_features(planes, boxes, learner.selected))

    for x, y in ((0, 0), (width - 24, height - 24), (width // 2 - 3, height // 3)):
        image = frame.copy()
        image[y : y + 24, x : x + 24] = patch
        box = np.array([x, y, 24.0, 24.0])
        learner.begin(1, 1, random)
        learner.add(box_features(planes_of(image), box[None]), box[None], first=True)
        found = [best_box_in_piece(score, image, box, PALETTE, k) for k in range(n_pieces + 4)]
        best = max(found[:n_pieces], key=lambda match: match.score)
        assert overlaps(box, best.box[None])[0] > 0.7
        assert best.margin > 0.2
        # Then the other sizes have their turn, and it begins again.
        widths = {round(match.box[2] / 24, 2) for match in found[n_pieces:]}
        assert len(widths) > 1 or n_pieces > 1


def test_several_first_frames_grey_frames_and_another_frame_size(clip):
    tracker = StructBoostTracker().init(list(clip.frames[:3]), clip.boxes[:3])
    assert tracker.n_frames == 3
    assert_array_equal(tracker.box, clip.boxes[2])
    for index, frame in enumerate(clip.frames[3:8]):
        with pytest.warns(UserWarning, match=f"Frame {3 + index} has shape"):
            tracker.update(frame if index % 2 else cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY))
    assert overlaps(clip.boxes[7], tracker.box[None])[0] > 0.7
    # The object's place in frames of another size means nothing, but the loop goes on.
    for size in ((100, 80), (640, 480)):
        assert np.isfinite(tracker.update(cv2.resize(clip.frames[8], size))).all()
    grey = StructBoostTracker().init(clip.frames[0, :, :, 1], clip.boxes[0])
    assert overlaps(clip.boxes[1], grey.update(clip.frames[1, :, :, 1])[None])[0] > 0.7


FLAT = np.full((40, 60), 7, np.uint8)


@pytest.mark.parametrize(
    ("frame", "box", "message"),
    [
        (np.zeros((40, 60)), (1, 1, 9, 9), "frame 0 is float64"),
        (FLAT, (1, 1, 9), r"box has shape \(1, 3\)"),
        (FLAT, (1, 1, 0, 9), "in frame 0 .*sides of at least 3"),
        (FLAT, (70, 1, 9, 9), "60 x 40 pixels; .* a box whose centre"),
        (FLAT, (1, 1, 9, 50), "not larger"),
        ([], np.zeros((0, 4)), "at least one frame"),
        ([FLAT] * 2, [(1, 1, 9, 9)], "each of 2 frames"),
        ([FLAT] * 2, [(1, 1, 9, 9), (99, 1, 9, 9)], "in frame 1"),
    ],
)
def test_bad_first_frames_raise_errors_that_name_them(frame, box, message):
    refused(message, StructBoostTracker().init, frame, box)


@pytest.mark.parametrize(("name", "value"), [("C", 0), ("ridge", -1), ("random_state", -1)])
def test_trackers_name_bad_parameters(name, value):
    refused(f"{name} is {value!r}", StructBoostTracker, **{name: value})


def test_a_flat_frame_and_bad_calls_leave_the_tracker_as_it_was():
    tracker = StructBoostTracker()
    with pytest.raises(RuntimeError, match="init"):
        tracker.update(FLAT)
    tracker.init(FLAT, (20, 10, 20, 20))
    refused("frame 1 is float64", tracker.update, FLAT.astype(float))
    tracker.update(FLAT)
    assert tracker.lost
    assert tracker.n_frames == 2
    assert np.isfinite(tracker.box).all()


def test_runs_over_frames_name_bad_arguments(clip):
    tracker, frames = StructBoostTracker(), list(enumerate(clip.frames))
    for trackers, pairs, boxes, message in (
        ([tracker, BoxTracker(tracker.learner)], frames, clip.boxes[:2], "or a learner, twice"),
        ([tracker], frames, clip.boxes[:2], r"boxes has shape \(2, 4\)"),
        ([tracker], [], clip.boxes[:1], "no frame"),
    ):
        refused(message, track_objects, trackers, pairs, boxes)


def test_tracked_frames_are_returned_when_the_source_ends_early(clip):
    def frames():
        yield from enumerate(clip.frames[:6])
        raise VideoError("frame 6 is damaged")

    (result,) = track_objects([StructBoostTracker()], frames(), clip.boxes[:1])
    assert result.numbers == list(range(6))
    assert_array_equal(result.boxes[0], clip.boxes[0])
    assert not result.complete
    assert "damaged" in str(result.error)
    assert result.fps == pytest.approx(6 / sum(result.latencies))


def some_boxes(rng, n_boxes, n_features):
    boxes = np.column_stack((rng.uniform(0, 9, (n_boxes, 2)), rng.uniform(9, 15, (n_boxes, 2))))
    return rng.normal(size=(n_boxes, n_features)).astype(np.float32), boxes


def learner_of(n_frames=10, n_boxes=4, n_features=3, ridge=1.0):
    rng = np.random.default_rng(0)
    learner = StructBoostLearner(C=20.0, ridge=ridge)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("structboost.tracking.online_learner._N_SLOTS", 10)
        learner.begin(n_boxes, n_features, np.random.RandomState(0))
    for index in range(n_frames):
        learner.add(*some_boxes(rng, n_boxes, n_features), first=index < 1)
    return learner, rng


def responses_of(learner, stumps):
    """Responses of stumps (feature, bin, sign) on all boxes."""
    features, bins, signs = np.array(stumps)[:, :3].T
    return np.where(learner.frames.codes[:, features] <= bins, signs, -signs)


def best_objective(learner, responses):
    """The same problem with a slack for each frame, by a general solver."""
    frames, n = learner.frames, responses.shape[1]
    table = responses.reshape(frames.n_slots, frames.n_boxes, n).astype(float)
    differences = (table[:, :1] - table).reshape(-1, n)
    slot = np.repeat(np.arange(frames.n_slots), frames.n_boxes)
    solution = minimize(
        lambda z: (
            (z[:n] + 0.5 * learner.ridge * z[:n] ** 2).sum() + learner.C * frames.weights @ z[n:]
        ),
        np.concatenate((np.zeros(n), np.full(frames.n_slots, frames.losses.max()))),
        bounds=[(0, None)] * (n + frames.n_slots),
        constraints=[
            {"type": "ineq", "fun": lambda z: differences @ z[:n] + z[n:][slot] - frames.losses}
        ],
        method="SLSQP",
    )
    assert solution.success
    return solution.fun


def test_the_learner_solves_its_problem_also_after_a_frame_was_replaced():
    learner, rng = learner_of(ridge=2.0)
    stumps = np.array([[f, b, sign, 0] for f in range(3) for b in (8, 20) for sign in (1, -1)])
    learner.add_columns(stumps[:5])
    learner.add_columns(stumps[5:])
    for change in (
        lambda: None,
        # The oldest but the first give way; the warm master goes on with what it has.
        lambda: [learner.add(*some_boxes(rng, 4, 3), first=False) for _ in range(8)],
        lambda: learner.keep_columns(np.isin(np.arange(12), [0, 2, 7])),
    ):
        change()
        learner.solve(1e-6, 200)
        expected = best_objective(learner, responses_of(learner, learner.stumps))
        assert learner.objective == pytest.approx(expected, rel=1e-4)
    assert_array_equal(learner.stumps, stumps[[0, 7, 2]])


def test_online_boosting_ends_at_the_optimum_over_all_stumps():
    learner, _ = learner_of()
    learner.boost(60, 1e-6, 100)
    every = [[f, b, sign] for f in range(3) for b in range(N_BINS - 1) for sign in (1, -1)]
    expected = best_objective(learner, responses_of(learner, every))
    assert learner.objective == pytest.approx(expected, rel=1e-3)


def test_the_vote_scores_as_the_responses_do():
    learner, rng = learner_of()
    features, boxes = some_boxes(rng, 4, 3)
    learner.add(features, boxes, first=False)
    vote = learner.train(initial=True)
    rows = learner.frames.rows(1)
    expected = responses_of(learner, learner.stumps)[rows] @ learner.weights
    assert_allclose(vote.scores(features[:, vote.selected]), expected, atol=1e-5)
    assert np.ptp(expected) > 0.1


def test_frame_store_is_a_ring_behind_its_first_frames(monkeypatch):
    monkeypatch.setattr("structboost.tracking.online_learner._FIRST_WEIGHT", 0.7)
    frames = FrameStore(4, 2, 3)
    rng = np.random.default_rng(1)
    tables = rng.integers(-4, 5, (6, 2, 3)).astype(np.float32)  # some equal a threshold
    apart = np.array([[0.0, 0, 5, 5], [9.0, 9, 5, 5]])
    slots = [frames.add(table, apart, first=index < 2) for index, table in enumerate(tables)]
    assert slots == [0, 1, 2, 3, 2, 3]
    assert_allclose(frames.weights, [0.35, 0.35, 0.15, 0.15])
    for index in (0, 1, 4, 5):
        below = (tables[index][:, :, None] > frames.thresholds).sum(axis=2)
        assert_array_equal(frames.codes[frames.rows(slots[index])], below)


def test_training_boxes_lie_around_the_object():
    box = np.array([30.0, 40.0, 20.0, 24.0])
    boxes = training_boxes(box, 200, 1.5, (120, 100), np.random.RandomState(0))
    assert_array_equal(boxes[0], box)
    centres = boxes[:, :2] + boxes[:, 2:] / 2
    assert ((centres >= 0) & (centres <= [99, 119])).all()
    assert np.hypot(*(centres - centres[0]).T).max() <= 1.5 * size_of(box) + 1e-9
    assert np.allclose(boxes[:, 2] / boxes[:, 3], 20 / 24)
    shares = overlaps(box, boxes)
    assert (shares > 0.6).sum() > 40
    assert (shares < 0.2).sum() > 40


BOX = np.array([10.0, 10.0, 20.0, 20.0])


def lost_after_a_usual_run():
    """What is usual: a margin of .6 and a score of .4."""
    recognition = Recognition()
    for _ in range(8):
        recognition.record(BoxMatch(BOX, 0.4, 0.6))
    return recognition


@pytest.mark.parametrize(
    ("score", "margin", "is_near", "stands_out"),
    [
        (0.25, 0.35, True, True),
        (0.15, 0.35, True, False),  # as the hand that held the object
        (0.25, 0.28, True, False),
        (0.05, 0.28, False, True),
        (-0.05, 0.28, False, False),
        (0.25, 0.2, False, True),
        (0.25, 0.16, False, False),
    ],
)
def test_a_candidate_must_stand_out_more_near_its_last_place(score, margin, is_near, stands_out):
    recognition = lost_after_a_usual_run()
    recognition.propose(BoxMatch(BOX, score, margin), BOX, is_near=is_near)
    assert (recognition.candidate is not None) == stands_out


def test_a_lost_object_is_back_when_further_frames_confirm_it():
    recognition = lost_after_a_usual_run()
    clear, vague = BoxMatch(BOX, 0.3, 0.5), BoxMatch(BOX, 0.3, 0.1)
    weak = BoxMatch(BOX, 0.1, 0.175)  # .73 of a usual return
    recognition.propose(clear, BOX, is_near=True)
    assert not recognition.confirm(clear, BOX + 1)
    assert_array_equal(recognition.candidate, BOX + 1)
    assert not recognition.confirm(weak, BOX)
    # There would be evidence enough, but there is no candidate: it begins anew.
    assert not recognition.confirm(vague, BOX)
    for match, wanted in ((clear, [False, True]), (weak, [False, False, False, True])):
        recognition.propose(match, BOX, is_near=match is clear)
        assert [recognition.confirm(match, BOX) for _ in wanted] == wanted


SCENE = np.ascontiguousarray(data.coffee()[:240, 100:420])
FACE = np.ascontiguousarray(data.astronaut()[8:168, 150:310])
SIDE, CENTRE = 70.0, (150, 120)


def spinning(centre, angle, size=SIDE):
    """Scene with a disc of the photograph that is rotated by ``angle``, and the box of the disc."""
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
    assert_allclose(motion.shift, shift, atol=0.5)
    assert motion.log_size == pytest.approx(np.log(growth), abs=0.01)
    assert motion.angle == pytest.approx(angle, abs=0.02)
    assert 0 <= motion.size_deviation < 0.02
    assert 0 <= motion.angle_deviation < 0.02


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
    assert_allclose(own, [20, 20, 70, 70])
    assert_allclose(view.box_in_frame(own), box)
    wanted = upright[100:140, 130:170].astype(float)
    assert np.abs(view.image[35:75, 35:75] - wanted).mean() < 6
    assert np.abs(frame[100:140, 130:170] - wanted).mean() > 20
    # What lies right of it in the view lies along the angle in the frame, and the other way round.
    shift = view.box_in_frame(np.add(own, [10, 0, 0, 0]))[:2] - box[:2]
    assert_allclose(shift, 10 * np.array([np.cos(0.8), np.sin(0.8)]))
    assert_allclose(view.shift_in_view(shift), [10, 0], atol=1e-9)
    same, own = rotated_view(frame, box, 0.0, reach)
    assert same.image is frame
    assert_array_equal(own, box)


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
    # Four steps were seen, so two unknown ones are too many.
    assert gone(rotation, [None] * 20) == pytest.approx(0.6)
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


def test_tracker_follows_an_object_that_rotates_in_place():
    places = [(110 + 2 * k, 110 + 20 * np.sin(0.2 * k)) for k in range(40)]
    frames, boxes = zip(*(spinning(place, 0.12 * k) for k, place in enumerate(places)), strict=True)
    tracker = StructBoostTracker().init(frames[0], boxes[0])
    found = [tracker.update(frame) for frame in frames[1:]]
    shares = [overlaps(true, box[None])[0] for true, box in zip(boxes[1:], found, strict=True)]
    assert np.mean(shares) > 0.85
    assert tracker.angle == pytest.approx(0.12 * 39, abs=0.6)


def test_tracker_follows_the_motion_where_scores_are_flat():
    def flat(planes, boxes):
        return np.zeros(len(boxes))

    frame, box = spinning((150, 120), 0.0)
    planes = frame_planes(frame, np.zeros(2), np.array([320, 240]), PALETTE, 40.0 / SIDE)
    expected = box + np.array([21.0, -14.0, 0, 0])
    found = best_box(flat, planes, box, SIDE, frame.shape, expected)
    assert overlaps(expected, found.box[None])[0] > 0.9
    assert found.score == 0.0
    assert found.margin == 0.0  # the motion does not make it look more like the object
    assert_allclose(resized(flat, planes, box), box, atol=1e-9)  # no size is better


IMAGE = np.random.default_rng(0).integers(0, 256, size=(50, 60)).astype(np.uint8)
BRIGHT = np.full((260, 300), 250, np.uint8)  # squares of all pixels: beyond 32 bits
BRIGHT[200:240, 230:280] = IMAGE[:40, :50]


PALETTE = ColourPalette(IMAGE, 8, 0)


def planes_of(image, scale=1.0):
    return frame_planes(image, np.zeros(2), np.array(image.shape[1::-1]), PALETTE, scale)


def plain_gradients(image):
    """Lengths by orientation of each pixel, shape (height, width, 9), mirrored at the edges."""
    padded = np.pad(image.astype(float), 1, mode="reflect")
    gx = padded[1:-1, 2:] - padded[1:-1, :-2]
    gy = padded[2:, 1:-1] - padded[:-2, 1:-1]
    length = np.hypot(gx, gy)
    angle = np.arctan2(gy, gx) / np.pi * N_ORIENTATIONS
    out = np.zeros((*image.shape, N_ORIENTATIONS))
    low = np.floor(angle).astype(int)
    rows, columns = np.indices(image.shape)
    np.add.at(out, (rows, columns, low % N_ORIENTATIONS), (1 - (angle - low)) * length)
    np.add.at(out, (rows, columns, (low + 1) % N_ORIENTATIONS), (angle - low) * length)
    return out, length


def planes_of_gradients(image):
    """Entries of the integral planes at each pixel, like :func:`plain_gradients`."""
    # Differences of sums that wrap around are right.
    pixels = np.diff(np.diff(planes_of(image).sums, axis=1), axis=2)[2:12] / 8
    return pixels[1:].transpose(1, 2, 0), pixels[0]


def plain_features(image, box):
    """Means over the cells' pixels."""
    x, y, w, h = box
    orientations, lengths = planes_of_gradients(image)

    def mean(plane, grid, column, row, size=1):
        """Mean over ``size`` cells of a grid each way, 0 without pixels."""
        left, right = (max(int(x + c / grid * w + 0.5), 0) for c in (column, column + size))
        top, bottom = (max(int(y + r / grid * h + 0.5), 0) for r in (row, row + size))
        cell = plane[top:bottom, left:right]
        return cell.mean(axis=(0, 1)) if cell.size else np.nan * plane[0, 0]

    grey = image.astype(float)
    whole = mean(grey, 1, 0, 0)
    std = np.sqrt(max(mean(grey**2, 1, 0, 0) - whole**2, 0.0))
    colours = np.eye(PALETTE.n_colours)[PALETTE.labels(image)]
    out = [
        (mean(grey, GREY_GRID, c, r) - whole) / (std + 4.0)
        for r, c in np.ndindex(GREY_GRID, GREY_GRID)
    ]
    for r, c in np.ndindex(GRADIENT_GRID + 2, GRADIENT_GRID + 2):
        around = mean(lengths, GRADIENT_GRID, c - 2, r - 2, 3) + 4.0
        out += list(mean(orientations, GRADIENT_GRID, c - 1, r - 1) / around)
    for r, c in np.ndindex(COLOUR_GRID + 2, COLOUR_GRID + 2):
        out += list(mean(colours, COLOUR_GRID, c - 1, r - 1))
    return np.nan_to_num(out) * np.isfinite(whole)


def test_gradients_are_rounded_to_an_eighth_of_a_grey_level():
    image = BRIGHT
    shares, lengths = planes_of_gradients(image)
    exact_shares, exact_lengths = plain_gradients(image)
    assert np.abs(lengths - exact_lengths).max() <= 1 / 16 + 1e-12
    assert np.abs(shares - exact_shares).max() <= 1 / 8 + 1e-12
    assert (shares.sum(axis=2) == lengths).all()


@given(st.floats(-8, 45), st.floats(-8, 40), st.floats(5, 40), st.floats(5, 40))
def test_features_are_means_over_pixels(x, y, w, h):
    # The second one is beyond where sums wrap around.
    for image, box in (
        (IMAGE, np.array([x, y, w, h])),
        (BRIGHT, np.array([x + 230, y + 200, w, h])),
    ):
        planes = planes_of(image)
        assert (planes.sums < 0).any() == (image is BRIGHT)
        found = box_features(planes, box[None])[0]
        assert_allclose(found, plain_features(image, box), rtol=1e-5, atol=1e-5)


def test_features_do_not_depend_on_the_region_the_scale_the_selection_or_channels():
    boxes = np.array([[20.0, 15.0, 12.0, 14.0], [22.5, 17.0, 10.0, 9.0]])
    planes = planes_of(IMAGE)
    every = box_features(planes, boxes)
    which = np.array([5, every.shape[1] - 1, 144, 0])
    assert_array_equal(box_features(planes, boxes, which), every[:, which])
    part = frame_planes(IMAGE, np.array([11.5, 7.0]), np.array([47.5, 90.0]), PALETTE)
    assert (part.corner, part.sums.shape[1:]) == ((11, 7), (44, 38))
    half = planes_of(np.repeat(np.repeat(IMAGE, 2, axis=0), 2, axis=1), 0.5)
    colour = planes_of(np.dstack([IMAGE] * 3))
    for other, size in ((part, 1), (half, 2), (colour, 1)):
        assert_allclose(box_features(other, size * boxes), every, atol=1e-4)


def test_a_palette_names_the_nearest_colour():
    image = np.zeros((20, 30, 3), np.uint8)
    image[:, 10:20] = (0, 0, 250)
    image[:, 20:] = (0, 250, 0)
    palette = ColourPalette(image, 8, 0)
    assert palette.is_coloured
    assert palette.n_colours == 3
    labels = palette.labels(image)
    assert len(np.unique(labels)) == 3
    assert all((labels[:, k : k + 10] == labels[0, k]).all() for k in (0, 10, 20))
    # A little darker, and in a frame that turns grey: still a label for every pixel.
    assert_array_equal(palette.labels((image * 0.95).astype(np.uint8)), labels)
    assert palette.labels(IMAGE).shape == IMAGE.shape
    assert not ColourPalette(np.repeat(IMAGE[:, :, None], 3, axis=2), 8, 0).is_coloured
