"""Classifiers of superpixels, built in or the user's, which are trained without the image."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from structboost.files.archive import Part, checked_arrays
from structboost.segmentation import OwnUnaries, Segmenter
from structboost.segmentation.crf import pairwise_potentials, true_labels
from structboost.segmentation.descriptors import describe, label_counts, region_means
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.segmentation.unaries import (
    ALL,
    GROUPS,
    BoostedTrees,
    combine,
    fit_joint,
    fit_trees,
    fit_unaries,
    rows_by_group,
)
from tests.helpers.photographs import QUICK


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_boosted_trees_are_as_accurate_as_scikit_learn(n_classes):
    rng = np.random.default_rng(n_classes)
    rows = rng.normal(size=(4000, 10)).astype(np.float32)
    noisy = rows[:, 0] + rows[:, 1] * rows[:, 2] + 1.5 * rng.normal(size=4000)
    labels = np.digitize(noisy, np.linspace(-1, 1, n_classes - 1)).astype(np.int64)
    train, test = slice(0, 2000), slice(2000, 4000)
    ours = fit_trees(rows[train], labels[train], n_classes, n_rounds=40)
    theirs = HistGradientBoostingClassifier(
        max_iter=40, learning_rate=0.12, max_leaf_nodes=16, l2_regularization=1.0, random_state=0
    ).fit(rows[train], labels[train])
    right = np.arange(2000), labels[test]
    loss = -ours.log_probabilities(rows[test])[right].mean()
    assert loss < 1.04 * -np.log(theirs.predict_proba(rows[test]))[right].mean()


@pytest.mark.parametrize("fit", [partial(fit_trees, n_rounds=3), fit_joint])
def test_classes_that_are_missing_in_training_are_less_likely_and_files_keep_all(fit):
    rows = np.random.default_rng(0).normal(size=(700, 300)).astype(np.float32)
    labels = np.where(rows[:, 0] > 0, 3, 1)
    two = fit(rows.copy(), labels, 4)
    kind, arrays = type(two), two.to_arrays()
    schema = {"": Part(kind.schema, {"n_features": 300, "n_labels": 4})}
    again = kind.from_arrays(checked_arrays(schema, arrays), 4)
    found = again.log_probabilities(rows)
    np.testing.assert_array_equal(found, two.log_probabilities(rows))
    assert np.mean(found.argmax(axis=1) == labels) > 0.95
    assert (found[:, [0, 2]] <= found[:, [1, 3]].min()).all()
    one = fit(rows.copy(), np.full(700, 2), 3).log_probabilities(rows)
    np.testing.assert_array_equal(one.argmax(axis=1), 2)
    broken = [{name: array[:0]} for name, array in arrays.items()] + [{"classes": labels[:2] + 1}]
    if kind is BoostedTrees:
        trees = "feature", "threshold", "leaf"
        broken += [{"feature": arrays["feature"] + 300}]
        broken += [
            {name: arrays[name][part] for name in trees} for part in (np.s_[:, 1:], np.s_[:0])
        ]
    for change in broken:
        with pytest.raises(ValueError, match=r"trees?|array|class"):
            kind.from_arrays(checked_arrays(schema, arrays | change), 4)


def test_the_joint_classifier_takes_signed_roots_of_standardised_features():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 300)).astype(np.float32) * 3 + 1
    labels = (rows[:, 0] + rows[:, 1] > 2).astype(np.int64)
    found = fit_joint(rows.copy(), labels, 2)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    roots = np.sign(scaled) * np.sqrt(np.abs(scaled))
    theirs = LogisticRegression(C=2e-3, max_iter=60).fit(roots, labels).predict_log_proba(roots)
    np.testing.assert_allclose(found.log_probabilities(rows), theirs, atol=1e-3)


def described(n, seed=0):
    made = make_synthetic_images(n, random_state=seed)
    images = [describe(image, 60) for image in made.images]
    pairs = zip(images, made.masks, strict=True)
    return images, [label_counts(image.labels, mask, 2) for image, mask in pairs]


@pytest.mark.slow
def test_log_probabilities_come_from_classifiers_of_other_images():
    """Labels are random: only a classifier that has seen the image can know them."""
    images, _ = described(4)
    rng = np.random.default_rng(1)
    counts = []
    for image in images:
        labels = rng.integers(0, 2, size=image.n_superpixels)
        counts.append(np.eye(2, dtype=np.int64)[labels] * image.sizes[:, None])
    classifiers, found = fit_unaries(images, counts, replace(QUICK, group_rounds=20))
    truth = np.concatenate([count.argmax(axis=1) for count in counts])
    crossed = np.concatenate([combine(rows).argmax(axis=1) for rows in found])
    fitted = [combine(classifiers.log_probabilities(image)).argmax(axis=1) for image in images]
    assert np.mean(crossed == truth) < 0.6
    assert np.mean(np.concatenate(fitted) == truth) > 0.75
    # Those of a group are never on both sides.
    twice = fit_unaries(images[:2] * 2, counts[:2] * 2, QUICK, groups=[0, 1, 0, 1])[1]
    np.testing.assert_array_equal(twice[0], twice[2])
    grouped = np.concatenate([combine(rows).argmax(axis=1) for rows in twice[:2]])
    assert np.mean(grouped == truth[: len(grouped)]) < 0.6


@pytest.mark.slow
def test_classifiers_recognise_the_coins_whatever_the_threads():
    images, counts = described(8)
    train = images[:6], counts[:6], QUICK
    classifiers, found = fit_unaries(*train)
    assert found[0].shape == (images[0].n_superpixels, len(GROUPS) + 1, 2)
    np.testing.assert_allclose(np.exp(found[0]).sum(axis=2), 1.0, rtol=1e-6)
    for image, count in zip(images[6:], counts[6:], strict=True):
        predicted = combine(classifiers.log_probabilities(image)).argmax(axis=1)
        assert np.mean(predicted != count.argmax(axis=1)) < 0.2
    with joblib.parallel_config("threading"):
        again = fit_unaries(*train, n_jobs=2)[1]
    np.testing.assert_array_equal(found[0], again[0])
    assert not np.array_equal(found[0], fit_unaries(*train, random_state=1)[1][0])
    # The last log-probabilities are those of the one joint classifier without the image.
    for image, rows in zip(images, found, strict=False):
        features = rows_by_group(image, classifiers.codebook)[ALL]
        each = [one.log_probabilities(features) for one in classifiers.by_group[ALL]]
        apart = [np.abs(rows[:, -1] - one).max() for one in each]
        assert min(apart) < 1e-5 < max(apart)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["group_rows", "joint_rows"])
def test_classifiers_learn_from_at_most_the_number_of_superpixels_that_is_set(rows):
    images, counts = described(4)
    usual, few = (
        fit_unaries(images, counts, replace(QUICK, **changed))[1][0] for changed in ({}, {rows: 30})
    )
    differs = (usual != few).any(axis=(0, 2))
    assert differs[-1] == (rows == "joint_rows")  # the joint classifier comes last
    assert differs[:-1].all() == (rows == "group_rows")


def test_unaries_need_two_images_and_pixels_that_are_not_void():
    images, counts = described(2)
    with pytest.raises(ValueError, match="at least 2"):
        fit_unaries(images[:1], counts[:1])
    with pytest.raises(ValueError, match="void"):
        fit_unaries(images, [0 * count for count in counts])


def squares(image):
    """Superpixels of 8 x 8 pixels, with odd numbers."""
    y, x = np.indices(image.shape[:2]) // 8
    return 3 + 2 * (y * 1000 + x)


def mean_colours(image, labels):
    return region_means(labels, image) / 255


class Counting(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        self.n_rows_ = len(X)
        return super().fit(X, y)


@pytest.mark.slow
def test_segmenter_learns_from_superpixels_and_features_of_the_user():
    made, fresh = make_synthetic_images(5), make_synthetic_images(2, random_state=7)
    unaries = OwnUnaries(Counting(C=100.0), features=mean_colours, n_folds=2, n_rows=500)
    segmenter = Segmenter(C=1.0, superpixels=squares, unaries=unaries)
    segmenter = clone(segmenter).fit(made.images, made.masks)
    (own,) = segmenter.classifiers_.by_group[ALL]
    assert [one.coef_.shape for one in own.classifiers] == [(1, 3)] * 2
    assert [one.n_rows_ for one in own.classifiers] == [500] * 2
    found = [segmenter.predict(image) for image in fresh.images]
    assert np.mean([f == m for f, m in zip(found, fresh.masks, strict=True)]) > 0.9
    # Each square has one label.
    blocks = found[0].reshape(15, 8, 20, 8)
    assert (blocks == blocks[:, :1, :, :1]).all()
    again = pickle.loads(pickle.dumps(segmenter))
    np.testing.assert_array_equal(again.predict(fresh.images[0]), found[0])
    with pytest.raises(ValueError, match=r"a user's .*joblib\.dump"):
        segmenter.save("nowhere")


@pytest.mark.parametrize(
    ("superpixels", "features", "message"),
    [
        (lambda image: image[:, :, 0] / 2.0, None, r"superpixels\(image\) returned float64"),
        (lambda image: np.zeros((3, 3), int), None, r"returned int64 of shape \(3, 3\)"),
        (None, lambda image, labels: np.ones((2, 4)), r"returned shape \(2, 4\) for \d+ super"),
        (None, lambda image, labels: np.full((labels.max() + 1, 1), np.nan), "not finite"),
    ],
)
def test_bad_functions_of_the_user_raise_clear_errors(superpixels, features, message):
    made = make_synthetic_images(2)
    unaries = OwnUnaries(LogisticRegression(), features)
    segmenter = Segmenter(n_segments=10, C=1.0, superpixels=superpixels, unaries=unaries)
    with pytest.raises(ValueError, match=message) as caught:
        segmenter.fit(made.images, made.masks)
    assert "Raised for images[0]." in caught.value.__notes__


def test_pairwise_potentials_are_never_negative_and_weak_at_outlines():
    images, counts = described(1)
    image, count = images[0], counts[0]
    found = pairwise_potentials(image, count / count.sum(axis=1, keepdims=True))
    assert found.min() >= 0
    label = count.argmax(axis=1)
    across = label[image.edges[:, 0]] != label[image.edges[:, 1]]
    assert found[across, 0].mean() < 0.7 * found[~across, 0].mean()
    lonely = describe(np.zeros((1, 1, 3), np.uint8), 1)
    assert pairwise_potentials(lonely, np.full((1, 2), 0.5)).shape == (0, 7)


def test_true_labels_exclude_void_and_have_weights_by_area():
    truth, kept = true_labels(np.array([[8, 2], [0, 0], [0, 10]]))
    np.testing.assert_array_equal(kept, [True, False, True])
    np.testing.assert_array_equal(truth.labels, [0, 1])
    np.testing.assert_allclose(truth.areas, [0.6, 1.0])
    np.testing.assert_array_equal(true_labels(np.array([[8, 2]]), by_area=False)[0].areas, [1.0])
