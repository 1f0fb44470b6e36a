"""Superpixels, their neighbourhoods and features, against slow and simple counting; the cache."""

from __future__ import annotations

from dataclasses import replace

import joblib
import networkx as nx
import numpy as np
import pytest
from scipy.ndimage import label as components

from structboost.segmentation.descriptors import (
    adjacency,
    describe,
    label_counts,
    learn_codebook,
    neighbourhood,
    region_means,
    superpixels,
    word_histograms,
)
from structboost.segmentation.feature_cache import Describing, FeatureCache, describe_in_turn
from structboost.segmentation.patch_planes import gradient_planes, integral, patch_cells
from structboost.segmentation.synthetic_images import make_synthetic_images

NOISE = np.random.default_rng(0).integers(0, 256, size=(40, 50, 3)).astype(np.uint8)
HALVES = np.full((40, 50, 3), 30, np.uint8)
HALVES[:, 25:] = 220


@pytest.mark.parametrize(
    "image",
    [NOISE, HALVES, np.zeros((30, 20, 3), np.uint8), NOISE[:1, :1], NOISE[:1], NOISE[:7, :3]],
)
def test_superpixels_are_connected_and_numbered_without_gaps(image):
    labels = superpixels(image, 30)
    assert labels.shape == image.shape[:2]
    n = labels.max() + 1
    assert set(np.unique(labels)) == set(range(n))
    for number in range(n):
        assert components(labels == number)[1] == 1


def test_superpixels_follow_outlines():
    labels = superpixels(HALVES, 40)
    counts = label_counts(labels, (HALVES[:, :, 0] > 100).astype(np.uint8), 2)
    assert counts.min(axis=1).sum() <= 0.02 * labels.size


def test_adjacency_counts_pairs_of_pixels():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, size=(9, 8)).astype(np.int32)
    labels[0, :5] = np.arange(5)
    counted = {}
    for y in range(9):
        for x in range(8):
            for v, u in ((y, x + 1), (y + 1, x)):
                if v < 9 and u < 8 and labels[y, x] != labels[v, u]:
                    pair = tuple(sorted((int(labels[y, x]), int(labels[v, u]))))
                    counted[pair] = counted.get(pair, 0) + 1
    found = adjacency(labels, np.zeros((9, 8, 1)))
    assert (
        dict(zip(map(tuple, found.edges.tolist()), found.boundaries.tolist(), strict=True))
        == counted
    )
    one = adjacency(np.zeros((3, 4), np.int32), np.zeros((3, 4, 1)))
    assert one.edges.shape == (0, 2)


def test_means_and_counts_of_regions_equal_plain_loops():
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(6, dtype=np.int32).reshape(2, 3), 4, axis=0)
    planes = rng.normal(size=(8, 3, 2)).astype(np.float32)
    mask = rng.choice([0, 1, 2, 255], size=(8, 3)).astype(np.uint8)
    means, counts = region_means(labels, planes), label_counts(labels, mask, 3)
    for number in range(6):
        inside = labels == number
        np.testing.assert_allclose(means[number], planes[inside].mean(axis=0), rtol=1e-5)
        np.testing.assert_array_equal(counts[number], [(mask[inside] == c).sum() for c in range(3)])


