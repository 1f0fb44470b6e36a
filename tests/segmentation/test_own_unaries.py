"""Superpixels and classifiers that users bring, and training with few images in memory."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from structboost.progress import Phase
from structboost.segmentation import OwnUnaries, Segmenter, make_synthetic_images
from structboost.segmentation.crf_training import images_of_search
from structboost.segmentation.descriptors import describe, region_means
from structboost.segmentation.feature_cache import Describing, FeatureCache, StoredImages
from structboost.segmentation.unaries import _compressed, fit_joint


def squares(image):
    """Superpixels of 8 x 8 pixels, with odd numbers."""
    y, x = np.indices(image.shape[:2]) // 8
    return 3 + 2 * (y * 1000 + x)


def mean_colours(image, labels):
    return region_means(labels, image) / 255


@pytest.mark.slow
def test_segmenter_learns_from_superpixels_and_features_of_the_user():
    made, fresh = make_synthetic_images(5), make_synthetic_images(2, random_state=7)
    unaries = OwnUnaries(LogisticRegression(C=100.0), features=mean_colours, n_folds=2)
    segmenter = Segmenter(C=1.0, superpixels=squares, unaries=unaries)
    segmenter = clone(segmenter).fit(made.images, made.masks)
    assert segmenter.classifiers_.classifiers[0].coef_.shape == (1, 3)
    found = [segmenter.predict(image) for image in fresh.images]
    assert np.mean([f == m for f, m in zip(found, fresh.masks, strict=True)]) > 0.9
    # Each square has one label.
    blocks = found[0].reshape(15, 8, 20, 8)
    assert (blocks == blocks[:, :1, :, :1]).all()
    again = pickle.loads(pickle.dumps(segmenter))
    np.testing.assert_array_equal(again.predict(fresh.images[0]), found[0])
    with pytest.raises(ValueError, match=r"a user's .*joblib\.dump"):
        segmenter.save("nowhere")


@pytest.mark.slow
def test_bad_functions_of_the_user_raise_clear_errors():
    made = make_synthetic_images(2)
    for settings, message in (
        (
            {"superpixels": lambda image: image[:, :, 0] / 2.0},
            r"superpixels\(image\) returned float64",
        ),
        ({"superpixels": lambda image: np.zeros((3, 3), int)}, r"returned int64 of shape \(3, 3\)"),
        (
            {"unaries": OwnUnaries(LogisticRegression(), lambda image, labels: np.ones((2, 4)))},
            r"returned shape \(2, 4\) for \d+ superpixels",
        ),
        (
            {
                "unaries": OwnUnaries(
                    LogisticRegression(),
                    lambda image, labels: np.full((labels.max() + 1, 1), np.nan),
                )
            },
            "not finite",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            Segmenter(n_segments=10, C=1.0, **settings).fit(made.images, made.masks)


@pytest.mark.slow
def test_images_are_read_from_the_cache_when_they_are_used(tmp_path):
    images = make_synthetic_images(2).images
    asked = []

    def features(image, labels):
        asked.append(len(asked))
        return mean_colours(image, labels)

    describing = Describing(15, FeatureCache(tmp_path), None, features)
    stored = StoredImages(images, describing)
    whole = describe(images[1], 15)
    for _ in range(2):
        found = stored[1]
        np.testing.assert_array_equal(found.labels, whole.labels)
        np.testing.assert_array_equal(found.features["hog_16"], whole.features["hog_16"])
        np.testing.assert_array_equal(
            found.features["own"], mean_colours(images[1], whole.labels).astype(np.float32)
        )
    assert asked == [0]
    assert len(list(tmp_path.iterdir())) == 1
    assert len(list(stored)) == 2
    own = Describing(15, FeatureCache(tmp_path), squares)(images[1])
    assert own.n_superpixels == 300
    light = own.geometry()
    assert not light.features
    assert light.n_superpixels == 300


def test_joint_classifier_may_overwrite_its_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 300)).astype(np.float32)
    labels = (rows[:, 0] + rows[:, 1] > 0).astype(np.int64)
    kept = fit_joint(rows.copy(), labels, 2)
    used = fit_joint(rows.copy(), labels, 2, overwrite=True)
    np.testing.assert_array_equal(kept.weights, used.weights)
    np.testing.assert_allclose(kept.spread, rows.std(axis=0), rtol=1e-5)
    scaled = (rows - kept.mean) / kept.spread
    np.testing.assert_allclose(
        _compressed(rows, kept.mean, kept.spread),
        np.sign(scaled) * np.sqrt(np.abs(scaled)),
        rtol=1e-5,
    )


def test_C_is_chosen_on_whole_groups():
    assert images_of_search(5, 100, None, 0) == [0, 1, 2, 3, 4]
    assert len(images_of_search(500, 100, None, 0)) == 100
    groups = np.repeat(np.arange(50), 10).tolist()
    kept = images_of_search(500, 95, groups, 0)
    assert len(kept) == 100
    assert {groups[i] for i in kept} == {groups[i] for i in kept[::10]}


@pytest.mark.slow
def test_phase_shows_its_time_during_a_long_step(monkeypatch, capsys):
    monkeypatch.setattr("structboost.progress._PULSE", 0.02)
    with Phase("digging", 3) as line:
        line.step()
        time.sleep(0.15)
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith("digging 1/3")
    assert len(told) > 2
    with Phase("digging", 3, visible=False) as line:
        line.step()
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_classifier_of_your_own_learns_from_at_most_the_number_of_superpixels_that_is_set():
    made = make_synthetic_images(2)
    sizes = []

    class Counting(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            sizes.append(len(X))
            return super().fit(X, y)

    unaries = OwnUnaries(Counting(), features=mean_colours, n_folds=2, n_rows=25)
    Segmenter(C=1.0, superpixels=squares, unaries=unaries).fit(made.images, made.masks)
    assert sizes == [25, 25]
