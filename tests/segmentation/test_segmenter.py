"""The segmenter: training, prediction, files, and the inputs that it takes or refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from structboost.segmentation import CRFSettings, LabelMap, Segmenter, UnarySettings
from structboost.segmentation.crf import unary_potentials
from structboost.segmentation.descriptors import describe
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.synthetic_images import make_synthetic_images
from tests.helpers.photographs import QUICK, agreement

MADE, FRESH = make_synthetic_images(8), make_synthetic_images(3, random_state=7)
IMAGES = [np.ascontiguousarray(image[:48, :48]) for image in MADE.images[:4]]
MASKS = [np.ascontiguousarray(mask[:48, :48]) for mask in MADE.masks[:4]]
IMAGE, MASK = IMAGES[0], MASKS[1]


def quick(**parameters):
    unaries = UnarySettings(n_folds=2, group_rounds=3, group_rows=300, joint_rows=300)
    crf = CRFSettings(max_rounds=3, tol=0.5)
    return Segmenter(**{"n_segments": 20, "C": 0.3, "unaries": unaries, "crf": crf} | parameters)


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(IMAGES, MASKS)


def equal(model, other, image=FRESH.images[0]):
    np.testing.assert_array_equal(model.predict_proba(image), other.predict_proba(image))
    np.testing.assert_array_equal(model.predict(image), other.predict(image))


@pytest.mark.slow
def test_segmenter_is_an_estimator_of_scikit_learn_that_files_keep(trained):
    segmenter, path = trained
    again = clone(segmenter)
    assert again.get_params() == segmenter.get_params()
    assert not hasattr(again, "crf_model_")
    assert "Segmenter(" in repr(segmenter.set_params(n_segments=100))
    assert agreement(segmenter, FRESH) > 0.95
    last, loaded = segmenter.history_[-1], Segmenter.load(path)
    assert (last["cross_fitted"], last["certified"], last["gap"] < 1) == (True, False, True)
    assert (loaded.C_, loaded.history_) == (1.0, segmenter.history_)
    counts = np.zeros((2, 2))
    in_turn = segmenter.predict_in_turn(FRESH.images)
    for image, truth, mask in zip(FRESH.images, FRESH.masks, in_turn, strict=True):
        equal(loaded, segmenter, image)
        np.testing.assert_array_equal(mask, segmenter.predict(image))
        counts += confusion(truth, mask, 2)
        probabilities = segmenter.predict_proba(image)
        np.testing.assert_allclose(probabilities.sum(axis=2), 1.0, rtol=1e-5)
        np.testing.assert_array_equal(probabilities.argmax(axis=2), mask)
    expected = SegmentationScores(counts).mean_iou
    assert segmenter.score(FRESH.images, FRESH.masks) == pytest.approx(expected)
    sure = probabilities.max(axis=2) > 0.99  # which they are nearly everywhere
    assert (probabilities.argmax(axis=2) == truth)[sure].mean() > 0.97


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["structboost", "ssvm"])
def test_segmenter_of_scribbles_extends_them_over_the_image(learner, tmp_path):
    fresh = make_synthetic_images(4, random_state=5)
    segmenter = Segmenter(n_segments=100, C=1.0, crf=CRFSettings(learner=learner)).fit(
        MADE.images[:6], MADE.masks[:6], MADE.scribbles[:6]
    )
    assert segmenter.needs_scribbles
    assert agreement(segmenter, fresh, with_scribbles=True) > 0.9
    image, strokes = fresh.images[0], fresh.scribbles[0]
    found, probabilities = segmenter.mask_and_probabilities(image, strokes)
    assert (found[strokes == 1] == 1).mean() > 0.95
    assert np.mean(probabilities.argmax(axis=2) == found) > 0.98  # outlines may differ
    for wrong, message in (
        (None, "give scribbles"),
        (strokes[1:], "one size"),
        (np.minimum(strokes, 1), "needs strokes"),
    ):
        with pytest.raises(ValueError, match=message):
            segmenter.predict(image, wrong)
    segmenter.save(tmp_path / "m")
    np.testing.assert_array_equal(Segmenter.load(tmp_path / "m").predict(image, strokes), found)


@pytest.mark.slow
def test_segmenter_predicts_at_the_size_of_any_image(trained):
    for shape in ((1, 1, 3), (1, 40, 3), (700, 30, 3)):
        image = np.random.default_rng(0).integers(0, 256, size=shape).astype(np.uint8)
        assert trained[0].predict(image).shape == shape[:2]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_segments", 60.5), ("longest", -3), ("C", "auto"), ("random_state", None),
        ("n_jobs", 0), ("crf", {}), ("unaries", 3), ("superpixels", 5), ("meaning", "coins"),
        ("cache", 3), ("verbose", "yes"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named_before_the_work(parameter, value):
    with pytest.raises((ValueError, TypeError), match=f"{parameter} is"):
        quick(**{parameter: value}).fit(IMAGES, MASKS)


@pytest.mark.slow
def test_a_stroke_of_one_kind_corrects_a_trained_model(trained):
    segmenter, image = trained[0], make_synthetic_images(1, random_state=9).images[0]
    found = segmenter.predict(image)
    wrong = np.zeros(found.shape, np.uint8)
    columns = np.nonzero(found == 1)[1]
    wrong[(found == 1) & (np.arange(found.shape[1]) <= columns[0])] = 2
    corrected = segmenter.predict(image, wrong)
    assert (corrected[wrong == 2] == 0).mean() > 0.9
    np.testing.assert_array_equal(segmenter.predict(image, 0 * wrong), found)


THREE = [np.arange(48 * 48).reshape(48, 48) % 3] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": IMAGES[:1], "masks": MASKS[:1]}, "1 image is too few"),
        ({"masks": [*MASKS[:3], MASKS[3][1:]]}, r"masks\[3\] has 48 x 47 pixels"),
        ({"masks": [0 * mask for mask in MASKS]}, "at least two"),
        ({"masks": [0 * mask + 255 for mask in MASKS]}, "Every pixel of the masks is void"),
        ({"scribbles": MASKS[:1]}, "4 images and 1 scribbles"),
        ({"scribbles": [MASK, MASK[1:], MASK, MASK]}, r"scribbles\[1\] has 48 x 47 pixels"),
        ({"scribbles": MASKS}, r"scribbles\[0\] needs strokes"),
        ({"masks": THREE, "scribbles": MASKS}, r"hold 3 classes"),
        ({"groups": ["a"] * 4}, "All 4 images are of the group a; give at least two"),
        ({"groups": ["a", "b"]}, "4 images and 2 groups"),
    ],
)
def test_pairs_that_no_model_can_learn_from_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(**{"images": IMAGES, "masks": MASKS} | arguments)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (IMAGE.astype(int), r"image is int64 .*values from 0 to 255"),
        (IMAGE / 255, r"np\.rint\(255 \* image\)"),
        (IMAGE.tolist(), "one image"),
        ([IMAGE], "one image"),
        (IMAGE[None], "one image"),
        (Path("a.png"), r"image is 'a\.png'; read the file first"),
        (None, "image is object of shape"),
    ],
)
def test_other_pictures_are_refused_with_the_remedy(fitted, image, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fitted.predict(image)


LISTS = {
    "give a list": [
        lambda pictures: dict(enumerate(pictures)),
        iter,
        lambda pictures: "abcd",
        lambda pictures: None,
        lambda pictures: Image.fromarray(pictures[0]),
    ],
    "one picture; give a list": [lambda pictures: pictures[0]],
    "There are": [lambda pictures: pictures[:3]],
    r"\[2\] (is object|has shape)": [lambda pictures: [*pictures[:2], None, pictures[3]]],
    r"\[2\] is 'a\.png'; read": [lambda pictures: [*pictures[:2], "a.png", pictures[3]]],
}


@pytest.mark.parametrize("name", ["images", "masks"])
@pytest.mark.parametrize("message", LISTS)
def test_other_lists_are_refused_and_the_old_model_stays(name, message, fitted):
    before = dict(vars(fitted))
    for listed in LISTS[message]:
        pairs = {"images": IMAGES, "masks": MASKS}
        pairs[name] = listed(pairs[name])
        calls = [partial(fitted.fit, **pairs), partial(fitted.score, **pairs)]
        if name == "images" and message != "There are":
            calls.append(partial(fitted.predict_in_turn, pairs[name]))
        for call in calls:
            with pytest.raises((TypeError, ValueError), match=message):
                list(call())
    assert vars(fitted) == before


@pytest.mark.slow
def test_equal_pictures_of_any_type_have_equal_masks(fitted):
    alpha = np.full(IMAGE.shape[:2], 255, np.uint8)
    for image in (Image.fromarray(IMAGE), np.asfortranarray(IMAGE), np.dstack((IMAGE, alpha))):
        np.testing.assert_array_equal(fitted.predict(image), fitted.predict(IMAGE))
    for images, masks in (
        (tuple(IMAGES), [mask.tolist() for mask in MASKS]),
        (np.stack(IMAGES), [mask > 0 for mask in MASKS]),
        (list(map(Image.fromarray, IMAGES)), list(map(Image.fromarray, MASKS))),
        (IMAGES, 255 * np.stack(MASKS)),
    ):
        equal(quick().fit(images, masks), fitted, IMAGE)
    # The meaning determines which of two values is the object.
    masks = [np.where(mask, 4, 9).astype(np.uint8) for mask in MASKS]
    usual = quick().fit(IMAGES, masks)
    assert usual.meaning_.classes == (4, 9)
    turned = quick(meaning=LabelMap(classes=(9, 4))).fit(IMAGES, masks)
    equal(turned, fitted, IMAGE)
    assert not np.array_equal(usual.predict(IMAGE), turned.predict(IMAGE))


@pytest.mark.slow
def test_energies_do_not_depend_on_the_threads_of_blas(trained, monkeypatch):
    segmenter, image = trained[0], describe(MADE.images[4], 300)
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            found.append(segmenter._segmented(image, MADE.images[4], None))
    for mask, probabilities in found[1:]:
        np.testing.assert_array_equal(mask, found[0][0])
        np.testing.assert_array_equal(probabilities, found[0][1])
    seen = []

    def watched(*arguments, **settings):
        libraries = [own for own in threadpool_info() if own["user_api"] == "blas"]
        seen.extend(own["num_threads"] for own in libraries if "opencv" not in own["filepath"])
        return unary_potentials(*arguments, **settings)

    monkeypatch.setattr("structboost.segmentation.segmenter.unary_potentials", watched)
    with threadpool_limits(2, user_api="blas"):
        quick().fit(MADE.images, MADE.masks, MADE.scribbles)
    assert set(seen) == {1}


@pytest.mark.slow
def test_three_classes_are_learned_saved_and_loaded(tmp_path):
    masks = [mask.copy() for mask in MADE.masks[:4]]
    for mask in masks:
        mask[:, :80][mask[:, :80] == 0] = 2
    segmenter = quick(n_segments=40, C=1.0, unaries=QUICK).fit(MADE.images[:4], masks)
    assert not segmenter.history_[-1]["certified"]
    segmenter.save(tmp_path / "three")
    loaded = Segmenter.load(tmp_path / "three")
    equal(loaded, segmenter)
    found = [loaded.predict(image) for image in MADE.images[:4]]
    assert np.mean(np.array(found) == np.array(masks)) > 0.7
    with pytest.raises(ValueError, match=r"scribbles separates object .* model has 3 classes"):
        loaded.predict(MADE.images[0], MADE.scribbles[0])