def test_patch_cells_are_means_of_pixels():
    rng = np.random.default_rng(3)
    planes = rng.random((20, 24, 2)).astype(np.float32)
    cells = patch_cells(integral(planes), np.array([[10.0, 8.0]]), 8.0, 2).reshape(2, 2, 2)
    np.testing.assert_allclose(cells[0, 0], planes[4:8, 6:10].mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(cells[1, 0], planes[8:12, 6:10].mean(axis=(0, 1)), rtol=1e-5)
    outside = patch_cells(integral(planes), np.array([[-50.0, 500.0], [23.9, 0.0]]), 4.0, 4)
    assert np.isfinite(outside).all()


def test_gradients_have_their_length_and_rotate_with_the_image():
    image = np.tile(np.arange(0, 200, 10, dtype=np.uint8), (20, 1))
    across, down = gradient_planes(image), gradient_planes(image.T.copy())
    np.testing.assert_allclose(across[5, 5].sum(), 20.0, rtol=1e-5)
    assert across[5, 5].argmax() == 0
    assert down[5, 5, 4] + down[5, 5, 5] == pytest.approx(20.0, rel=1e-5)


@pytest.mark.parametrize("image", [NOISE, HALVES, NOISE[:1, :1], NOISE[:1], NOISE[:5, :9]])
def test_any_image_is_described(image):
    found = describe(image, 30)
    n = found.n_superpixels
    assert found.sizes.sum() == image.shape[0] * image.shape[1]
    assert (found.positions > 0).all()
    assert (found.positions < 1).all()
    for rows in found.features.values():
        assert rows.shape[0] == n
        assert np.isfinite(rows).all()
    assert len(found.contrasts) == len(found.boundaries) == len(found.edges)
    assert np.isfinite(found.contrasts).all()


def test_contrast_is_the_mean_step_at_the_boundary():
    labels = np.array([[0, 0, 1], [0, 2, 1], [2, 2, 2]], np.int32)
    luv = np.random.default_rng(4).normal(size=(3, 3, 3)).astype(np.float32)
    steps = {}
    neighbours = [(a, b, *n) for a in range(3) for b in range(3) for n in ((a, b + 1), (a + 1, b))]
    for y, x, v, u in neighbours:
        if v < 3 and u < 3 and labels[y, x] != labels[v, u]:
            pair = tuple(sorted((int(labels[y, x]), int(labels[v, u]))))
            steps.setdefault(pair, []).append(np.linalg.norm(luv[y, x] - luv[v, u]))
    edges, _, contrasts = adjacency(labels, luv)
    expected = [np.mean(steps[tuple(pair)]) for pair in edges.tolist()]
    np.testing.assert_allclose(contrasts, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "image", [NOISE[:, :, 0], NOISE.astype(float), NOISE[:0], np.dstack((NOISE, NOISE))]
)
def test_describe_refuses_arrays_that_are_no_photographs(image):
    with pytest.raises(ValueError, match="8 bit RGB"):
        describe(image)


@pytest.mark.slow
def test_word_histograms_are_fractions_of_the_neighbourhood():
    images = [describe(image, 40) for image in make_synthetic_images(3).images]
    codebook = learn_codebook(images, 12)
    np.testing.assert_array_equal(codebook, learn_codebook(images, 12))
    histogram = word_histograms(images[0], codebook)
    assert histogram.shape == (images[0].n_superpixels, 12)
    np.testing.assert_allclose(histogram.sum(axis=1), 1.0, rtol=1e-5)
    graph = nx.Graph(images[0].edges.tolist())
    graph.add_nodes_from(range(images[0].n_superpixels))
    near = neighbourhood(images[0].edges, images[0].n_superpixels, 2).toarray()
    reached = nx.single_source_shortest_path_length(graph, 0, cutoff=2)
    assert set(np.flatnonzero(near[0])) == set(reached)


def test_word_histograms_reach_two_superpixels_away():
    """Neighbourhood size 2 (section 4.5), by breadth-first search and counting."""
    image = describe(make_synthetic_images(1).images[0], 40)
    rng = np.random.default_rng(0)
    codebook = rng.integers(0, 256, (5, image.point_descriptors.shape[1]))
    words = rng.integers(0, 5, len(image.points))
    image = replace(
        image, point_descriptors=codebook[words].astype(np.uint8)
    )  # each point is a word itself
    found = word_histograms(image, codebook.astype(np.float32))
    graph = nx.Graph(image.edges.tolist())
    graph.add_nodes_from(range(image.n_superpixels))
    for superpixel in range(image.n_superpixels):
        near = nx.single_source_shortest_path_length(graph, superpixel, cutoff=2)
        counts = np.bincount(words[np.isin(image.points, list(near))], minlength=5)
        np.testing.assert_allclose(found[superpixel], counts / max(counts.sum(), 1), rtol=1e-5)


def test_feature_cache_returns_equal_features_and_replaces_damaged_files(tmp_path):
    cache = FeatureCache(tmp_path / "features")
    image = make_synthetic_images(1).images[0]
    fresh, kept = cache.describe(image, 40), cache.describe(image, 40)
    for name in ("labels", "edges", "contrasts", "point_descriptors"):
        np.testing.assert_array_equal(getattr(fresh, name), getattr(kept, name))
    assert fresh.features.keys() == kept.features.keys()
    np.testing.assert_array_equal(fresh.features["hog_32"], kept.features["hog_32"])
    path = cache.path(image, 40)
    assert path.is_file()
    assert cache.path(image, 41) != path
    assert cache.path(image[::-1], 40) != path
    path.write_bytes(path.read_bytes()[:1000])
    np.testing.assert_array_equal(cache.describe(image, 40).labels, fresh.labels)
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.slow
def test_processes_do_not_change_features():
    images = make_synthetic_images(3).images
    alone = list(describe_in_turn(images, Describing(40)))
    with joblib.parallel_config("threading", n_jobs=2):
        together = list(describe_in_turn(images, Describing(40), n_jobs=2))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a.labels, b.labels)
        np.testing.assert_array_equal(a.features["gist_64"], b.features["gist_64"])
