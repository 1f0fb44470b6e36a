"""Overlap against pixels that are counted, curves against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structboost.tracking.tracks import (
    PRECISION_THRESHOLDS,
    SUCCESS_THRESHOLDS,
    evaluate,
)

corner, side = st.integers(-6, 12), st.integers(1, 12)
integer_boxes = st.tuples(corner, corner, side, side)
real = st.floats(-1e3, 1e3)
real_boxes = st.tuples(real, real, st.floats(0.01, 1e3), st.floats(0.01, 1e3))


def pixels(box):
    x, y, width, height = box
    return {(column, row) for column in range(x, x + width) for row in range(y, y + height)}


@given(st.lists(st.tuples(integer_boxes, integer_boxes), min_size=1, max_size=4))
def test_measures_count_pixels_and_frames(pairs):
    ours, truth = zip(*pairs, strict=True)
    counted = [len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)) for a, b in pairs]
    middles = (np.array(boxes)[:, :2] + np.array(boxes)[:, 2:] / 2 for boxes in (ours, truth))
    errors = np.hypot(*np.subtract(*middles).T).tolist()
    measures = evaluate(ours, truth)
    assert measures.overlap.tolist() == counted
    assert measures.centre_error.tolist() == errors
    for threshold, share in zip(SUCCESS_THRESHOLDS, measures.success, strict=True):
        assert share == sum(value > threshold for value in counted) / len(pairs)
    for threshold, share in zip(PRECISION_THRESHOLDS, measures.precision, strict=True):
        assert share == sum(value <= threshold for value in errors) / len(pairs)


@given(real_boxes, real_boxes)
def test_overlap_is_symmetric_and_in_range(box, other):
    value = evaluate([box], [other]).overlap[0]
    assert 0 <= value <= 1
    assert value == pytest.approx(evaluate([other], [box]).overlap[0], abs=1e-12)
    assert evaluate([box], [box]).overlap[0] == 1


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
        ([[0, 0, 5, 5], [0, 0, 0, 5]], GOOD, r"boxes\[1\] is .* above 0 in frame 1"),
        (GOOD, [[0, 0, 5, 5], [0, 0, 5, -1]], r"truth\[1\] is .* above 0 in frame 1"),
        ([[0, 0, 5, 5], [np.nan] * 4], GOOD, r"boxes\[1\] is unknown, but the truth of frame 1"),
        ([[0, 0, 5, 5], [0, np.nan, 5, 5]], GOOD, r"boxes\[1\] is .* four finite numbers"),
        ([[0, 0, 5, 5], [0, np.inf, 5, 5]], GOOD, r"boxes\[1\] is .* four finite numbers"),
        (GOOD[:1], GOOD, "boxes has 1 frames and truth 2"),
        (GOOD[0], GOOD, r"boxes has shape \(4,\)"),
        (GOOD, [[np.nan] * 4] * 2, "unknown in all 2 frames"),
    ],
)
def test_evaluate_names_bad_boxes(boxes, truth, message):
    with pytest.raises(ValueError, match=message):
        evaluate(boxes, truth)
