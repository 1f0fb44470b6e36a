"""The box task against enumeration, overlaps against counted pixels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.inference import candidate_boxes, intersection_over_union

corners = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 9), st.integers(1, 9))


def pixels(box):
    image = np.zeros((24, 24), bool)
    x, y, w, h = box
    image[y : y + h, x : x + w] = True
    return image


@settings(max_examples=60, deadline=None)
@given(corners, st.lists(corners, min_size=1, max_size=5))
def test_overlaps_of_boxes_equal_fractions_of_pixels(box, others):
    counted = [(pixels(box) & pixels(o)).sum() / (pixels(box) | pixels(o)).sum() for o in others]
    np.testing.assert_allclose(intersection_over_union(box, others), counted)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9999))
def test_a_box_overlaps_itself_wholly_however_its_corners_round(seed):
    boxes = np.random.default_rng(seed).uniform(0.1, 50.0, size=(6, 4))
    for k, box in enumerate(boxes):
        shares = intersection_over_union(box, boxes)
        assert shares[k] == 1.0
        assert (np.delete(shares, k) < 1.0).all()


def test_candidate_boxes_fill_a_disc_within_the_image():
    box = np.array([40.0, 30.0, 10.0, 20.0])
    found = candidate_boxes(box, 6.0, 2.0, (100, 120))
    np.testing.assert_array_equal(found[0], box)
    centers = found[:, :2] + found[:, 2:] / 2
    assert (np.hypot(*(centers - [45.0, 40.0]).T) <= 6.0 + 1e-9).all()
    assert len(found) == 29
    assert len(np.unique(found, axis=0)) == len(found)
    np.testing.assert_array_equal(np.unique(found[:, 2]), [10.0])
    edge = candidate_boxes(np.array([0.0, 0.0, 4.0, 4.0]), 5.0, 1.0, (50, 50))
    np.testing.assert_array_equal((edge[:, :2] + 2.0).min(axis=0), [0.0, 0.0])
    corner = candidate_boxes(np.array([46.0, 46.0, 4.0, 4.0]), 5.0, 1.0, (50, 50))
    np.testing.assert_array_equal((corner[:, :2] + 2.0).max(axis=0), [49.0, 49.0])
