"""Outlines at full resolution."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structboost.segmentation import StrokeSegmenter
from structboost.segmentation.image_files import resized_mask
from structboost.segmentation.refinement import _expand, refine_mask


def scene(n_classes):
    """Discs of several colours on grey, with noise, and their mask: 240 x 360 pixels."""
    y, x = np.indices((240, 360))
    mask = np.zeros((240, 360), np.uint8)
    for k in range(1, n_classes):
        mask[np.hypot(x - 110 * k, y - 120) < 52] = k
    colours = np.array([(128, 128, 128), (200, 60, 60), (60, 60, 200)])
    noise = np.random.default_rng(0).normal(scale=8.0, size=(240, 360, 3))
    return np.clip(colours[mask] + noise, 0, 255).astype(np.uint8), mask


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("times", [4, 7])
def test_refined_outlines_follow_the_photograph(n_classes, times):
    image, truth = scene(n_classes)
    coarse = resized_mask(truth, (240 // times, 360 // times))
    nearest = resized_mask(coarse, truth.shape)
    found = refine_mask(image, coarse)
    assert (nearest != truth).sum() > 150
    assert (found != truth).sum() < 0.25 * (nearest != truth).sum()
    assert set(np.unique(found)) == set(range(n_classes))


def test_expansion_move_is_the_best_of_all_moves():
    rng = np.random.default_rng(1)
    edges = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)])[rng.permutation(15)[:9]]
    for _ in range(20):
        nodes, weights = rng.uniform(0, 5, size=(6, 3)), rng.uniform(0, 2, size=9)
        labels = rng.integers(3, size=6)
        free = np.flatnonzero((nodes[:, 2] < 4) & (labels != 2))

        def energy(y, nodes=nodes, weights=weights):
            differ = y[edges[:, 0]] != y[edges[:, 1]]
            return nodes[np.arange(6), y].sum() + weights[differ].sum()

        best = energy(labels)
        for chosen in product([False, True], repeat=len(free)):
            moved = labels.copy()
            moved[free[np.array(chosen, bool)]] = 2
            best = min(best, energy(moved))
        found = _expand(labels, 2, nodes, edges, weights)
        assert energy(found) == pytest.approx(best)


def test_refinement_keeps_masks_without_outlines_or_of_full_size():
    image, truth = scene(2)
    assert refine_mask(image, truth) is truth
    np.testing.assert_array_equal(refine_mask(image, truth[:60, :30] * 0), 0 * truth)
    tiny = np.array([[0, 3]], np.uint8)
    assert refine_mask(image[:2, :5], tiny).shape == (2, 5)


def test_strokes_on_a_large_photograph_give_fine_outlines():
    image, truth = scene(2)
    strokes = np.zeros_like(truth)
    strokes[118:122, 90:130], strokes[10:14] = 1, 2
    segmenter = StrokeSegmenter(200, longest=90)
    coarse = segmenter.segment(segmenter.prepare(image), strokes)[0]
    found = segmenter.predict(image, strokes)
    assert (found != truth).sum() < 0.3 * (coarse != truth).sum()
