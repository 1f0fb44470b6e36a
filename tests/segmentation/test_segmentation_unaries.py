"""Boosted trees, and that classifiers answer for images that they were not trained on."""

from __future__ import annotations

from dataclasses import replace

import joblib
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from structboost.files.schema import DamagedFileError, Part, checked_arrays
from structboost.segmentation.descriptors import describe, label_counts, word_histograms
from structboost.segmentation.potentials import pairwise_potentials, true_labels
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.segmentation.unaries import (
    GROUPS,
    BoostedTrees,
    JointClassifier,
    UnarySettings,
    combine,
    fit_joint,
    fit_trees,
    group_features,
    joint_rows,
    log_odds,
)
from structboost.segmentation.unary_training import fit_unaries

QUICK = UnarySettings(n_folds=2, group_rounds=5)


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
    again = BoostedTrees.from_arrays(ours.to_arrays())
    np.testing.assert_array_equal(again.log_probabilities(rows), ours.log_probabilities(rows))


def test_rounds_of_boosting_lower_the_loss_of_training():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4)).astype(np.float32)
    labels = rng.integers(0, 3, 300)
    losses = [
        -fit_trees(rows, labels, 3, n_rounds=n).log_probabilities(rows)[range(300), labels].mean()
        for n in (1, 2, 5, 20)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]


def test_classes_absent_from_training_have_small_probabilities():
    rows = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    two = fit_trees(rows, np.where(rows[:, 0] > 0, 3, 1), 4, n_rounds=3).log_probabilities(rows)
    np.testing.assert_allclose(two[:, [0, 2]], np.log(1e-6))
    one = fit_trees(rows, np.full(100, 2), 3, n_rounds=3).log_probabilities(rows)
    np.testing.assert_array_equal(one.argmax(axis=1), 2)


def test_damaged_trees_are_refused():
    rows = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    arrays = fit_trees(rows, (rows[:, 0] > 0).astype(np.int64), 2, n_rounds=2).to_arrays()
    schema = {"": Part(BoostedTrees.schema, {"n_features": 2, "n_labels": 2})}
    feature, threshold, leaf = (arrays[name] for name in ("feature", "threshold", "leaf"))
    for broken in (
        {"feature": feature + 2},
        {"feature": feature - 2},
        {"leaf": leaf[:, 1:]},
        {"feature": feature[:, 1:], "threshold": threshold[:, 1:], "leaf": leaf[:, 1:]},
        {"feature": feature[:0], "threshold": threshold[:0], "leaf": leaf[:0]},
        {"classes": np.array([0])[:0]},
    ):
        with pytest.raises(DamagedFileError):
            BoostedTrees.from_arrays(checked_arrays(schema, arrays | broken))


def described(n, seed=0):
    made = make_synthetic_images(n, random_state=seed)
    images = [describe(image, 60) for image in made.images]
    return images, [
        label_counts(d.labels, mask, 2) for d, mask in zip(images, made.masks, strict=True)
    ]


@pytest.mark.slow
def test_log_probabilities_come_from_classifiers_of_other_images():
    """Labels are random: only a classifier that has seen the image can know them."""
    images, _ = described(4)
    rng = np.random.default_rng(1)
    counts = []
    for image in images:
        labels = rng.integers(0, 2, size=image.n_superpixels)
        counts.append(np.eye(2, dtype=np.int64)[labels] * image.sizes[:, None])
    settings = UnarySettings(n_folds=2, group_rounds=20)
    classifiers, answers = fit_unaries(images, counts, settings)
    truth = np.concatenate([count.argmax(axis=1) for count in counts])
    crossed = np.concatenate([combine(a).argmax(axis=1) for a in answers])
    seen = np.concatenate(
        [combine(classifiers.log_probabilities(image)).argmax(axis=1) for image in images]
    )
    assert np.mean(crossed == truth) < 0.6
    assert np.mean(seen == truth) > 0.75


@pytest.mark.slow
def test_classifiers_recognise_the_coins():
    images, counts = described(8)
    classifiers, answers = fit_unaries(images[:6], counts[:6], QUICK)
    assert answers[0].shape == (images[0].n_superpixels, len(GROUPS) + 1, 2)
    np.testing.assert_allclose(np.exp(answers[0]).sum(axis=2), 1.0, rtol=1e-6)
    wrong = [
        np.mean(
            combine(classifiers.log_probabilities(image)).argmax(axis=1) != count.argmax(axis=1)
        )
        for image, count in zip(images[6:], counts[6:], strict=True)
    ]
    assert np.mean(wrong) < 0.15


