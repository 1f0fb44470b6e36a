"""Superpixels, their neighbourhoods and features, against slow and simple counting; the cache."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from scipy.ndimage import label as components

from structboost.segmentation.descriptors import (
    Describing,
    StoredImages,
    adjacency,
    describe,
    gradient_planes,
    integral,
    label_counts,
    learn_codebook,
    patch_cells,
    region_means,
    superpixels,
    word_histograms,
)
from structboost.segmentation.synthetic_images import make_synthetic_images

NOISE = np.random.default_rng(0).integers(0, 256, size=(40, 50, 3)).astype(np.uint8)
HALVES = np.full((40, 50, 3), 30, np.uint8)
HALVES[:, 25:] = 220


@pytest.mark.parametrize("image", [NOISE, HALVES, NOISE[:1, :1], NOISE[:1], NOISE[:7, :3]])
def test_any_image_is_described_by_connected_superpixels_without_gaps(image):
    found = describe(image, 30)
    labels, n = found.labels, found.n_superpixels
    assert labels.shape == image.shape[:2]
    assert [components(labels == index)[1] for index in range(n)] == [1] * n
    np.testing.assert_array_equal(found.sizes, np.bincount(labels.ravel(), minlength=n))
    assert ((found.positions > 0) & (found.positions < 1)).all()
    for rows in found.features.values():
        assert len(rows) == n
        assert np.isfinite(rows).all()
    assert np.isfinite(found.contrasts).all()
    assert not found.geometry().features


def test_superpixels_follow_outlines():
    labels = superpixels(HALVES, 40)
    counts = label_counts(labels, (HALVES[:, :, 0] > 100).astype(np.uint8), 2)
    assert counts.min(axis=1).sum() <= 0.02 * labels.size


def test_adjacency_counts_pairs_of_pixels_and_averages_their_steps():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, size=(9, 8)).astype(np.int32)
    values = rng.normal(size=(9, 8, 3))
    steps = defaultdict(list)
    for p in np.ndindex(9, 8):
        for q in ((p[0], p[1] + 1), (p[0] + 1, p[1])):
            if q[0] < 9 and q[1] < 8 and labels[p] != labels[q]:
                pair = tuple(sorted((labels[p], labels[q])))
                steps[pair].append(np.linalg.norm(values[p] - values[q]))
    found, pairs = adjacency(labels, values), sorted(steps)
    np.testing.assert_array_equal(found.edges, pairs)
    np.testing.assert_array_equal(found.boundaries, [len(steps[pair]) for pair in pairs])
    means = [np.mean(steps[pair]) for pair in pairs]
    np.testing.assert_allclose(found.contrasts, means, rtol=1e-5)
    assert adjacency(np.zeros((3, 4), np.int32), np.zeros((3, 4, 1))).edges.shape == (0, 2)


def test_means_and_counts_of_regions_and_patches_are_those_of_their_pixels():
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(6, dtype=np.int32).reshape(2, 3), 4, axis=0)
    planes = rng.normal(size=(8, 3, 2)).astype(np.float32)
    mask = rng.choice([0, 1, 2, 255], size=(8, 3)).astype(np.uint8)
    means, counts = region_means(labels, planes), label_counts(labels, mask, 3)
    for index in range(6):
        inside = labels == index
        np.testing.assert_allclose(means[index], planes[inside].mean(axis=0), rtol=1e-5)
        np.testing.assert_array_equal(counts[index], [(mask[inside] == c).sum() for c in range(3)])
    planes = integral(field := rng.random((20, 24, 2)).astype(np.float32))
    cells = patch_cells(planes, np.array([[10.0, 8.0]]), 8.0, 2)
    wanted = field[4:12, 6:14].reshape(2, 4, 2, 4, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(cells[0], wanted.ravel(), rtol=1e-5)
    assert np.isfinite(patch_cells(planes, np.array([[-50.0, 500], [23.9, 0]]), 4.0, 4)).all()


def test_gradients_have_their_length_and_rotate_with_the_image():
    image = np.tile(np.arange(0, 200, 10, dtype=np.uint8), (20, 1))
    across, down = gradient_planes(image), gradient_planes(image.T.copy())
    np.testing.assert_allclose(across[5, 5].sum(), 20.0, rtol=1e-5)
    assert across[5, 5].argmax() == 0
    assert down[5, 5, 4] + down[5, 5, 5] == pytest.approx(20.0, rel=1e-5)


def test_word_histograms_reach_two_superpixels_away():
    """Neighbourhood size 2 (section 4.5), by breadth-first search and counting."""
    image = describe(make_synthetic_images(1).images[0], 40)
    codebook = learn_codebook([image], 5)
    np.testing.assert_array_equal(codebook, learn_codebook([image], 5))
    rng = np.random.default_rng(0)
    codebook = rng.integers(0, 256, codebook.shape)
    words = rng.integers(0, 5, len(image.points))
    # Each point is a word itself.
    image = replace(image, point_descriptors=codebook[words].astype(np.uint8))
    found = word_histograms(image, codebook.astype(np.float32))
    graph = nx.Graph(image.edges.tolist())
    for superpixel in range(image.n_superpixels):
        near = nx.single_source_shortest_path_length(graph, superpixel, cutoff=2)
        counts = np.bincount(words[np.isin(image.points, list(near))], minlength=5)
        np.testing.assert_allclose(found[superpixel], counts / max(counts.sum(), 1), rtol=1e-5)


class Harm:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.touch, ()


def test_a_cache_returns_equal_features_and_deletes_images_that_were_not_used(tmp_path):
    images = [np.ascontiguousarray(NOISE[i:]) for i in range(3)]
    cached = Describing(4, folder=tmp_path)
    for image in images[:2]:
        for again in (cached(image), cached(image)):
            np.testing.assert_equal(vars(again), vars(describe(image, 4)))
    first, second = sorted(tmp_path.glob("*.npz"), key=lambda path: path.stat().st_mtime)
    os.utime(second, (0, 0))
    replace(cached, most_bytes=int(2.5 * first.stat().st_size))(images[2])
    assert first.exists()
    assert not second.exists()
    # Damaged files are replaced, and code in a file is not run.
    harm = np.array([Harm(tmp_path / "harm")], object)
    for damage in (lambda: os.truncate(first, 1000), lambda: np.savez(first, labels=harm)):
        damage()
        np.testing.assert_array_equal(cached(images[0]).labels, describe(images[0], 4).labels)
    assert not (tmp_path / "harm").exists()
    n_files = len(list(tmp_path.glob("*.npz")))
    replace(cached, n_segments=5)(images[0])
    assert len(list(tmp_path.glob("*.npz"))) == n_files + 1


def test_features_of_the_user_are_computed_once_and_errors_name_the_image(tmp_path):
    images, asked = list(make_synthetic_images(2).images), []

    def features(image, labels):
        asked.append(image)
        return region_means(labels, image)

    def thirds(image):
        return np.indices(image.shape[:2])[1] // 60 * 7

    stored = StoredImages(images, Describing(15, thirds, features, tmp_path))
    for _ in range(2):
        assert [image.n_superpixels for image in stored] == [3, 3]
        own = stored[1].features["own"]
        np.testing.assert_allclose(own, region_means(stored[1].labels, images[1]), rtol=1e-6)
    assert len(asked) == len(stored) == 2
    in_turn = list(Describing(15, thirds, features).in_turn(images, 1))
    np.testing.assert_array_equal(in_turn[1].features["own"], own)
    with pytest.raises(IndexError) as caught:
        StoredImages(images, Describing(15, lambda image: image[999], None, tmp_path))
    assert "Raised for images[0]." in caught.value.__notes__
