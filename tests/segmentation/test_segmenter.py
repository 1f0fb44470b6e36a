"""Segmenters of photographs and of strokes, from training to outlines at full size."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from examples.synthetic_images import make_synthetic_images
from structboost.segmentation import (
    CRFSettings,
    LabelMap,
    Segmenter,
    StrokeSegmenter,
    UnarySettings,
)
from structboost.segmentation.crf import unary_potentials
from structboost.segmentation.refinement import refine_mask
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.vision.images import resized_mask
from tests.helpers.photographs import QUICK
from tests.helpers.refusals import refused

pytestmark = pytest.mark.slow

MADE, FRESH = make_synthetic_images(8), make_synthetic_images(3, random_state=7)
IMAGES = [np.ascontiguousarray(image[:48, :48]) for image in MADE.images[:4]]
MASKS = [np.ascontiguousarray(mask[:48, :48]) for mask in MADE.masks[:4]]
IMAGE = IMAGES[0]


def quick(**parameters):
    unaries = UnarySettings(n_folds=2, group_rounds=3)
    crf = CRFSettings(max_rounds=3, tol=0.5)
    return Segmenter(**{"n_segments": 20, "C": 0.3, "unaries": unaries, "crf": crf} | parameters)


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(IMAGES, MASKS)


def equal(model, other, image=FRESH.images[0]):
    assert_array_equal(model.predict_proba(image), other.predict_proba(image))
    assert_array_equal(model.predict(image), other.predict(image))


def test_a_trained_segmenter_finds_the_objects_of_new_photographs(trained):
    segmenter, path = trained
    last, loaded = segmenter.history_[-1], Segmenter.load(path)
    assert (last["cross_fitted"], last["certified"], last["gap"] < 1) == (True, False, True)
    assert (loaded.C_, loaded.history_) == (1.0, segmenter.history_)
    counts = np.zeros((2, 2))
    for image, truth in zip(FRESH.images, FRESH.masks, strict=True):
        mask = segmenter.predict(image)
        counts += confusion(truth, mask, 2)
        probabilities = segmenter.predict_proba(image)
        assert_allclose(probabilities.sum(axis=2), 1.0, rtol=1e-5)
        assert_array_equal(probabilities.argmax(axis=2), mask)
    assert counts.trace() > 0.95 * counts.sum()
    expected = SegmentationScores(counts).mean_iou
    assert segmenter.score(FRESH.images, FRESH.masks) == pytest.approx(expected)
    sure = probabilities.max(axis=2) > 0.99  # which they are nearly everywhere
    assert (mask == truth)[sure].mean() > 0.97


def test_a_stroke_of_one_kind_corrects_a_trained_model(trained):
    segmenter, image = trained[0], make_synthetic_images(1, random_state=9).images[0]
    found = segmenter.predict(image)
    wrong = np.zeros(found.shape, np.uint8)
    columns = np.nonzero(found == 1)[1]
    wrong[(found == 1) & (np.arange(found.shape[1]) <= columns[0])] = 2
    corrected = segmenter.predict(image, wrong)
    assert (corrected[wrong == 2] == 0).mean() > 0.9
    assert_array_equal(segmenter.predict(image, 0 * wrong), found)
    for strokes, message in ((wrong[1:], "one size"), (wrong + 1, r"the values \[1, 3\]")):
        refused(message, segmenter.predict, image, strokes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": IMAGES[:1], "masks": MASKS[:1]}, "1 image is too few"),
        ({"masks": [*MASKS[:3], MASKS[3][1:]]}, r"masks\[3\] has 48 x 47 pixels"),
        ({"masks": [0 * mask for mask in MASKS]}, "at least two"),
        ({"masks": [0 * mask + 255 for mask in MASKS]}, "Every pixel of the masks is void"),
        ({"groups": ["a"] * 4}, "4 entries and 1 groups for 4 images"),
        ({"groups": ["a", "b"]}, "2 entries and 2 groups for 4 images"),
    ],
)
def test_pairs_that_no_model_can_learn_from_are_named(arguments, message):
    refused(message, quick().fit, **{"images": IMAGES, "masks": MASKS} | arguments)


def test_the_meaning_of_masks_determines_which_of_two_values_is_the_object(fitted):
    masks = [np.where(mask, 4, 9).astype(np.uint8) for mask in MASKS]
    equal(quick(meaning=LabelMap(classes=(9, 4))).fit(IMAGES, masks), fitted, IMAGE)
    equal(quick().fit(IMAGES, 255 * np.stack(MASKS)), fitted, IMAGE)


def test_energies_do_not_depend_on_the_threads_of_blas(trained, monkeypatch):
    found = []
    for threads in (1, 4):
        with threadpool_limits(threads, user_api="blas"):
            found.append(trained[0].predict_proba(MADE.images[4]))
    assert_array_equal(*found)
    seen = []

    def watched(*arguments, **settings):
        libraries = [own for own in threadpool_info() if own["user_api"] == "blas"]
        seen.extend(own["num_threads"] for own in libraries if "opencv" not in own["filepath"])
        return unary_potentials(*arguments, **settings)

    monkeypatch.setattr("structboost.segmentation.segmenter.unary_potentials", watched)
    with threadpool_limits(2, user_api="blas"):
        quick().fit(IMAGES, MASKS)
    assert set(seen) == {1}


def test_three_classes_are_learned_saved_and_loaded(tmp_path):
    images, masks = MADE.images[:4], np.array(MADE.masks[:4])
    masks[:, :, :80][masks[:, :, :80] == 0] = 2
    segmenter = quick(n_segments=40, C=1.0, unaries=QUICK).fit(images, masks)
    assert not segmenter.history_[-1]["certified"]
    segmenter.save(tmp_path / "three")
    loaded = Segmenter.load(tmp_path / "three")
    equal(loaded, segmenter)
    assert np.mean([*map(loaded.predict, images)] == masks) > 0.7
    refused(
        r"scribbles separates object .* model has 3 classes",
        loaded.predict,
        images[0],
        MADE.scribbles[0],
    )


BY_STROKES = StrokeSegmenter(n_segments=300)


def test_strokes_cut_out_an_object_of_their_colour():
    made = make_synthetic_images(4, random_state=5)
    found = [*map(BY_STROKES.predict, made.images, made.scribbles)]
    assert np.mean(np.array(found) == made.masks) > 0.93


def test_strokes_use_paths_where_colours_are_equal():
    """Two discs of one colour on grey: the one with the stroke is the object."""
    y, x = np.indices((100, 200))
    image = np.full((100, 200, 3), 128, np.uint8)
    discs = [np.hypot(x - centre, y - 50) < 30 for centre in (50, 150)]
    image[discs[0] | discs[1]] = (200, 40, 40)
    strokes = np.zeros((100, 200), np.uint8)
    strokes[48:52, 40:60], strokes[48:52, 140:160], strokes[5, 10:190] = 1, 2, 2
    found = BY_STROKES.predict(image, strokes)
    assert (found[discs[0]] == 1).mean() > 0.95
    assert (found[discs[1]] == 0).mean() > 0.95


@pytest.mark.parametrize("shape", [(1, 2), (5, 300), (700, 40)])
def test_stroke_segmenter_accepts_images_of_any_size(shape):
    image = default_rng(0).integers(0, 256, size=(*shape, 3)).astype(np.uint8)
    strokes = np.zeros(shape, np.uint8)
    strokes[:, 0], strokes[:, -1] = 1, 2
    assert StrokeSegmenter(30, longest=500).predict(image, strokes).shape == shape
    refused("needs strokes on the object", BY_STROKES.predict, image, np.minimum(strokes, 1))
    refused("one size", BY_STROKES.predict, image, strokes[:, 1:])


def scene(n_classes):
    """Discs of several colours on grey, with noise, and their mask: 240 x 360 pixels."""
    y, x = np.indices((240, 360))
    mask = np.zeros((240, 360), np.uint8)
    for k in range(1, n_classes):
        mask[np.hypot(x - 110 * k, y - 120) < 52] = k
    colours = np.array([(128, 128, 128), (200, 60, 60), (60, 60, 200)])
    noise = default_rng(0).normal(scale=60.0, size=(240, 360, 3))
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


def test_refinement_keeps_masks_without_outlines_or_of_full_size():
    image, truth = scene(2)
    assert refine_mask(image, truth) is truth
    assert_array_equal(refine_mask(image, truth[:60, :30] * 0), 0 * truth)
    tiny = np.array([[0, 3]], np.uint8)
    assert refine_mask(image[:2, :5], tiny).shape == (2, 5)
    strokes = np.zeros_like(truth)
    strokes[118:122, 90:130], strokes[10:14] = 1, 2
    segmenter = StrokeSegmenter(200, longest=90)
    coarse = segmenter.segment(segmenter.prepare(image), strokes)
    found = segmenter.predict(image, strokes)
    assert (found != truth).sum() < 0.3 * (coarse != truth).sum()