@pytest.mark.slow
def test_classifiers_depend_on_the_seed_and_not_on_threads():
    images, counts = described(4)
    first = fit_unaries(images, counts, QUICK)[1]
    with joblib.parallel_config("threading"):
        again = fit_unaries(images, counts, QUICK, n_jobs=2)[1]
    other = fit_unaries(images, counts, QUICK, random_state=1)[1]
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])


@pytest.mark.slow
def test_a_classifier_on_all_features_follows_those_of_groups():
    images, counts = described(4)
    three = [
        np.column_stack((count[:, 0] // 2, count[:, 0] - count[:, 0] // 2, count[:, 1]))
        for count in counts
    ]
    classifiers, answers = fit_unaries(images, three, QUICK)
    assert len(classifiers.joint) == QUICK.n_folds
    assert answers[0].shape[1:] == (len(GROUPS) + 1, 3)
    np.testing.assert_allclose(np.exp(answers[0]).sum(axis=2), 1.0, rtol=1e-6)
    found = classifiers.log_probabilities(images[0])
    assert found.shape == answers[0].shape
    np.testing.assert_allclose(combine(found).sum(axis=1), 1.0)
    # Each image's answers are those of the one classifier that has not seen it, on the same
    # features as a new image's.
    for image, answer in zip(images, answers, strict=True):
        rows = joint_rows(
            image, group_features(image, word_histograms(image, classifiers.codebook))
        )
        each = [
            np.abs(answer[:, -1] - one.log_probabilities(rows)).max() for one in classifiers.joint
        ]
        assert min(each) < 1e-5 < max(each)


def test_joint_classifier_accepts_missing_labels():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 5)).astype(np.float32)
    labels = np.where(rows[:, 0] > 0, 3, 1)
    classifier = JointClassifier.from_arrays(fit_joint(rows, labels, 4).to_arrays())
    found = classifier.log_probabilities(rows)
    assert found.shape == (5000, 4)
    assert np.mean(found.argmax(axis=1) == labels) > 0.95
    assert (found[:, [0, 2]] <= found[:, [1, 3]].min()).all()
    alone = fit_joint(rows, np.full(5000, 2), 4).log_probabilities(rows)
    np.testing.assert_array_equal(alone.argmax(axis=1), 2)
    schema = {"": Part(JointClassifier.schema, {"n_labels": 4})}
    arrays = classifier.to_arrays()
    assert checked_arrays(schema, arrays).keys() == arrays.keys()
    for name, broken in (("mean", np.zeros(4, np.float32)), ("classes", np.array([1, 4]))):
        with pytest.raises(DamagedFileError, match=r"mean|spread|classes"):
            checked_arrays(schema, arrays | {name: broken})


def test_fit_unaries_refuses_void_superpixels():
    images, counts = described(2)
    with pytest.raises(ValueError, match="at least 2"):
        fit_unaries(images[:1], counts[:1])
    with pytest.raises(ValueError, match="void"):
        fit_unaries(images, [0 * count for count in counts])


def test_log_odds_stay_finite():
    odds = log_odds(np.array([[-np.inf, 0.0]]))
    assert np.isfinite(odds).all()
    assert odds[0, 1] == pytest.approx(-odds[0, 0])


def test_pairwise_potentials_are_never_negative_and_weak_at_outlines():
    images, counts = described(1)
    image, count = images[0], counts[0]
    p = np.column_stack((count[:, 0], count[:, 1])) / count.sum(axis=1, keepdims=True)
    found = pairwise_potentials(image, p)
    assert found.min() >= 0
    label = count.argmax(axis=1)
    across = label[image.edges[:, 0]] != label[image.edges[:, 1]]
    assert found[across, 0].mean() < 0.7 * found[~across, 0].mean()
    lonely = describe(np.zeros((2, 2, 3), np.uint8), 1)
    assert pairwise_potentials(lonely, np.ones((lonely.n_superpixels, 2)) / 2).shape == (
        len(lonely.edges),
        7,
    )


def test_true_labels_exclude_void_and_have_weights_by_area():
    truth, kept = true_labels(np.array([[8, 2], [0, 0], [0, 10]]))
    np.testing.assert_array_equal(kept, [True, False, True])
    np.testing.assert_array_equal(truth.labels, [0, 1])
    np.testing.assert_allclose(truth.areas, [0.6, 1.0])
    np.testing.assert_array_equal(true_labels(np.array([[8, 2]]), by_area=False)[0].areas, [1.0])


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
