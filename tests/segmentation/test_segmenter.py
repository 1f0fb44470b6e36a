"""The segmenter: training, prediction, files and errors."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from scipy.special import softmax
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from structboost.cli import main
from structboost.errors import ModelFileError
from structboost.segmentation.crf_model import calibrated_sharpness, conditional_costs
from structboost.segmentation.crf_training import CRFSettings
from structboost.segmentation.descriptors import describe
from structboost.segmentation.image_files import read_mask, write_png
from structboost.segmentation.potentials import unary_potentials
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.segmentation.unary_training import _Training
from tests.helpers.photographs import QUICK, agreement


@pytest.mark.slow
def test_loaded_segmenter_predicts_as_the_saved_one(trained):
    segmenter, path = trained
    made = make_synthetic_images(4, random_state=7)
    assert agreement(segmenter, made) > 0.95
    last = segmenter.history_[-1]
    assert last["cross_fitted"]
    assert not last["certified"]
    assert last["gap"] < 1
    loaded = Segmenter.load(path)
    for image, in_turn in zip(made.images, segmenter.predict_in_turn(made.images), strict=True):
        np.testing.assert_array_equal(loaded.predict(image), segmenter.predict(image))
        np.testing.assert_array_equal(in_turn, segmenter.predict(image))
    assert loaded.C_ == 1.0
    assert loaded.history_ == segmenter.history_


@pytest.mark.slow
def test_segmenter_is_an_estimator_of_scikit_learn(trained):
    segmenter, path = trained
    again = clone(segmenter)
    assert again.get_params() == segmenter.get_params()
    assert not hasattr(again, "crf_model_")
    assert "Segmenter(" in repr(segmenter.set_params(n_segments=100))
    fresh = make_synthetic_images(3, random_state=7)
    counts = SegmentationScores.of(
        [
            confusion(mask, segmenter.predict(image), 2)
            for image, mask in zip(fresh.images, fresh.masks, strict=True)
        ]
    )
    assert segmenter.score(fresh.images, fresh.masks) == pytest.approx(counts.mean_iou)
    for image in fresh.images:
        chances = segmenter.predict_proba(image)
        assert chances.shape == (*image.shape[:2], 2)
        np.testing.assert_allclose(chances.sum(axis=2), 1.0, rtol=1e-5)
        np.testing.assert_array_equal(chances.argmax(axis=2), segmenter.predict(image))
    for many in (fresh.images, np.stack([image] * 3)):
        with pytest.raises(
            ValueError, match=r"of 3; give one image, or use predict_in_turn for many"
        ):
            segmenter.predict(many)
    loaded = Segmenter.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(image), chances)
    sure = chances.max(axis=2) > 0.99  # which they are nearly everywhere
    assert (chances.argmax(axis=2) == fresh.masks[2])[sure].mean() > 0.97


def test_costs_of_labels_are_differences_of_energies_and_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    nodes, weights = rng.normal(size=(6, 3)), rng.uniform(size=9)
    edges = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)])[rng.permutation(15)[:9]]
    labels = rng.integers(3, size=6)

    def energy(y):
        return nodes[np.arange(6), y].sum() + weights[y[edges[:, 0]] != y[edges[:, 1]]].sum()

    costs = conditional_costs(nodes, edges, weights, labels)
    for p in range(6):
        own = [energy(np.where(np.arange(6) == p, k, labels)) for k in range(3)]
        np.testing.assert_allclose(costs[p] - costs[p, 0], np.array(own) - own[0])
    # Labels drawn with a known factor lead back to it.
    costs = rng.normal(size=(20_000, 3))
    chances = softmax(-2.5 * costs, axis=1)
    drawn = (rng.uniform(size=(len(costs), 1)) > chances.cumsum(axis=1)).sum(axis=1)
    assert calibrated_sharpness([costs], [np.eye(3, dtype=int)[drawn]]) == pytest.approx(
        2.5, rel=0.05
    )


@pytest.mark.slow
def test_images_of_a_group_are_in_one_fold():
    images = [describe(image, 20) for image in make_synthetic_images(6).images]
    counts = [
        np.tile([[3, 1], [1, 3]], (image.n_superpixels, 1))[: image.n_superpixels]
        for image in images
    ]
    training = _Training(counts, 3, 0, [0, 1, 0, 2, 1, 2])
    of_images = training.of_images
    np.testing.assert_array_equal(training.folds[training.starts[:-1]], of_images)
    assert of_images[0] == of_images[2]
    assert of_images[1] == of_images[4]
    assert of_images[3] == of_images[5]
    assert len(set(of_images)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["structboost", "ssvm"])
def test_segmenter_of_scribbles_extends_them_over_the_image(learner, tmp_path):
    made, fresh = make_synthetic_images(6), make_synthetic_images(4, random_state=5)
    settings = CRFSettings(learner=learner)
    segmenter = Segmenter(n_segments=100, C=1.0, crf=settings).fit(
        made.images, made.masks, made.scribbles
    )
    assert segmenter.needs_scribbles
    assert agreement(segmenter, fresh, with_scribbles=True) > 0.9
    strokes = fresh.scribbles[0]
    found = segmenter.predict(fresh.images[0], strokes)
    assert (found[strokes == 1] == 1).mean() > 0.95
    probabilities = segmenter.predict_proba(fresh.images[0], strokes)
    assert np.mean(probabilities.argmax(axis=2) == found) > 0.98  # outlines may differ
    with pytest.raises(ValueError, match="give scribbles"):
        segmenter.predict(fresh.images[0])
    with pytest.raises(ValueError, match="one size"):
        segmenter.predict(fresh.images[0], strokes[1:])
    segmenter.save(tmp_path / "m")
    again = Segmenter.load(tmp_path / "m").predict(fresh.images[0], strokes)
    np.testing.assert_array_equal(again, found)


@pytest.mark.slow
def test_segmenter_predicts_at_the_size_of_any_image(trained):
    segmenter, _ = trained
    for shape in ((1, 1, 3), (1, 40, 3), (700, 30, 3)):
        image = np.random.default_rng(0).integers(0, 256, size=shape).astype(np.uint8)
        assert segmenter.predict(image).shape == shape[:2]


@pytest.mark.slow
def test_damaged_and_foreign_segmenter_files_are_refused(trained, tmp_path):
    _, path = trained
    (tmp_path / "short").write_bytes(path.read_bytes()[:2000])
    (tmp_path / "text").write_text("hello")
    np.savez(
        tmp_path / "other.npz",
        header=np.frombuffer(b'{"format": "x", "version": 1, "features": 1}', np.uint8),
    )
    for name in ("short", "text", "other.npz"):
        with pytest.raises(ModelFileError, match=name):
            Segmenter.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Segmenter.load(tmp_path / "nothing")


@pytest.mark.slow
def test_segmenter_names_bad_training_sets(trained):
    made = make_synthetic_images(2)
    with pytest.raises(ValueError, match="2 images and 1 masks"):
        Segmenter().fit(made.images, made.masks[:1])
    with pytest.raises(ValueError, match="2 images and 1 masks"):
        trained[0].score(made.images, made.masks[:1])
    with pytest.raises(ValueError, match="too few"):
        Segmenter().fit(made.images[:1], made.masks[:1])
    with pytest.raises(TypeError, match="images is one Image; give a list"):
        Segmenter().fit(Image.fromarray(made.images[0]), made.masks[:1])
    with pytest.raises(ValueError, match=r"masks\[1\]"):
        Segmenter().fit(made.images, [made.masks[0], made.masks[1][1:]])
    with pytest.raises(ValueError, match="at least two"):
        Segmenter().fit(made.images, [0 * mask for mask in made.masks])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_segments": 60.5}, "n_segments is 60.5"),
        ({"longest": -3}, "longest is -3"),
        ({"C": "auto"}, "C is 'auto'"),
        ({"random_state": None}, "random_state is None"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"crf": "ssvm"}, "crf is 'ssvm'; give CRFSettings"),
        ({"unaries": 3}, "unaries is 3"),
        ({"superpixels": 3}, "superpixels is 3"),
    ],
)
def test_segmenter_names_bad_parameters_before_the_work(parameters, message):
    made = make_synthetic_images(2)
    with pytest.raises((ValueError, TypeError), match=message):
        Segmenter(**parameters).fit(made.images, made.masks)


def test_segmenter_refuses_a_single_group():
    made = make_synthetic_images(3)
    with pytest.raises(ValueError, match="All 3 images are of the group a; give at least two"):
        Segmenter().fit(made.images, made.masks, groups=["a"] * 3)


@pytest.mark.slow
def test_a_stroke_of_one_kind_corrects_a_trained_model(trained):
    segmenter, made = trained[0], make_synthetic_images(1, random_state=9)
    image = made.images[0]
    found = segmenter.predict(image)
    wrong = np.zeros(found.shape, np.uint8)
    columns = np.nonzero(found == 1)[1]
    wrong[(found == 1) & (np.arange(found.shape[1]) <= columns[0])] = 2
    corrected = segmenter.predict(image, wrong)
    assert (corrected[wrong == 2] == 0).mean() > 0.9
    nothing = np.zeros(found.shape, np.uint8)
    np.testing.assert_array_equal(segmenter.predict(image, nothing), found)


@pytest.mark.slow
def test_error_of_one_image_gives_its_index():
    made = make_synthetic_images(2)
    images, masks, strokes = list(made.images), list(made.masks), list(made.scribbles)
    for what, message in (
        ({"images": [images[0], images[1] / 255.0]}, r"images\[1\] is float64"),
        (
            {"images": [images[0], Image.fromarray(images[1]).convert("F")]},
            r"images\[1\] is a picture of mode 'F'",
        ),
        ({"masks": [masks[0], masks[1] / 1.0]}, r"masks\[1\] is float64; give class indices"),
        ({"masks": [masks[0], masks[1][:, :, None]]}, r"masks\[1\] has shape"),
        (
            {"masks": [masks[0], masks[1].astype(int) + 400]},
            r"masks\[1\] has values from 400 to 401",
        ),
        (
            {"masks": [np.full_like(mask, 255) for mask in masks]},
            "Every pixel of the masks is void",
        ),
        ({"scribbles": strokes[:1]}, "2 images and 1 scribbles"),
        ({"scribbles": [strokes[0], strokes[1][1:]]}, r"scribbles\[1\] has 160 x 119 pixels"),
        ({"scribbles": [strokes[0], np.minimum(strokes[1], 1)]}, r"scribbles\[1\] needs strokes"),
    ):
        arguments = {"images": images, "masks": masks, "scribbles": None} | what
        with pytest.raises(ValueError, match=message):
            Segmenter(n_segments=20, C=1.0).fit(**arguments)


@pytest.mark.slow
def test_pictures_and_masks_of_0_and_255_give_the_same_model(trained, tmp_path):
    segmenter, _ = trained
    made = make_synthetic_images(8)
    pictures, masks = (
        [Image.fromarray(image) for image in made.images],
        [255 * mask for mask in made.masks],
    )
    other = Segmenter(n_segments=100, C=1.0, unaries=QUICK).fit(pictures, masks)
    assert other.n_labels_ == 2
    assert [r["primal"] for r in other.history_] == [r["primal"] for r in segmenter.history_]
    fresh = make_synthetic_images(1, random_state=7).images[0]
    np.testing.assert_array_equal(other.predict(Image.fromarray(fresh)), segmenter.predict(fresh))
    np.testing.assert_array_equal(
        next(other.predict_in_turn([Image.fromarray(fresh)])), segmenter.predict(fresh)
    )
    grey = fresh[:, :, 0]
    np.testing.assert_array_equal(segmenter.predict(grey), segmenter.predict(np.dstack([grey] * 3)))
    with pytest.raises(ValueError, match=r"image is float64 .*np.rint\(255 \* image\)"):
        segmenter.predict(fresh / 255.0)
    # Its predictions are written as masks of 0 and 255, as after training by the command.
    other.save(tmp_path / "m")
    write_png(tmp_path / "x.png", fresh)
    out = ["--out", str(tmp_path / "o")]
    assert (
        main(["segment", "predict", "--model", str(tmp_path / "m"), str(tmp_path / "x.png"), *out])
        == 0
    )
    np.testing.assert_array_equal(read_mask(tmp_path / "o/x.png"), 255 * segmenter.predict(fresh))


@pytest.mark.slow
def test_energies_do_not_depend_on_the_threads_of_blas(trained):
    segmenter, _ = trained
    image = describe(make_synthetic_images(1, random_state=4).images[0], 300)
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            graph = segmenter.graph(image)
            nodes, edges = segmenter.crf_model_.energies(graph)
        found.append([graph.potentials, graph.edge_potentials, nodes, edges])
    for other in found[1:]:
        for array, expected in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.slow
def test_training_is_on_one_thread_of_blas(monkeypatch):
    seen = []

    def watched(*arguments, **settings):
        found = [library for library in threadpool_info() if library["user_api"] == "blas"]
        seen.extend(
            library["num_threads"] for library in found if "opencv" not in library["filepath"]
        )
        return unary_potentials(*arguments, **settings)

    monkeypatch.setattr("structboost.segmentation.segmenter.unary_potentials", watched)
    made = make_synthetic_images(2)
    with threadpool_limits(2, user_api="blas"):
        Segmenter(n_segments=20, C=1.0, crf=CRFSettings(max_rounds=1)).fit(
            made.images, made.masks, made.scribbles
        )
    assert set(seen) == {1}


@pytest.mark.slow
def test_three_classes_are_learned_saved_and_loaded(tmp_path):
    made = make_synthetic_images(4)
    masks = []
    for mask in made.masks:
        three = mask.copy()
        three[:, :80][mask[:, :80] == 0] = 2
        masks.append(three)
    segmenter = Segmenter(n_segments=40, C=1.0, crf=CRFSettings(max_rounds=3), unaries=QUICK).fit(
        made.images, masks
    )
    assert not segmenter.history_[-1]["certified"]
    segmenter.save(tmp_path / "three")
    loaded = Segmenter.load(tmp_path / "three")
    found = [loaded.predict(image) for image in made.images]
    np.testing.assert_array_equal(found[0], segmenter.predict(made.images[0]))
    assert np.mean(np.array(found) == np.array(masks)) > 0.7
    with pytest.raises(ValueError, match=r"scribbles separates object .* model has 3 classes"):
        loaded.predict(made.images[0], made.scribbles[0])
