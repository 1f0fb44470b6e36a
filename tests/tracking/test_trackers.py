"""The trackers on the synthetic clip, and what they are made of against plain references."""

from __future__ import annotations

import os
import subprocess
import sys

import cv2
import numpy as np
import pytest
from scipy.optimize import minimize
from skimage import data

from structboost.inference.boxes import overlaps
from structboost.tracking import (
    BoxTracker,
    StructBoostTracker,
    VideoError,
    evaluate,
    make_synthetic_clip,
    track_frames,
    track_objects,
)
from structboost.tracking.box_features import ColourPalette, box_features, frame_planes
from structboost.tracking.object_search import (
    BoxMatch,
    Recognition,
    WholeFrameSearch,
    size_of,
    training_boxes,
)
from structboost.tracking.online_master import N_BINS, FrameStore, OnlineMaster
from structboost.tracking.structboost_tracker import StructBoostLearner

N_FRAMES = 40


@pytest.fixture(scope="module")
def clip():
    return make_synthetic_clip(N_FRAMES)


def tracked(tracker, frames, box):
    """Boxes and confidences of all frames."""
    tracker.init(frames[0], box)
    boxes, confidences = [np.asarray(box)], [1.0]
    for frame in frames[1:]:
        boxes.append(tracker.update(frame))
        confidences.append(tracker.confidence)
    return np.array(boxes), np.array(confidences)


@pytest.mark.slow
def test_the_tracker_follows_the_synthetic_clip(clip):
    boxes, _ = tracked(StructBoostTracker(), clip.frames, clip.boxes[0])
    assert evaluate(boxes[1:], clip.boxes[1:]).mean_overlap > 0.8


@pytest.mark.slow
def test_boxes_of_one_seed_are_equal_for_any_number_of_threads(clip):
    n_threads = cv2.getNumThreads()
    found = []
    try:
        for threads in (1, 2):
            cv2.setNumThreads(threads)
            found.append(
                tracked(StructBoostTracker(random_state=3), clip.frames[:12], clip.boxes[0])[0]
            )
    finally:
        cv2.setNumThreads(n_threads)
    np.testing.assert_array_equal(found[0], found[1])
    other = tracked(StructBoostTracker(random_state=4), clip.frames[:12], clip.boxes[0])[0]
    assert (other != found[0]).any()


_BOXES = """
import sys
import cv2
from structboost.tracking import StructBoostTracker, make_synthetic_clip

cv2.setNumThreads(int(sys.argv[1]))
clip = make_synthetic_clip(6)
tracker = StructBoostTracker().init(clip.frames[0], clip.boxes[0])
for frame in clip.frames[1:]:
    print(*map(float.hex, [*tracker.update(frame).tolist(), tracker.confidence]))
"""


@pytest.mark.slow
def test_boxes_do_not_depend_on_threads_or_kernels_of_blas():
    """On one kind of processor: OpenCV chooses its code by what that can do, too."""
    shown = []
    for blas, cv_threads in (
        ({"OPENBLAS_NUM_THREADS": "1"}, "1"),
        ({"OPENBLAS_NUM_THREADS": "4", "OPENBLAS_CORETYPE": "Nehalem"}, "4"),
    ):
        command = [sys.executable, "-c", _BOXES, cv_threads]
        shown.append(
            subprocess.run(
                command, env=os.environ | blas, capture_output=True, text=True, check=True
            ).stdout
        )
    assert len(shown[0].splitlines()) == 5
    assert shown[1] == shown[0]


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


@pytest.mark.slow
def test_box_tracker_accepts_any_learner(clip):
    tracker = BoxTracker(Template(), every=3)
    boxes, _ = tracked(tracker, clip.frames[:20], clip.boxes[0])
    assert evaluate(boxes[1:], clip.boxes[1:20]).mean_overlap > 0.5
    assert 6 <= tracker.learner.frames <= 5 + 7  # five samples of the first frame


