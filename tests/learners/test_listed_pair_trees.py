"""Trees of two levels with every keyword, against a list of all of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from structboost import (
    BinaryTask,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
)
from structboost.learners import PairTreeFamily
from tests.helpers.listed_trees import drawn_table, functions_of, grid_of, listed_trees
from tests.helpers.problems import class_margins, full_optimum

pytestmark = [
    pytest.mark.filterwarnings("ignore::structboost.errors.EmptyModelWarning"),
    pytest.mark.filterwarnings("ignore::structboost.errors.ConstantPredictionWarning"),
]
RESPONSES = [(-1.0, 1.0), (0.0, 1.0), (-2.0, 1.0)]
KINDS = {
    "numbers": {"with_gaps": False, "with_categories": False},
    "gaps": {"with_gaps": True, "with_categories": False},
    "categories": {"with_gaps": False, "with_categories": True},
    "both": {"with_gaps": True, "with_categories": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_finds_the_best_of_all_trees_that_keep_the_directions(kind):
    for trial in range(25):
        rng = np.random.default_rng(trial)
        X, categorical, directions = drawn_table(rng, **KINDS[kind])
        if trial % 2:
            # With each input as a row, no two trees are alike.
            X = grid_of(X)[0]
        low, high = RESPONSES[trial % 3]
        family = PairTreeFamily(X, (low, high), categorical=categorical, directions=directions)
        is_high = listed_trees(X, categorical, directions)
        trees = np.where(is_high, high, low)
        # One channel of noise, the others with a tree that is right everywhere.
        wanted = np.where(is_high[rng.integers(0, len(is_high), 12)], 1.0, -1.0)
        duals = np.column_stack((rng.normal(size=len(X)), *(wanted * rng.random(wanted.shape))))
        candidates = family.price(duals, 3)
        for channel, own in enumerate(duals.T):
            largest = max(c.edge for c in candidates if c.channel == channel)
            assert largest == pytest.approx((trees @ own).max(), abs=1e-9), (trial, channel)
        learners = [candidate.learner for candidate in candidates]
        responses = family.responses(learners)
        for candidate, response in zip(candidates, responses, strict=True):
            assert response @ duals[:, candidate.channel] == pytest.approx(candidate.edge)
        table = family.table(learners)
        np.testing.assert_array_equal(table.responses(X), responses)
        assert [family.restored(list(learner)) for learner in learners] == learners
        grid = grid_of(X)[0]
        listed = {tree.tobytes() for tree in functions_of(grid, categorical, directions)}
        assert all((row == high).tobytes() in listed for row in table.responses(grid)), trial


def fit_binary(rng, trees, table, settings):
    X, categorical, directions = table
    y = np.append([0, 1], rng.integers(0, 2, len(X) - 2))
    weights = rng.uniform(0.5, 2.0, len(X))
    model = StructBoostClassifier(
        objective="hinge", weak_learner="pair_tree", categorical_features=list(categorical),
        monotonic_cst=directions, **settings,
    ).fit(X, y, sample_weight=weights)  # fmt: skip
    margins = (trees * np.where(y > 0, 1, -1)).T
    return model, margins, np.arange(len(X)), weights / weights.sum()


def fit_trainer(rng, trees, table, settings):
    X, categorical, directions = table
    y = np.append([-1, 1], rng.choice([-1, 1], len(X) - 2))
    family = partial(PairTreeFamily, categorical=categorical, directions=directions)
    model = StructBoost(BinaryTask(), weak_learner=family, **settings).fit(X, y)
    return model, (trees * y).T, np.arange(len(X)), np.full(len(X), 1 / len(X))


def fit_ranker(rng, trees, table, settings):
    X, categorical, directions = table
    y = np.append([0, 1], rng.integers(0, 3, len(X) - 2))
    model = StructBoostRanker(
        objective="hinge", weak_learner="pair_tree", categorical_features=list(categorical),
        monotonic_cst=directions, **settings,
    ).fit(X, y, qid=np.zeros(len(X)))  # fmt: skip
    pairs = np.argwhere(y[:, None] > y)
    margins = (trees[:, pairs[:, 0]] - trees[:, pairs[:, 1]]).T
    return model, margins, np.arange(len(pairs)), np.full(len(pairs), 1 / len(pairs))


def fit_classes(rng, trees, table, settings):
    X, categorical, _ = table
    y = np.append([0, 1, 2], rng.integers(0, 3, len(X) - 3))
    family = partial(PairTreeFamily, categorical=categorical)
    model = StructBoost(MulticlassTask(3), weak_learner=family, **settings).fit(X, y)
    return model, *class_margins(trees, y), np.full(len(X), 1 / len(X))


FITS = [fit_binary, fit_trainer, fit_ranker, fit_classes]


def check_certificate(fit, seed):
    """Draw a fit, and compare its certificate with a program over all trees."""
    rng = np.random.default_rng(seed)
    kinds = list(KINDS.values())
    table = drawn_table(rng, **kinds[seed % 4])
    directions = None if fit is fit_classes else table[2]
    trees = np.where(listed_trees(*table[:2], directions), 1.0, -1.0)
    settings = {
        "C": float(rng.uniform(1, 40)),
        "tol": float(rng.choice([0.05, 0.01, 1e-4])),
        "pricing": str(rng.choice(["own", "best"])),
        "columns_per_channel": int(rng.integers(1, 6)),
        "formulation": str(rng.choice(["one_slack", "m_slack"])),
        "random_state": 0,
    }
    if fit is fit_ranker:
        settings["formulation"] = "one_slack"
    model, margins, groups, weights = fit(rng, trees, table, settings)
    optimum = full_optimum(margins, 1, groups, settings["C"] * weights)
    last = model.history_[-1]
    assert last["certified"]
    assert last["bound"] <= optimum * (1 + 1e-6)
    assert last["bound_all"] <= optimum * (1 + 1e-6)
    assert last["primal"] >= optimum * (1 - 1e-6)


@pytest.mark.parametrize("fit", FITS)
def test_no_certificate_is_false(fit):
    for seed in range(8):
        check_certificate(fit, seed)


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS)
def test_no_certificate_of_many_is_false(fit):
    for seed in range(100, 160):
        check_certificate(fit, seed)


def test_trees_that_keep_directions_cost_as_little_as_the_best_of_them():
    missing = np.array([[np.nan], [np.nan], [np.nan], [0.0], [1.0], [2.0]])
    grid = np.array([[a, b] for a in range(3) for b in range(3)], float)
    nested = grid[:, 1] > np.where(grid[:, 0] < 0.5, 1.5, 0.5)
    present = ~np.isnan(missing[:, 0])
    for X, y, directions in (
        (missing, present, [1]),
        (missing, ~present, [1]),
        (grid, nested, [1, 1]),
    ):
        model = StructBoostClassifier(
            objective="hinge", weak_learner="pair_tree", C=50, tol=1e-4, monotonic_cst=directions
        ).fit(X, y)
        assert model.history_[-1]["bound"] == pytest.approx(1.0, rel=1e-3)
        assert model.objective_ == pytest.approx(1.0, rel=1e-3)


def test_a_categorical_feature_has_no_direction():
    with pytest.raises(ValueError, match="categorical"):
        PairTreeFamily(np.zeros((3, 1)), (-1.0, 1.0), categorical=[0], directions=[1])
