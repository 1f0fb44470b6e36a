"""Superpixels, their classifiers and the field over them are those of plain references."""

import pickle
from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import combinations

import cv2
import joblib
import networkx as nx
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from scipy.ndimage import label as components
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from examples.synthetic_images import make_synthetic_images
from structboost.files.archive import DamagedFileError, Part, checked_arrays
from structboost.learners.linear_function import CrossFittedFunction, CrossFittedWeights
from structboost.segmentation import OwnUnaries, Segmenter
from structboost.segmentation.crf import (
    CRFModel,
    CRFSettings,
    calibrated_sharpness,
    conditional_costs,
    fit_crf,
    fit_tuned,
    images_of_search,
    linear_function,
    pairwise_potentials,
    true_labels,
    tuned,
)
from structboost.segmentation.descriptors import (
    adjacency,
    describe,
    gradient_planes,
    label_counts,
    learn_codebook,
    patch_cells,
    region_means,
    stored_images,
    word_histograms,
)
from structboost.segmentation.unaries import (
    ALL,
    GROUPS,
    combine,
    fit_joint,
    fit_trees,
    fit_unaries,
    rows_by_group,
)
from structboost.tasks.superpixel_crf import SuperpixelGraph
from tests.helpers.photographs import QUICK
from tests.helpers.refusals import refused

NOISE = default_rng(0).integers(0, 256, size=(40, 50, 3)).astype(np.uint8)
HALVES = np.full((40, 50, 3), 30, np.uint8)
HALVES[:, 25:] = 220


@pytest.mark.parametrize("image", [NOISE, HALVES, NOISE[:1, :1], NOISE[:1], NOISE[:7, :3]])
def test_any_image_is_described_by_connected_superpixels_without_gaps(image):
    found = describe(image, 30)
    labels, n = found.labels, found.n_superpixels
    assert labels.shape == image.shape[:2]
    assert [components(labels == index)[1] for index in range(n)] == [1] * n
    assert_array_equal(found.sizes, np.bincount(labels.ravel(), minlength=n))
    assert ((found.positions > 0) & (found.positions < 1)).all()
    for rows in found.features.values():
        assert len(rows) == n
        assert np.isfinite(rows).all()
    assert np.isfinite(found.contrasts).all()
    assert not found.geometry().features


def test_adjacency_counts_pairs_of_pixels_and_averages_their_steps():
    rng = default_rng(1)
    labels = rng.integers(0, 5, size=(9, 8)).astype(np.int32)
    values = rng.normal(size=(9, 8, 3))
    steps = defaultdict(list)
    for y, x in np.ndindex(9, 8):
        for p in ((y, x - 1), (y - 1, x)):
            if min(p) >= 0 and labels[p] != labels[y, x]:
                pair = tuple(sorted((labels[p], labels[y, x])))
                steps[pair].append(np.linalg.norm(values[p] - values[y, x]))
    edges, boundaries, contrasts = adjacency(labels, values)
    assert_array_equal(edges, sorted(steps))
    assert_array_equal(boundaries, [len(steps[pair]) for pair in sorted(steps)])
    assert_allclose(contrasts, [np.mean(steps[pair]) for pair in sorted(steps)], rtol=1e-5)
    assert adjacency(np.zeros((3, 4), np.int32), np.zeros((3, 4, 1)))[0].shape == (0, 2)


def test_means_and_counts_of_regions_and_patches_are_those_of_their_pixels():
    rng = default_rng(2)
    labels = np.repeat(np.arange(6, dtype=np.int32).reshape(2, 3), 4, axis=0)
    planes = rng.normal(size=(8, 3, 2)).astype(np.float32)
    mask = rng.choice([0, 1, 2, 255], size=(8, 3)).astype(np.uint8)
    means, counts = region_means(labels, planes), label_counts(labels, mask, 3)
    for index in range(6):
        inside = labels == index
        assert_allclose(means[index], planes[inside].mean(axis=0), rtol=1e-5)
        assert_array_equal(counts[index], [(mask[inside] == c).sum() for c in range(3)])
    planes = cv2.integral(field := rng.random((20, 24, 2)).astype(np.float32))
    cells = patch_cells(planes, np.array([[10.0, 8.0]]), 8.0, 2)
    wanted = field[4:12, 6:14].reshape(2, 4, 2, 4, 2).mean(axis=(1, 3))
    assert_allclose(cells[0], wanted.ravel(), rtol=1e-5)
    assert np.isfinite(patch_cells(planes, np.array([[-50.0, 500], [23.9, 0]]), 4.0, 4)).all()