@pytest.mark.slow
def test_a_lost_object_is_reported_and_found_again(clip):
    tracker = StructBoostTracker().init(clip.frames[0], clip.boxes[0])
    for frame in clip.frames[1:20]:
        tracker.update(frame)
    assert not tracker.lost
    last = tracker.box.copy()
    before = tracker.learner.frames.codes.copy()
    # The photograph behind it, elsewhere: nothing of the object.
    rng = np.random.default_rng(0)
    for _ in range(12):
        empty = np.clip(
            cv2.resize(clip.frames[0, :60, :80], (320, 240)) + rng.normal(0, 3, (240, 320, 3)),
            0,
            255,
        )
        box = tracker.update(empty.astype(np.uint8))
        assert tracker.lost
        assert tracker.confidence < 0.2
        assert overlaps(last, box[None])[0] > 0.99
    np.testing.assert_array_equal(tracker.learner.frames.codes, before)  # nothing of it was learned
    for number in (20, 21, 22, 23):
        tracker.update(clip.frames[number])
    assert not tracker.lost
    assert overlaps(clip.boxes[23], tracker.box[None])[0] > 0.7


@pytest.fixture
def lost_tracker(clip):
    """A tracker whose object has just been lost, and frames without it."""
    tracker = StructBoostTracker().init(clip.frames[10], clip.boxes[10])
    for frame in clip.frames[11:20]:
        tracker.update(frame)
    empty = cv2.resize(clip.frames[0, :60, :80], (320, 240))
    tracker.update(empty)
    assert tracker.lost
    return tracker, empty


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "size"), [((-180, 40), 1.0), ((-170, -60), 1.2)])
def test_a_lost_object_is_found_anywhere_in_the_frame(clip, lost_tracker, shift, size):
    """It comes back more than two of its sizes away, and of another size."""
    tracker, empty = lost_tracker
    for _ in range(4):
        tracker.update(empty)
    x, y, width, height = np.rint(clip.boxes[20]).astype(int)
    head = clip.frames[20][y : y + height, x : x + width]
    head = cv2.resize(head, (round(size * width), round(size * height)))
    place = np.clip([x + shift[0], y + shift[1]], 0, [320 - head.shape[1], 240 - head.shape[0]])
    truth = np.array([*place, head.shape[1], head.shape[0]], float)
    assert np.hypot(*(truth[:2] - [x, y])) > 2 * size_of(truth) / size
    frame = empty.copy()
    frame[place[1] : place[1] + head.shape[0], place[0] : place[0] + head.shape[1]] = head
    waited = 0
    while tracker.lost and waited < 25:
        tracker.update(frame)
        waited += 1
    assert waited < 25
    assert overlaps(truth, tracker.box[None])[0] > 0.5


@pytest.mark.slow
def test_a_lost_object_is_not_mistaken_for_another_one(lost_tracker):
    tracker, empty = lost_tracker
    last = tracker.box.copy()
    other = cv2.resize(data.astronaut()[290:420, 380:480], (60, 70))
    frame = empty.copy()
    for step in range(30):
        frame[:] = empty
        frame[140:210, 60 + 4 * step : 120 + 4 * step] = other
        tracker.update(frame)
        assert tracker.lost
    np.testing.assert_array_equal(tracker.box, last)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(90, 120), (400, 600)])
