"""Training a CRF: the cross-fitted linear function beside the stumps, and the model file."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import StructBoost
from structboost.errors import ModelFileError
from structboost.files.schema import DamagedFileError
from structboost.learners.linear_function import CrossFittedFunction, CrossFittedWeights
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import (
    CRFSettings,
    fit_crf,
    fit_tuned,
    linear_function,
    tuned,
)
from structboost.tasks.superpixel_crf import SuperpixelGraph

# Potentials of a superpixel and of an edge of the made images.
SIZES = {"node": 3, "edge": 2}


def linear_images(n, seed, noise=0.3, stranger=None):
    """Labels that are a noisy linear function of three potentials; edges tell nothing."""
    rng = np.random.default_rng(seed)
    graphs, counts = [], []
    for i in range(n):
        rows = rng.normal(size=(20, 3))
        seen = rows @ [1.0, -1.0, 0.5] + noise * rng.normal(size=20)
        labels = (seen < 0).astype(np.int64)
        if i == stranger:
            labels = 1 - labels
        potentials = np.stack((np.zeros_like(rows), rows), axis=1)
        edges = np.column_stack((np.arange(19), np.arange(1, 20)))
        graphs.append(SuperpixelGraph(potentials, edges, rng.random((19, 2))))
        counts.append(50 * np.eye(2, dtype=np.int64)[labels])
    return graphs, counts


def truths(counts):
    return [c.argmax(axis=1) for c in counts]


def test_a_cross_fitted_function_has_the_weights_of_each_fold_and_elsewhere_the_mean():
    rng = np.random.default_rng(0)
    features, duals = rng.random((60, 3)), rng.normal(size=(60, 2))
    weights = CrossFittedWeights(rng.random((2, 3)), rng.integers(0, 2, 60))
    family = CrossFittedFunction(features, weights)
    found = family.price(duals, 5)
    responses = family.responses([found[0].learner])[0].astype(float)
    for candidate in found:
        assert responses @ duals[:, candidate.channel] == pytest.approx(candidate.edge, rel=1e-5)
    own = np.einsum("pf,pf->p", features, weights.weights[weights.folds])
    np.testing.assert_allclose(np.corrcoef(own, responses)[0, 1], 1.0, atol=1e-6)
    fresh = rng.random((10, 3))
    mean = fresh @ weights.weights.mean(axis=0)
    of_table = family.table([found[0].learner]).responses(fresh)[0]
    np.testing.assert_allclose(np.corrcoef(mean, of_table)[0, 1], 1.0, atol=1e-9)


def test_linear_weights_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="folds"):
        CrossFittedFunction(np.ones((4, 2)), CrossFittedWeights(np.ones((1, 2)), np.zeros(3, int)))


def test_linear_weights_of_an_image_are_learned_without_it():
    graphs, counts = linear_images(6, 0)
    changed = linear_images(6, 0, stranger=1)[1]
    before = linear_function(graphs, counts, CRFSettings())["node"]
    after = linear_function(graphs, changed, CRFSettings())["node"]
    assert len(before.folds) == 6 * 20 * 2
    own = before.folds[1 * 40]
    np.testing.assert_array_equal(before.weights[own], after.weights[own])
    others = [fold for fold in range(3) if fold != own]
    assert np.abs(before.weights[others] - after.weights[others]).max() > 0.01


def test_images_of_a_group_are_in_one_fold_of_the_crf():
    graphs, counts = linear_images(8, 0)
    folds = linear_function(graphs, counts, CRFSettings(), [5, 6, 7, 8, 5, 6, 7, 8])[
        "node"
    ].folds.reshape(8, 40)
    np.testing.assert_array_equal(folds[:4], folds[4:])
    assert len(np.unique(folds)) == 3


def test_linear_function_beats_stumps_on_few_images_with_linear_truth():
    graphs, counts = linear_images(9, 1)
    fresh, fresh_counts = linear_images(40, 2)
    wrong = {}
    for weak_learner in ("linear_and_stump", "stump"):
        trainer = fit_crf(graphs, counts, CRFSettings(weak_learner=weak_learner), 1.0)
        assert isinstance(trainer, StructBoost)
        last = trainer.history_[-1]
        # The cross-fitted responses of training are not those of the saved function.
        assert (last["certified"], last["cross_fitted"]) == (
            (False, True) if "linear" in weak_learner else (True, False)
        )
        assert last["gap"] <= 0.05
        found = trainer.predict(fresh)
        wrong[weak_learner] = np.mean(
            [a != b for a, b in zip(found, truths(fresh_counts), strict=True)]
        )
    assert wrong["linear_and_stump"] < 0.9 * wrong["stump"]


def test_linear_function_learned_beforehand_gives_the_same_model():
    graphs, counts = linear_images(6, 0)
    linear = linear_function(graphs, counts, CRFSettings())
    itself, given = (
        fit_crf(graphs, counts, CRFSettings(), 1.0),
        fit_crf(graphs, counts, CRFSettings(), 1.0, None, linear),
    )
    assert itself.objective_ == given.objective_
    assert linear_function(graphs, counts, CRFSettings(weak_learner="stump")) is None
    assert linear_function(graphs, counts, CRFSettings(learner="ssvm")) is None


@pytest.mark.parametrize(
    "settings", [CRFSettings(), CRFSettings(weak_learner="stump"), CRFSettings(learner="ssvm")]
)
def test_crf_model_from_arrays_has_the_energies_of_the_trainer(settings):
    graphs, counts = linear_images(6, 3)
    trainer = fit_crf(graphs, counts, settings, 1.0)
    model = CRFModel.from_arrays(2, CRFModel.of(trainer).to_arrays(), SIZES)
    fresh = linear_images(3, 4)[0]
    for graph, labels in zip(fresh, trainer.predict(fresh), strict=True):
        np.testing.assert_array_equal(model.labels(graph), labels)
    if isinstance(trainer, StructBoost):
        rows = trainer.task.parts(fresh[0])["node"]
        np.testing.assert_allclose(
            model.energies(fresh[0])[0].ravel(), trainer.model_.scores(rows, "node")[:, 0]
        )


@pytest.mark.parametrize("learner", ["ssvm", "structboost"])
def test_crf_training_is_deterministic(learner):
    graphs, counts = linear_images(6, 3)
    first, again = (
        CRFModel.of(fit_crf(graphs, counts, CRFSettings(learner=learner), 1.0)) for _ in range(2)
    )
    for graph in graphs:
        for energies in zip(first.energies(graph), again.energies(graph), strict=True):
            np.testing.assert_array_equal(*energies)


def test_energies_of_other_potentials_are_refused():
    arrays = CRFModel.of(
        fit_crf(*linear_images(6, 3), CRFSettings(learner="ssvm"), 1.0)
    ).to_arrays()
    assert CRFModel.from_arrays(2, arrays, SIZES).n_labels == 2
    with pytest.raises(DamagedFileError, match="other potentials"):
        CRFModel.from_arrays(2, arrays, {**SIZES, "node": SIZES["node"] + 1})
    with pytest.raises(ModelFileError, match="crf/ensemble"):
        CRFModel.from_arrays(2, {"ensemble": arrays["ensemble"][:-90]}, SIZES)


@pytest.mark.slow
def test_C_is_chosen_by_cross_validation():
    graphs, counts = linear_images(9, 5)
    settings, C, scores, end = tuned(graphs, counts, CRFSettings(), (0.01, 0.1, 1.0))
    assert scores[C] == max(scores.values())
    assert end
    assert settings.linear_C in (0.01, 0.1, 1.0)
    assert tuned(graphs, counts, CRFSettings(), (1.0,)) == (
        CRFSettings(), 1.0, {}, "there is nothing to choose from",
    )  # fmt: skip
    # A photograph that comes twice tells nothing of how others are labelled: with its number it is
    # never held out.
    rng = np.random.default_rng(0)
    noise = [50 * np.eye(2, dtype=np.int64)[rng.integers(0, 2, 20)] for _ in graphs]
    twice = (graphs * 2, noise * 2, CRFSettings(weak_learner="stump"), (3.0, 10.0))
    alone = tuned(*twice, groups=[*range(9), *range(9)])
    leaked = tuned(*twice)
    assert max(leaked.scores.values()) > max(alone.scores.values()) + 0.1


def test_crf_settings_name_unknown_weak_learners():
    with pytest.raises(ValueError, match="linear_and_stump"):
        CRFSettings(weak_learner="forest")


@pytest.mark.parametrize(
    "changed", [{"columns_per_round": 1}, {"tol": 0.5}, {"by_area": False}, {"linear_C": 1e-3}]
)
def test_a_setting_of_the_crf_with_another_value_changes_the_model(changed):
    graphs, counts = linear_images(4, 0)
    counts = [count * (1 + np.arange(20)[:, None]) for count in counts]  # areas that differ
    usual, other = (
        fit_crf(graphs, counts, CRFSettings(**settings), 1.0) for settings in ({}, changed)
    )
    assert other.objective_ != usual.objective_
    if "columns_per_round" in changed:
        assert len(other.model_.weights) <= len(SIZES) * len(other.history_)


def test_C_is_searched_on_at_most_the_number_of_images_that_is_set(capsys):
    graphs, counts = linear_images(8, 0)
    settings = CRFSettings(learner="ssvm", search_images=4)
    fit_tuned(graphs, counts, settings, None, verbose=True)
    assert "search for C on 4 images" in capsys.readouterr().err