def test_gradients_have_their_length_and_rotate_with_the_image():
    image = np.tile(np.arange(0, 200, 10, dtype=np.uint8), (20, 1))
    across, down = gradient_planes(image), gradient_planes(image.T.copy())
    assert_allclose(across[5, 5].sum(), 20.0, rtol=1e-5)
    assert across[5, 5].argmax() == 0
    assert down[5, 5, 4] + down[5, 5, 5] == pytest.approx(20.0, rel=1e-5)


def test_word_histograms_reach_two_superpixels_away():
    """Neighbourhood size 2 (section 4.5), by breadth-first search and counting."""
    image = describe(make_synthetic_images(1).images[0], 40)
    codebook = learn_codebook([image], 5)
    assert_array_equal(codebook, learn_codebook([image], 5))
    rng = default_rng(0)
    codebook = rng.integers(0, 256, codebook.shape)
    words = rng.integers(0, 5, len(image.points))
    # Each point is a word itself.
    image = replace(image, point_descriptors=codebook[words].astype(np.uint8))
    found = word_histograms(image, codebook.astype(np.float32))
    graph = nx.Graph(image.edges.tolist())
    for superpixel in range(image.n_superpixels):
        near = nx.single_source_shortest_path_length(graph, superpixel, cutoff=2)
        counts = np.bincount(words[np.isin(image.points, list(near))], minlength=5)
        assert_allclose(found[superpixel], counts / max(counts.sum(), 1), rtol=1e-5)


def thirds(image):
    return np.indices(image.shape[:2])[1] // 60 * 7


def test_stored_images_are_those_that_are_described_and_errors_name_the_image(tmp_path):
    images = list(make_synthetic_images(2).images)
    describing = partial(describe, n_segments=15, own_superpixels=thirds, own_features=mean_colours)
    stored = stored_images(images, describing, str(tmp_path))
    assert [image.n_superpixels for image in stored] == [3, 3]
    assert_equal(vars(stored[1]), vars(describing(images[1])))
    own = stored[1].features["own"]
    assert_allclose(own, region_means(stored[1].labels, images[1]) / 255, rtol=1e-6)
    with pytest.raises(IndexError) as caught:
        stored_images(images, lambda image: image[999, 999], str(tmp_path))
    assert "Raised for images[0]." in caught.value.__notes__


@pytest.mark.parametrize("fit", [partial(fit_trees, n_rounds=3), fit_joint])
def test_classes_that_are_missing_in_training_are_less_likely_and_files_keep_all(fit):
    rows = default_rng(0).normal(size=(700, 300)).astype(np.float32)
    labels = np.where(rows[:, 0] > 0, 3, 1)
    two = fit(rows.copy(), labels, 4)
    kind, arrays = type(two), two.to_arrays()
    schema = {"": Part(kind.schema, {"n_features": 300, "n_labels": 4})}
    again = kind.from_arrays(checked_arrays(schema, arrays), 4)
    found = again.log_probabilities(rows)
    assert_array_equal(found, two.log_probabilities(rows))
    assert np.mean(found.argmax(axis=1) == labels) > 0.95
    assert (found[:, [0, 2]] <= found[:, [1, 3]].min()).all()
    one = fit(rows.copy(), np.full(700, 2), 3).log_probabilities(rows)
    assert_array_equal(one.argmax(axis=1), 2)
    cut_off = ({name: array[:0]} for name, array in arrays.items())
    for change in ({"classes": np.array([3, 3])}, *cut_off):
        with pytest.raises(DamagedFileError):
            kind.from_arrays(checked_arrays(schema, arrays | change), 4)


