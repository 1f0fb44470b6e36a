"""Trees of two levels: the search is exact, the bound holds, and the model is a set of tables."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from structboost import BinaryTask, StructBoost, StructBoostClassifier
from structboost.faces.tables import later_table
from structboost.files.archive import DamagedFileError
from structboost.learners import PairTreeFamily
from structboost.learners.tree_table import PairTables
from tests.helpers.listed_trees import drawn_table, functions_of, grid_of, listed_trees
from tests.helpers.problems import full_optimum

pytestmark = [
    pytest.mark.filterwarnings("ignore::structboost.errors.EmptyModelWarning"),
    pytest.mark.filterwarnings("ignore::structboost.errors.ConstantPredictionWarning"),
]
RESPONSES = [(-1.0, 1.0), (0.0, 1.0), (-2.0, 1.0)]
KINDS = [
    {"with_gaps": gaps, "with_categories": categories}
    for gaps in (False, True)
    for categories in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_finds_the_best_of_all_trees_that_keep_the_directions(kind):
    for trial in range(25):
        rng = default_rng(trial)
        X, categorical, directions = drawn_table(rng, **kind)
        directions = None if trial % 5 == 0 else directions
        if trial % 2:
            # With each input as a row, no two trees are alike.
            X = grid_of(X)[0]
        elif trial % 3:
            # Most rows are in the first bin of a feature.
            X = np.concatenate((X, np.repeat([np.nanmin(X, axis=0)], 40, axis=0)))
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
        assert_array_equal(table.responses(X), responses)
        assert [family.restored(list(learner)) for learner in learners] == learners
        grid = grid_of(X)[0]
        listed = {tree.tobytes() for tree in functions_of(grid, categorical, directions)}
        assert all((row == high).tobytes() in listed for row in table.responses(grid)), trial


def test_candidates_of_a_channel_split_different_features_at_their_roots():
    rng = default_rng(0)
    X, duals = rng.normal(size=(80, 6)), rng.normal(size=(80, 1))
    X[rng.random(X.shape) < 0.1] = np.nan
    family = PairTreeFamily(X, (-1.0, 1.0))
    found = family.price(duals, 4)
    table = family.table([candidate.learner for candidate in found])
    assert len(np.unique(table.feature[:, 0])) == 4
    edges = [candidate.edge for candidate in found]
    assert edges == sorted(edges, reverse=True)


class WithoutPart(PairTreeFamily):
    """Family that is always searched as a whole."""

    def part(self):
        return None


@pytest.mark.slow
def test_the_search_of_a_part_first_ends_at_the_same_optimum():
    rng = default_rng(0)
    X, duals = rng.normal(size=(60, 70)), rng.normal(size=(60, 2))
    family = PairTreeFamily(X, (-1.0, 1.0))
    part = family.part()
    assert not part.exact_pricing
    for candidate in part.price(duals, 2):
        response = family.responses([candidate.learner])[0]
        assert response @ duals[:, candidate.channel] == pytest.approx(candidate.edge)
        best = max(c.edge for c in family.price(duals, 1) if c.channel == candidate.channel)
        assert candidate.edge <= best + 1e-12
    assert PairTreeFamily(X[:, :9], (-1.0, 1.0)).part() is None
    y = np.where(X[:, 3] * X[:, 50] > 0, 1, -1)
    last, other = (
        StructBoost(BinaryTask(), C=20.0, tol=1e-3, weak_learner=learner, max_rounds=300)
        .fit(X, y)
        .history_[-1]
        for learner in ("pair_tree", WithoutPart)
    )
    assert last["gap"] <= 1e-3
    assert last["primal"] == pytest.approx(other["primal"], rel=2e-3)


@pytest.mark.parametrize(
    ("n_columns", "options", "message"),
    [(4001, {}, "at most 4000"), (1, {"categorical": [0], "directions": [1]}, "categorical")],
)
def test_wide_tables_and_directions_of_categories_are_refused(n_columns, options, message):
    with pytest.raises(ValueError, match=message):
        PairTreeFamily(np.eye(2, n_columns), (-1.0, 1.0), **options)


def test_learners_of_other_features_and_shared_prices_are_refused():
    family = PairTreeFamily(np.arange(12.0).reshape(6, 2), (-1.0, 1.0))
    tree = family.price(np.array([[1.0], [-1.0], [1.0], [-1.0], [1.0], [1.0]]), 1)[0].learner
    with pytest.raises(DamagedFileError):
        family.restored(list(tree._replace(thresholds=(0.1, 0.2, 0.3))))
    with pytest.raises(NotImplementedError, match="price_groups"):
        family.price_groups(np.ones((6, 1)), 1)


# -- the bound against programs over all trees --------------------------------------------------


@pytest.mark.parametrize("seed", [*range(12), 926])
def test_no_certificate_is_false(seed):
    rng = default_rng(seed)
    X, categorical, directions = drawn_table(rng, **KINDS[seed % 4])
    trees = np.where(listed_trees(X, categorical, directions), 1.0, -1.0)
    C, tol = float(rng.uniform(1, 40)), float(rng.choice([0.05, 0.01, 1e-4]))
    y, weights = np.append([0, 1], rng.integers(0, 2, len(X) - 2)), rng.uniform(0.5, 2.0, len(X))
    model = StructBoostClassifier(
        objective="hinge", weak_learner="pair_tree", categorical_features=list(categorical),
        monotonic_cst=directions, C=C, tol=tol, pricing=str(rng.choice(["own", "best"])),
        columns_per_channel=int(rng.integers(1, 6)), random_state=0,
        formulation=str(rng.choice(["one_slack", "m_slack"])),
    ).fit(X, y, sample_weight=weights)  # fmt: skip
    margins, costs = (trees * np.where(y > 0, 1, -1)).T, C * weights / weights.sum()
    optimum = full_optimum(margins, 1, np.arange(len(X)), costs)
    last = model.history_[-1]
    assert last["certified"]
    assert last["gap"] <= 1.01 * tol
    assert last["bound"] <= optimum * (1 + 1e-6)
    assert last["bound_all"] <= optimum * (1 + 1e-6)
    assert last["primal"] >= optimum * (1 - 1e-6)


# -- the model ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    rng = default_rng(0)
    X = rng.normal(size=(160, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], len(X)))
    frame.loc[5:9, "kind"] = np.nan
    filled = np.nan_to_num(X)
    y = (filled[:, 0] * filled[:, 1] > 0).astype(int) + (frame["kind"] == "y").to_numpy()
    model = StructBoostClassifier(
        objective="hinge", C=20, tol=0.05, weak_learner="pair_tree", random_state=0
    )
    return model.fit(frame, y), frame


def test_tables_of_features_and_pairs_give_the_scores(fitted):
    model, frame = fitted
    rows = later_table(model, frame)
    tables = model.model_.compile()
    assert isinstance(tables, PairTables)
    n_single, n_pairs = len(tables.steps.features), len(tables.pairs)
    assert repr(tables) == f"PairTables({n_single} features, {n_pairs} pairs, 3 channels)"
    scores = model.model_.scores(rows)
    assert_allclose(tables.raw_scores(rows), scores, atol=1e-9)
    pure = tables.purified()
    assert_allclose(pure.raw_scores(rows), scores, atol=1e-9)
    for values in pure.pairs.values():
        assert_allclose(values[:, :-1].mean(axis=1), 0, atol=1e-12)
        assert_allclose(values[:-1].mean(axis=0), 0, atol=1e-12)
