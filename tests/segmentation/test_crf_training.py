"""Training a CRF: the cross-fitted linear function beside the stumps, the choice of C, files."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.special import softmax

from structboost.errors import ModelFileError
from structboost.files.archive import DamagedFileError
from structboost.learners.linear_function import CrossFittedFunction, CrossFittedWeights
from structboost.segmentation.crf import (
    CRFModel,
    CRFSettings,
    calibrated_sharpness,
    conditional_costs,
    fit_crf,
    fit_tuned,
    images_of_search,
    linear_function,
    tuned,
)
from structboost.tasks.superpixel_crf import SuperpixelGraph

# Potentials of a superpixel and of an edge of the made images.
SIZES = {"node": 3, "edge": 2}
SSVM = CRFSettings(learner="ssvm")


def linear_images(n, seed, stranger=None):
    """Labels that are a noisy linear function of three potentials; edges tell nothing."""
    rng = np.random.default_rng(seed)
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
    with pytest.raises(ValueError, match="folds"):
        CrossFittedFunction(np.ones((4, 2)), CrossFittedWeights(np.ones((1, 2)), np.zeros(3, int)))


def test_linear_weights_of_a_group_are_learned_without_it():
    graphs, counts = linear_images(8, 0)
    groups = [5, 6, 7, 8, 5, 6, 7, 8]
    before, after = (
        linear_function(graphs, labels, CRFSettings(), groups)["node"]
        for labels in (counts, linear_images(8, 0, stranger=1)[1])
    )
    folds = before.folds.reshape(8, 40)
    np.testing.assert_array_equal(folds[:4], folds[4:])
    changed = np.abs(before.weights - after.weights).max(axis=1) > 0.01
    np.testing.assert_array_equal(changed, np.arange(3) != folds[1, 0])
    for settings in (CRFSettings(weak_learner="stump"), SSVM):
        assert linear_function(graphs, counts, settings) is None


def test_linear_function_beats_stumps_on_few_images_with_linear_truth():
    graphs, counts = linear_images(9, 1)
    fresh, fresh_counts = linear_images(40, 2)
    wrong = []
    for weak_learner in ("linear_and_stump", "stump"):
        settings = CRFSettings(weak_learner=weak_learner)
        trainer = fit_crf(graphs, counts, settings, 1.0)
        last = trainer.history_[-1]
        # The cross-fitted responses of training are not those of the saved function.
        assert last["certified"] == (weak_learner == "stump") != last["cross_fitted"]
        assert last["gap"] <= 0.05
        labels = np.concatenate(trainer.predict(fresh))
        wrong.append(np.mean(labels != np.concatenate(fresh_counts).argmax(axis=1)))
        linear = linear_function(graphs, counts, settings)
        again = fit_crf(graphs, counts, settings, 1.0, None, linear)
        assert trainer.objective_ == again.objective_
    assert wrong[0] < 0.9 * wrong[1]


@pytest.mark.parametrize("settings", [CRFSettings(), CRFSettings(weak_learner="stump"), SSVM])
def test_crf_model_from_arrays_has_the_energies_of_the_trainer(settings):
    trainer = fit_crf(*linear_images(6, 3), settings, 1.0)
    arrays = CRFModel.of(trainer).to_arrays()
    model = CRFModel.from_arrays(2, arrays, SIZES)
    fresh = linear_images(3, 4)[0]
    for graph, labels in zip(fresh, trainer.predict(fresh), strict=True):
        np.testing.assert_array_equal(model.labels_and_costs(graph)[0], labels)
    scores = trainer.model_.scores(trainer.task.parts(fresh[0])["node"], "node")[:, 0]
    np.testing.assert_allclose(model.energies(fresh[0])[0].ravel(), scores)
    with pytest.raises(DamagedFileError, match="other potentials"):
        CRFModel.from_arrays(2, arrays, {**SIZES, "node": SIZES["node"] + 1})
    with pytest.raises(ModelFileError, match="crf/ensemble"):
        CRFModel.from_arrays(2, {"ensemble": arrays["ensemble"][:-90]}, SIZES)


def test_costs_of_labels_are_differences_of_energies():
    rng = np.random.default_rng(0)
    nodes, weights = rng.normal(size=(6, 3)), rng.uniform(size=9)
    edges = rng.permutation(list(combinations(range(6), 2)))[:9]
    labels = rng.integers(3, size=6)

    def energy(p, k):
        y = np.where(np.arange(6) == p, k, labels)
        return nodes[np.arange(6), y].sum() + weights[y[edges[:, 0]] != y[edges[:, 1]]].sum()

    costs = conditional_costs(nodes, edges, weights, labels)
    wanted = np.array([[energy(p, k) for k in range(3)] for p in range(6)])
    np.testing.assert_allclose(costs - costs[:, :1], wanted - wanted[:, :1])


def test_labels_drawn_with_a_known_factor_lead_back_to_it():
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(20_000, 3))
    cumulated = softmax(-2.5 * costs, axis=1).cumsum(axis=1)
    drawn = (rng.uniform(size=(len(costs), 1)) > cumulated).sum(axis=1)
    sharpness = calibrated_sharpness([costs], [np.eye(3, dtype=int)[drawn]])
    assert sharpness == pytest.approx(2.5, rel=0.05)


@pytest.mark.slow
def test_C_is_chosen_by_cross_validation(capsys):
    graphs, counts = linear_images(9, 5)
    settings, C, scores, end = tuned(graphs, counts, CRFSettings(), (0.01, 0.1, 1.0))
    assert scores[C] == max(scores.values())
    assert end
    assert settings.linear_C in (0.01, 0.1, 1.0)
    alone = tuned(graphs, counts, CRFSettings(), (1.0,))
    assert (alone.settings, alone.C, alone.scores) == (CRFSettings(), 1.0, {})
    # A photograph that comes twice tells nothing of how others are labelled: with its index it is
    # never held out.
    rng = np.random.default_rng(0)
    noise = [50 * np.eye(2, dtype=np.int64)[rng.integers(0, 2, 20)] for _ in graphs]
    twice = (graphs * 2, noise * 2, CRFSettings(weak_learner="stump"), (3.0, 10.0))
    alone = tuned(*twice, groups=[*range(9), *range(9)])
    leaked = tuned(*twice)
    assert max(leaked.scores.values()) > max(alone.scores.values()) + 0.1
    few = CRFSettings(learner="ssvm", search_images=4)
    _, C, scores = fit_tuned(graphs, counts, few, None, verbose=True)
    assert C in dict(scores)
    assert "search for C on 4 images" in capsys.readouterr().err


def test_C_is_chosen_on_whole_groups():
    assert images_of_search(5, 100, None, 0) == [0, 1, 2, 3, 4]
    assert len(images_of_search(500, 100, None, 0)) == 100
    groups = np.repeat(np.arange(50), 10).tolist()
    kept = images_of_search(500, 95, groups, 0)
    assert len(kept) == 100
    assert {groups[i] for i in kept} == {groups[i] for i in kept[::10]}


def test_crf_settings_name_unknown_weak_learners():
    with pytest.raises(ValueError, match="linear_and_stump"):
        CRFSettings(weak_learner="forest")


@pytest.mark.parametrize(
    "changed", [{"columns_per_round": 1}, {"tol": 0.5}, {"by_area": False}, {"linear_C": 1e-3}, {}]
)
def test_a_setting_of_the_crf_with_another_value_changes_the_model(changed):
    graphs, counts = linear_images(4, 0)
    counts = [count * (1 + np.arange(20)[:, None]) for count in counts]  # areas that differ
    usual, other = (
        fit_crf(graphs, counts, CRFSettings(**settings), 1.0) for settings in ({}, changed)
    )
    assert (other.objective_ == usual.objective_) == (not changed)
    if "columns_per_round" in changed:
        assert len(other.model_.weights) <= len(SIZES) * len(other.history_)