def test_the_joint_classifier_takes_signed_roots_of_standardised_features():
    rows = default_rng(0).normal(size=(700, 300)).astype(np.float32) * 3 + 1
    labels = (rows[:, 0] + rows[:, 1] > 2).astype(np.int64)
    found = fit_joint(rows.copy(), labels, 2)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    roots = np.sign(scaled) * np.sqrt(np.abs(scaled))
    theirs = LogisticRegression(C=2e-3, max_iter=60).fit(roots, labels).predict_log_proba(roots)
    assert_allclose(found.log_probabilities(rows), theirs, atol=1e-3)


def described(n):
    made = make_synthetic_images(n, random_state=0)
    images = [describe(image[::2, ::2], 60) for image in made.images]
    pairs = zip(images, made.masks, strict=True)
    return images, [label_counts(image.labels, mask[::2, ::2].copy(), 2) for image, mask in pairs]


def most_likely(log_probabilities):
    return np.concatenate([combine(rows).argmax(axis=1) for rows in log_probabilities])


@pytest.mark.slow
def test_log_probabilities_come_from_classifiers_of_other_images():
    """Labels are random: only a classifier that has seen the image can know them."""
    images, _ = described(4)
    rng = default_rng(1)
    labels = [rng.integers(0, 2, size=image.n_superpixels) for image in images]
    counts = [
        np.eye(2, dtype=np.int64)[drawn] * image.sizes[:, None]
        for image, drawn in zip(images, labels, strict=True)
    ]
    classifiers, found = fit_unaries(images, counts, replace(QUICK, group_rounds=20))
    truth = np.concatenate(labels)
    assert np.mean(most_likely(found) == truth) < 0.6
    assert np.mean(most_likely(map(classifiers.log_probabilities, images)) == truth) > 0.75
    # Those of a group are never on both sides.
    twice = fit_unaries(images[:2] * 2, counts[:2] * 2, QUICK, groups=[0, 1, 0, 1])[1]
    assert_array_equal(twice[0], twice[2])
    assert np.mean(most_likely(twice[:2]) == np.concatenate(labels[:2])) < 0.6


@pytest.mark.slow
def test_classifiers_recognise_the_coins_whatever_the_threads():
    images, counts = described(8)
    train = images[:6], counts[:6], QUICK
    classifiers, found = fit_unaries(*train)
    assert found[0].shape == (images[0].n_superpixels, len(GROUPS) + 1, 2)
    assert_allclose(np.exp(found[0]).sum(axis=2), 1.0, rtol=1e-6)
    fresh = most_likely(map(classifiers.log_probabilities, images[6:]))
    assert np.mean(fresh != np.concatenate(counts[6:]).argmax(axis=1)) < 0.1
    with joblib.parallel_config("threading"):
        again = fit_unaries(*train, n_jobs=2)[1]
    assert_array_equal(found[0], again[0])
    assert not np.array_equal(found[0], fit_unaries(*train, random_state=1)[1][0])
    # The last log-probabilities are those of the one joint classifier without the image.
    for image, rows in zip(images, found, strict=False):
        features = rows_by_group(image, classifiers.codebook)[ALL]
        each = [one.log_probabilities(features) for one in classifiers.by_group[ALL]]
        apart = [np.abs(rows[:, -1] - one).max() for one in each]
        assert min(apart) < 1e-5 < max(apart)


@pytest.mark.slow
def test_classifiers_learn_from_at_most_the_number_of_superpixels(monkeypatch):
    images, counts = described(4)
    found = []
    for changed in ({}, {"_GROUP_ROWS": 30}, {"_JOINT_ROWS": 30}):
        with monkeypatch.context() as patch:
            for name, value in changed.items():
                patch.setattr(f"structboost.segmentation.unaries.{name}", value)
            found.append(fit_unaries(images, counts, QUICK)[1][0])
    usual, by_group, joint = found
    is_joint = np.arange(len(GROUPS) + 1) == len(GROUPS)
    assert_array_equal((usual == by_group).all(axis=(0, 2)), is_joint)
    assert_array_equal((usual == joint).all(axis=(0, 2)), ~is_joint)
    refused("void", fit_unaries, images, [0 * count for count in counts])


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
    (own,) = segmenter.classifiers_.by_group[ALL]
    assert [one.coef_.shape for one in own.classifiers] == [(1, 3)] * 2
    found = [segmenter.predict(image) for image in fresh.images]
    assert np.mean([f == m for f, m in zip(found, fresh.masks, strict=True)]) > 0.9
    # Each square has one label.
    blocks = found[0].reshape(15, 8, 20, 8)
    assert (blocks == blocks[:, :1, :, :1]).all()
    again = pickle.loads(pickle.dumps(segmenter))
    assert_array_equal(again.predict(fresh.images[0]), found[0])
    refused(r"a user's .*joblib\.dump", segmenter.save, "nowhere")


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
    caught = refused(message, segmenter.fit, made.images, made.masks)
    assert "Raised for images[0]." in caught.__notes__


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
    assert_array_equal(kept, [True, False, True])
    assert_array_equal(truth.labels, [0, 1])
    assert_allclose(truth.areas, [0.6, 1.0])