def test_the_whole_frame_is_searched_in_pieces(shape):
    """Whatever the frame and wherever the object: after all pieces it was the best in one."""
    random = np.random.default_rng(1)
    frame = cv2.resize(
        random.integers(90, 160, (shape[0] // 8, shape[1] // 8), np.uint8), shape[::-1]
    )
    patch = cv2.resize(random.integers(0, 255, (4, 4), np.uint8), (24, 24))
    template = Template()
    template.begin(0, 0, None)
    palette = ColourPalette(frame, 4, 0)
    for place in ((0, 0), (shape[1] - 24, shape[0] - 24), (shape[1] // 2 - 3, shape[0] // 3)):
        image = frame.copy()
        image[place[1] : place[1] + 24, place[0] : place[0] + 24] = patch
        box = np.array([*place, 24.0, 24.0])
        planes = frame_planes(image, scale=1.0, palette=palette)
        template.add(box_features(planes, box[None]), box[None], first=True)
        search = WholeFrameSearch()
        n_pieces = int(np.prod([np.ceil(side / (480 * 24 / 40)) for side in shape]))
        found = [search.look(template, image, box, palette) for _ in range(n_pieces)]
        best = max(found, key=lambda each: each.score)
        assert overlaps(box, best.box[None])[0] > 0.7
        assert best.margin > 0.2
        # Then the other sizes have their turn, and it begins again.
        widths = [search.look(template, image, box, palette).box[2] / 24 for _ in range(4)]
        assert (len({round(width, 2) for width in widths}) > 1) or n_pieces > 1


@pytest.mark.slow
def test_several_first_frames_grey_frames_and_another_frame_size(clip):
    tracker = StructBoostTracker().init(list(clip.frames[:3]), clip.boxes[:3])
    assert tracker.n_frames == 3
    np.testing.assert_array_equal(tracker.box, clip.boxes[2])
    for number in range(3, 8):
        frame = (
            clip.frames[number]
            if number % 2
            else cv2.cvtColor(clip.frames[number], cv2.COLOR_RGB2GRAY)
        )
        tracker.update(frame)
    assert overlaps(clip.boxes[7], tracker.box[None])[0] > 0.7
    for size in (
        (100, 80),
        (640, 480),
    ):  # the object's place in them means nothing, but the loop goes on
        box = tracker.update(cv2.resize(clip.frames[8], size))
        assert np.isfinite(box).all()
        assert tracker.n_frames in (9, 10)
    grey = StructBoostTracker().init(clip.frames[0, :, :, 1], clip.boxes[0])
    assert overlaps(clip.boxes[1], grey.update(clip.frames[1, :, :, 1])[None])[0] > 0.7


@pytest.mark.slow
def test_memory_of_a_tracker_does_not_grow(clip):
    tracker = StructBoostTracker(n_kept=12, n_stumps=80, every=1)
    tracker.init(clip.frames[0], clip.boxes[0])
    master = tracker.learner.master
    for frame in clip.frames[1:]:
        tracker.update(frame)
        assert master.n_columns <= 160
        assert len(master.pool) <= 51
    assert tracker.learner.frames.n_frames == 12


@pytest.mark.parametrize(
    ("frame", "box", "message"),
    [
        (np.zeros((40, 60)), (1, 1, 9, 9), "frame 0 is float64"),
        (np.zeros((40, 60), np.uint8), "1,1,9,9", "box is '1,1,9,9'; give numbers"),
        (np.zeros((40, 60), np.uint8), (1, 1, 9), r"box has shape \(1, 3\)"),
        (np.zeros((40, 60), np.uint8), (1, 1, 0, 9), "in frame 0; give four finite numbers"),
        (np.zeros((40, 60), np.uint8), (1, np.nan, 9, 9), "in frame 0; give four finite numbers"),
        (np.zeros((40, 60), np.uint8), (70, 1, 9, 9), "60 x 40 pixels; give a box whose centre"),
        (np.zeros((40, 60), np.uint8), (1, 1, 9, 50), "larger than the 60 x 40"),
        ([], np.zeros((0, 4)), "at least one frame"),
        ([np.zeros((40, 60), np.uint8)] * 2, [(1, 1, 9, 9)], "each of 2 frames"),
        ([np.zeros((40, 60), np.uint8)] * 2, [(1, 1, 9, 9), (99, 1, 9, 9)], "in frame 1"),
    ],
)
def test_bad_first_frames_raise_errors_that_name_them(frame, box, message):
    with pytest.raises(ValueError, match=message):
        StructBoostTracker().init(frame, box)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C is 0"),
        ({"n_boxes": 3}, "n_boxes is 3"),
        ({"every": 0}, "every is 0"),
        ({"lost_below": 1.5}, "lost_below is 1.5"),
        ({"lost_below": "low"}, "lost_below is 'low'"),
        ({"n_kept": 3}, "n_kept is 3"),
        ({"n_stumps": 1.5}, "n_stumps is 1.5"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": 0.5}, "random_state is 0.5"),
    ],
)
def test_trackers_name_bad_parameters(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        StructBoostTracker(**parameters)


@pytest.mark.slow
def test_two_objects_need_two_trackers_and_two_learners(clip):
    boxes = clip.boxes[:2, None]
    tracker = StructBoostTracker()
    for trackers in ([tracker, tracker], [tracker, BoxTracker(tracker.learner)]):
        with pytest.raises(ValueError, match="trackers has a tracker, or a learner, twice"):
            track_objects(trackers, enumerate(clip.frames), boxes)


@pytest.mark.slow
def test_frames_without_indices_raise_an_error(clip):
    with pytest.raises(TypeError, match=r"frames gives a ndarray; give .* enumerate\(images\)"):
        track_frames(StructBoostTracker(), clip.frames, clip.boxes[0])


@pytest.mark.slow
def test_calls_in_wrong_order_and_bad_frames_raise_errors(clip):
    tracker = StructBoostTracker()
    with pytest.raises(RuntimeError, match="init"):
        tracker.update(clip.frames[0])
    tracker.init(clip.frames[0], clip.boxes[0])
    with pytest.raises(ValueError, match="frame 1 is float64"):
        tracker.update(clip.frames[1].astype(float))
    tracker.update(clip.frames[1])  # a bad frame leaves it as it was
    assert tracker.n_frames == 2


def test_tracker_survives_a_flat_frame():
    tracker = StructBoostTracker().init(np.full((60, 80), 7, np.uint8), (20, 20, 20, 20))
    tracker.update(np.full((60, 80), 7, np.uint8))
    assert tracker.lost
    assert np.isfinite(tracker.box).all()


@pytest.mark.slow
def test_tracked_frames_are_returned_when_the_source_ends_early(clip):
    def frames():
        yield from enumerate(clip.frames[:6])
        raise VideoError("frame 6 is damaged")

    result = track_frames(StructBoostTracker(), frames(), clip.boxes[0])
    assert len(result) == len(result.latencies) == 6
    assert "damaged" in str(result.error)
    assert result.fps == pytest.approx(6 / sum(result.latencies))
    with pytest.raises(ValueError, match="2 frames for 3 boxes"):
        track_frames(StructBoostTracker(), enumerate(clip.frames[:2]), clip.boxes[:3])


def frame_store(n_frames=4, n_boxes=6, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    frames = FrameStore(n_frames, n_boxes, n_features, first_weight=0.4)
    for number in range(n_frames):
        features, boxes = some_boxes(rng, n_boxes, n_features)
        frames.add(features, boxes, first=number < 1)
    return frames, rng


def some_boxes(rng, n_boxes, n_features):
    boxes = np.column_stack((rng.uniform(0, 9, (n_boxes, 2)), rng.uniform(9, 15, (n_boxes, 2))))
    return rng.normal(size=(n_boxes, n_features)).astype(np.float32), boxes


def best_objective(frames, responses, C, ridge):
    """The same problem with a slack for each frame, by a general solver."""
    n_slots, n_boxes, n = frames.n_slots, frames.n_boxes, responses.shape[1]
    table = responses.reshape(n_slots, n_boxes, n).astype(float)
    differences = (table[:, :1] - table).reshape(-1, n)
    slot = np.repeat(np.arange(n_slots), n_boxes)

    def objective(z):
        return z[:n].sum() + 0.5 * ridge * z[:n] @ z[:n] + C * frames.weights @ z[n:]

    constraint = {
        "type": "ineq",
        "fun": lambda z: differences @ z[:n] + z[n:][slot] - frames.losses,
    }
    start = np.concatenate((np.zeros(n), np.full(n_slots, frames.losses.max())))
    bounds = [(0, None)] * len(start)
    solution = minimize(objective, start, bounds=bounds, constraints=[constraint], method="SLSQP")
    assert solution.success
    return solution.fun


def test_the_online_master_solves_its_problem_also_after_a_frame_was_replaced():
    frames, rng = frame_store()
    master = OnlineMaster(frames, C=20.0, ridge=2.0, max_columns=8)
    responses = rng.choice(np.array([-1, 1], np.int8), (frames.n_slots * frames.n_boxes, 8))
    master.responses[:] = responses
    master.add_columns(5)
    master.add_columns(3)
    master.solve(1e-6, 200)
    assert master.objective == pytest.approx(best_objective(frames, responses, 20.0, 2.0), rel=1e-4)
    # The oldest but the first gives way; the warm master goes on with what it has.
    slot = frames.add(*some_boxes(rng, frames.n_boxes, frames.n_features), first=False)
    assert slot == 1
    responses[frames.rows(slot)] = rng.choice(np.array([-1, 1], np.int8), (frames.n_boxes, 8))
    master.responses[:] = responses
    master.renew(slot)
    master.solve(1e-6, 200)
    assert master.objective == pytest.approx(best_objective(frames, responses, 20.0, 2.0), rel=1e-4)
    order = master.keep_columns(np.isin(np.arange(8), [0, 2, 7]))
    assert order.tolist() == [0, 7, 2]
    master.solve(1e-6, 200)
    assert master.objective == pytest.approx(
        best_objective(frames, responses[:, [0, 2, 7]], 20.0, 2.0), rel=1e-4
    )


def learner_of(n_frames=4, n_boxes=6, n_features=5):
    rng = np.random.default_rng(0)
    learner = StructBoostLearner(C=20.0, ridge=1.0, n_stumps=200, n_kept=10)
    learner.begin(n_boxes, n_features, np.random.RandomState(0))
    for number in range(n_frames):
        learner.add(*some_boxes(rng, n_boxes, n_features), first=number < 1)
    return learner, rng


def test_online_boosting_ends_at_the_optimum_over_all_stumps():
    learner, _ = learner_of(n_features=3)
    frames = learner.frames
    learner.boost(60, 1e-6, 100)
    # Every stump there is: each feature, bin and sign.
    codes = frames.codes
    every = [
        np.where(codes[:, f] <= b, sign, -sign)
        for f in range(3)
        for b in range(N_BINS - 1)
        for sign in (1, -1)
    ]
    responses = np.array(every, np.int8).T
    assert learner.master.objective == pytest.approx(
        best_objective(frames, responses, 20.0, 1.0), rel=1e-3
    )


def test_the_vote_scores_as_the_responses_do():
    learner, rng = learner_of(n_features=4)
    features, boxes = some_boxes(rng, 6, 4)
    learner.add(features, boxes, first=False)
    vote = learner.train(initial=True)
    slot = learner.frames.rows(learner.frames.n_frames - 1)
    master = learner.master
    expected = master.responses[slot, : master.n_columns] @ master.weights
    np.testing.assert_allclose(vote.scores(features[:, vote.selected]), expected, atol=1e-5)


def test_frame_store_is_a_ring_behind_its_first_frames():
    frames = FrameStore(4, 2, 3, first_weight=0.7)
    rng = np.random.default_rng(1)
    tables = rng.normal(size=(6, 2, 3)).astype(np.float32)
    apart = np.array([[0.0, 0, 5, 5], [9.0, 9, 5, 5]])
    slots = [frames.add(table, apart, first=number < 2) for number, table in enumerate(tables)]
    assert slots == [0, 1, 2, 3, 2, 3]
    np.testing.assert_allclose(frames.weights, [0.35, 0.35, 0.15, 0.15])
    for number in (0, 1, 4, 5):
        below = (tables[number][:, :, None] > frames.thresholds).sum(axis=2)
        np.testing.assert_array_equal(frames.codes[frames.rows(slots[number])], below)


def test_training_boxes_lie_around_the_object():
    box = np.array([30.0, 40.0, 20.0, 24.0])
    boxes = training_boxes(box, 200, 1.5, (120, 100), np.random.RandomState(0))
    np.testing.assert_array_equal(boxes[0], box)
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


def test_a_lost_object_is_back_when_two_more_frames_confirm_it():
    recognition = lost_after_a_usual_run()
    clear, vague = BoxMatch(BOX, 0.3, 0.5), BoxMatch(BOX, 0.3, 0.1)
    recognition.propose(clear, BOX, is_near=True)
    assert not recognition.confirm(clear, BOX + 1)
    np.testing.assert_array_equal(recognition.candidate, BOX + 1)
    assert not recognition.confirm(vague, BOX)
    assert recognition.candidate is None  # and it begins anew
    recognition.propose(clear, BOX, is_near=True)
    assert not recognition.confirm(clear, BOX)
    assert recognition.confirm(clear, BOX)


def test_lost_object_that_stands_out_less_needs_more_frames():
    recognition = lost_after_a_usual_run()
    weak = BoxMatch(BOX, 0.1, 0.175)  # .73 of a usual return
    recognition.propose(weak, BOX, is_near=False)
    assert [recognition.confirm(weak, BOX) for _ in range(4)] == [False, False, False, True]
