"""Overlap against pixels that are counted, curves against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structboost.tracking.metrics import (
    PRECISION_THRESHOLDS,
    SUCCESS_THRESHOLDS,
    evaluate,
    summarised,
)


def overlap(boxes, truth):
    return evaluate(boxes, truth).overlap


def centre_error(boxes, truth):
    return evaluate(boxes, truth).centre_error


corner, side = st.integers(-6, 12), st.integers(1, 12)
integer_boxes = st.tuples(corner, corner, side, side)
real = st.floats(-1e3, 1e3)
real_boxes = st.tuples(real, real, st.floats(0.01, 1e3), st.floats(0.01, 1e3))


def pixels(box):
    x, y, width, height = box
    return {(column, row) for column in range(x, x + width) for row in range(y, y + height)}


@given(st.lists(st.tuples(integer_boxes, integer_boxes), min_size=1, max_size=4))
def test_overlap_counts_pixels(pairs):
    ours, truth = zip(*pairs, strict=True)
    counted = [len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)) for a, b in pairs]
    assert overlap(ours, truth).tolist() == counted


@pytest.mark.slow
@given(real_boxes, real_boxes)
def test_overlap_is_symmetric_and_in_range(box, other):
    value = overlap([box], [other])[0]
    assert 0 <= value <= 1
    assert value == pytest.approx(overlap([other], [box])[0], abs=1e-12)
    assert overlap([box], [box])[0] == 1
    assert centre_error([box], [box])[0] == 0


def test_boxes_that_touch_do_not_overlap():
    assert (
        overlap(
            [[0, 0, 5, 5], [0, 0, 5, 5], [0, 0, 5, 5]], [[5, 0, 5, 5], [0, 5, 5, 5], [5, 5, 2, 2]]
        ).tolist()
        == [0] * 3
    )


def test_centre_error_is_the_distance_of_centres():
    assert centre_error(
        [[0, 0, 10, 10], [0, 0, 2, 2]], [[3, 4, 10, 10], [-1, -1, 4, 4]]
    ).tolist() == [5, 0]


def test_success_and_precision_curves_equal_plain_loops():
    rng = np.random.default_rng(0)
    overlaps = np.append(rng.integers(0, 21, 40) / 20, np.nan)  # many lie on a threshold
    errors = np.append(rng.integers(0, 60, 40).astype(float), np.nan)
    measures = summarised(overlaps, errors)
    success, precision = measures.success, measures.precision
    assert (len(success), len(precision)) == (21, 51)
    for at, threshold in enumerate(SUCCESS_THRESHOLDS):
        assert success[at] == sum(value > threshold for value in overlaps[:-1]) / 40
    for at, threshold in enumerate(PRECISION_THRESHOLDS):
        assert precision[at] == sum(value <= threshold for value in errors[:-1]) / 40


def test_unknown_frames_do_not_count():
    unknown = [np.nan] * 4
    truth = [[0, 0, 10, 10], unknown, [0, 0, 10, 10], unknown]
    boxes = [[0, 0, 10, 10], [0, 0, 1, 1], [30, 0, 10, 10], unknown]
    measures = evaluate(boxes, truth)
    np.testing.assert_array_equal(measures.overlap, [1, np.nan, 0, np.nan])
    np.testing.assert_array_equal(measures.centre_error, [0, np.nan, 30, np.nan])
    assert (measures.n_known, measures.mean_overlap, measures.mean_centre_error) == (2, 0.5, 15)
    assert measures.success.tolist() == [0.5] * 20 + [0]  # no overlap is above 1
    assert measures.success_auc == pytest.approx(10 / 21)
    assert measures.precision.tolist() == [0.5] * 30 + [1] * 21
    assert measures.precision_at_20 == 0.5


GOOD = [[0, 0, 5, 5], [0, 0, 5, 5]]


@pytest.mark.parametrize(
    ("boxes", "truth", "message"),
    [
        ([[0, 0, 5, 5], [0, 0, 0, 5]], GOOD, r"boxes\[1\] is .* without area in frame 1"),
        (GOOD, [[0, 0, 5, 5], [0, 0, 5, -1]], r"truth\[1\] is .* without area in frame 1"),
        ([[0, 0, 5, 5], [np.nan] * 4], GOOD, r"boxes\[1\] is unknown, but the truth of frame 1"),
        (
            [[0, 0, 5, 5], [0, np.nan, 5, 5]],
            GOOD,
            r"boxes\[1\] is .* four finite numbers in frame 1",
        ),
        (
            [[0, 0, 5, 5], [0, np.inf, 5, 5]],
            GOOD,
            r"boxes\[1\] is .* four finite numbers in frame 1",
        ),
        (GOOD[:1], GOOD, "boxes has 1 frames and truth 2"),
        (GOOD[0], GOOD, r"boxes has shape \(4,\)"),
        (GOOD, [[np.nan] * 4] * 2, "unknown in all 2 frames"),
    ],
)
def test_evaluate_names_bad_boxes(boxes, truth, message):
    with pytest.raises(ValueError, match=message):
        evaluate(boxes, truth)