# Potentials of a superpixel and of an edge of the made images.
SIZES = {"node": 3, "edge": 2}
SSVM, STUMPS = CRFSettings(learner="ssvm"), CRFSettings(learner="stump")


def linear_images(n, seed, stranger=None):
    """Labels that are a noisy linear function of three potentials, where edges tell nothing."""
    rng = default_rng(seed)
    graphs, counts = [], []
    for i in range(n):
        rows = rng.normal(size=(20, 3))
        labels = (rows @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=20) < 0).astype(np.int64)
        if i == stranger:
            labels = 1 - labels
        potentials = np.stack((np.zeros_like(rows), rows), axis=1)
        edges = np.column_stack((np.arange(19), np.arange(1, 20)))
        graphs.append(SuperpixelGraph(potentials, edges, rng.random((19, 2))))
        counts.append(50 * np.eye(2, dtype=np.int64)[labels])
    return graphs, counts


def test_a_cross_fitted_function_has_the_weights_of_each_fold_and_elsewhere_the_mean():
    rng = default_rng(0)
    features, duals = rng.random((60, 3)), rng.normal(size=(60, 2))
    weights = CrossFittedWeights(rng.random((2, 3)), rng.integers(0, 2, 60))
    family = CrossFittedFunction(features, weights)
    found = family.price(duals, 5)
    responses = family.responses([found[0].learner])[0].astype(float)
    for candidate in found:
        assert responses @ duals[:, candidate.channel] == pytest.approx(candidate.edge, rel=1e-5)
    own = np.einsum("pf,pf->p", features, weights.weights[weights.folds])
    assert_allclose(np.corrcoef(own, responses)[0, 1], 1.0, atol=1e-6)
    fresh = rng.random((10, 3))
    mean = fresh @ weights.weights.mean(axis=0)
    of_table = family.table([found[0].learner]).responses(fresh)[0]
    assert_allclose(np.corrcoef(mean, of_table)[0, 1], 1.0, atol=1e-9)


def test_linear_weights_of_a_group_are_learned_without_it():
    graphs, counts = linear_images(8, 0)
    groups = [5, 6, 7, 8, 5, 6, 7, 8]
    before, after = (
        linear_function(graphs, labels, CRFSettings(), groups)["node"]
        for labels in (counts, linear_images(8, 0, stranger=1)[1])
    )
    folds = before.folds.reshape(8, 40)
    assert_array_equal(folds[:4], folds[4:])
    changed = np.abs(before.weights - after.weights).max(axis=1) > 0.01
    assert_array_equal(changed, np.arange(3) != folds[1, 0])
    for settings in (STUMPS, SSVM):
        assert linear_function(graphs, counts, settings) is None


def test_a_linear_function_is_cross_fitted_and_given_it_is_not_learned_again():
    graphs, counts = linear_images(9, 1)
    for settings in (CRFSettings(), STUMPS):
        trainer = fit_crf(graphs, counts, settings, 1.0)
        last = trainer.history_[-1]
        # The cross-fitted responses of training are not those of the saved function.
        assert last["certified"] == (settings is STUMPS) != last["cross_fitted"]
        assert last["gap"] <= 0.05
        linear = linear_function(graphs, counts, settings)
        again = fit_crf(graphs, counts, settings, 1.0, None, linear)
        assert trainer.objective_ == again.objective_


@pytest.mark.parametrize("settings", [CRFSettings(), STUMPS, SSVM])
def test_crf_model_from_arrays_has_the_energies_of_the_trainer(settings):
    trainer = fit_crf(*linear_images(6, 3), settings, 1.0)
    arrays = CRFModel(trainer.model_).to_arrays()
    model = CRFModel.from_arrays(arrays, SIZES)
    fresh = linear_images(3, 4)[0]
    for graph, labels in zip(fresh, trainer.predict(fresh), strict=True):
        assert_array_equal(model.labels_and_costs(graph)[0], labels)
    refused("other potentials", CRFModel.from_arrays, arrays, {**SIZES, "node": SIZES["node"] + 1})
    damaged = {"ensemble": arrays["ensemble"][:-90]}
    refused("no archive of arrays", CRFModel.from_arrays, damaged, SIZES)


def test_costs_of_labels_are_differences_of_energies():
    rng = default_rng(0)
    nodes, weights = rng.normal(size=(6, 3)), rng.uniform(size=9)
    edges = rng.permutation(list(combinations(range(6), 2)))[:9]
    labels = rng.integers(3, size=6)
    wanted = np.zeros((6, 3))
    for p, k in np.ndindex(6, 3):
        y = np.where(np.arange(6) == p, k, labels)
        wanted[p, k] = nodes[np.arange(6), y].sum() + weights @ (y[edges[:, 0]] != y[edges[:, 1]])
    costs = conditional_costs(nodes, edges, weights, labels)
    assert_allclose(costs - costs[:, :1], wanted - wanted[:, :1])


def test_labels_drawn_with_a_known_factor_lead_back_to_it():
    rng = default_rng(0)
    costs = rng.normal(size=(20_000, 3))
    cumulated = softmax(-2.5 * costs, axis=1).cumsum(axis=1)
    drawn = (rng.uniform(size=(len(costs), 1)) > cumulated).sum(axis=1)
    sharpness = calibrated_sharpness([costs], [np.eye(3, dtype=int)[drawn]])
    assert sharpness == pytest.approx(2.5, rel=0.05)


@pytest.mark.slow
def test_C_is_chosen_by_cross_validation(capsys):
    graphs, counts = linear_images(9, 5)
    settings, C, scores = tuned(graphs, counts, CRFSettings(), (0.01, 0.1, 1.0))
    assert scores[C] == max(scores.values())
    assert settings.linear_C in (0.01, 0.1, 1.0)
    # A photograph that comes twice tells nothing of how others are labelled: with its index it is
    # never held out.
    rng = default_rng(0)
    noise = [50 * np.eye(2, dtype=np.int64)[rng.integers(0, 2, 20)] for _ in graphs]
    twice = graphs * 2, noise * 2, STUMPS, (3.0, 10.0)
    *_, alone = tuned(*twice, groups=[*range(9)] * 2)
    *_, leaked = tuned(*twice)
    assert max(leaked.values()) > max(alone.values()) + 0.1
    _, C, scores = fit_tuned(graphs, counts, SSVM, None, 0, range(9), True)
    assert C in dict(scores)
    assert "search for C on 9 images" in capsys.readouterr().err


def test_C_is_chosen_on_whole_groups():
    assert images_of_search(range(5), 0) == [0, 1, 2, 3, 4]
    assert len(images_of_search(range(500), 0)) == 100
    groups = np.repeat(np.arange(50), 13).tolist()
    kept = images_of_search(groups, 0)
    assert len(kept) == 104
    assert {groups[i] for i in kept} == {groups[i] for i in kept[::13]}


@pytest.mark.parametrize("changed", [{"tol": 0.5}, {"linear_C": 1e-3}, {"pairwise": False}, {}])
def test_a_setting_of_the_crf_with_another_value_changes_the_model(changed):
    graphs, counts = linear_images(4, 0)
    usual, other = (
        fit_crf(graphs, counts, CRFSettings(**settings), 1.0) for settings in ({}, changed)
    )
    assert (other.objective_ == usual.objective_) == (not changed)
