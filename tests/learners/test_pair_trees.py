"""Trees of two levels: the search is exact, the bound holds, and the model is a set of tables."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from structboost import (
    BinaryTask,
    MulticlassTask,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.files.schema import DamagedFileError
from structboost.learners import PairTreeFamily
from structboost.learners.pair_search import BY_SETS, best_children
from structboost.learners.pair_tables import PairTables
from tests.helpers.problems import class_margins, full_optimum

RESPONSES = [(-1.0, 1.0), (0.0, 1.0), (-2.0, 1.0)]


def sides(column, *, categorical, at_root):
    """Rows that a split of a column sends left, for every split; missing values go either way."""
    known, missing = np.unique(column[~np.isnan(column)]), np.isnan(column)
    if categorical:
        if at_root:
            return [column == value for value in known] + [missing]
        groups = [column == value for value in known] + [missing]
        return [
            np.any([g for g, inside in zip(groups, chosen, strict=True) if inside], axis=0)
            for chosen in product((False, True), repeat=len(groups))
            if any(chosen)
        ]
    found = []
    for value in known[:-1]:
        found += [column <= value, (column <= value) | missing]
    return [*found, missing, np.ones(len(column), bool)]


def all_trees(X, categorical=()):
    """Partitions of the rows by all trees of two levels: lists of four masks."""
    columns = [
        (X[:, f], f in categorical) for f in range(X.shape[1]) if len(np.unique(X[:, f])) > 1
    ]
    roots = [s for c, is_set in columns for s in sides(c, categorical=is_set, at_root=True)]
    children = [s for c, is_set in columns for s in sides(c, categorical=is_set, at_root=False)]
    for root in roots or [np.ones(len(X), bool)]:
        of_sides = [
            {(side & child).tobytes(): (side & child, side & ~child) for child in children}
            or {b"": (side, side & ~side)}
            for side in (root, ~root)
        ]
        for left, right in product(*(one.values() for one in of_sides)):
            yield [*left, *right]


def random_table(rng, n, kind):
    X = rng.integers(0, 4, (n, rng.integers(1, 4))).astype(float)
    if kind != "numbers":
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, ((0,) if kind == "categories" else ())


@pytest.mark.parametrize("kind", ["numbers", "missing", "categories"])
def test_the_search_finds_the_best_of_all_trees(kind):
    rng = np.random.default_rng(0)
    for trial in range(12):
        X, categorical = random_table(rng, int(rng.integers(2, 14)), kind)
        low, high = RESPONSES[trial % 3]
        family = PairTreeFamily(X, (low, high), categorical=categorical)
        duals = rng.normal(size=(len(X), 2)) * (rng.random((len(X), 2)) < 0.8)
        found = family.price(duals, 3)
        trees = [np.array(parts, float) for parts in all_trees(X, categorical)]
        for channel, own in enumerate(duals.T):
            sums = np.array([parts @ own for parts in trees])
            best = np.maximum(low * sums, high * sums).sum(axis=1).max()
            assert max(c.edge for c in found if c.channel == channel) == pytest.approx(best)
        learners = [candidate.learner for candidate in found]
        responses = family.responses(learners)
        np.testing.assert_array_equal(family.table(learners).responses(X), responses)
        edges = [responses[k] @ duals[:, c.channel] for k, c in enumerate(found)]
        np.testing.assert_allclose(edges, [candidate.edge for candidate in found], atol=1e-12)
        assert [family.restored(list(tree)) for tree in learners] == learners


def best_child(codes, own, n_bins, side, is_apart):
    """Largest sum of ``|s|`` of a child on one column, whose leaves keep its side."""
    sums = np.bincount(codes, own, n_bins)
    if side == BY_SETS:
        return np.abs(sums).sum()
    below = np.cumsum(sums)[:-1]
    rises, falls = sums.sum() - 2 * below, 2 * below - sums.sum()
    allowed = {1: rises, -1: falls, 0: np.concatenate((rises, falls))}[int(side)]
    free = [rises[-1], falls[-1]] if is_apart else []
    return max(abs(sums.sum()), *allowed, *free)


def test_each_cut_of_each_root_gets_its_best_children():
    rng = np.random.default_rng(0)
    n_bins = np.array([4, 3, 5, 2])
    starts = np.append(0, np.cumsum(n_bins))
    pairs = np.column_stack(np.triu_indices(4)).astype(np.int64)
    for trial in range(40):
        codes = np.array([rng.integers(0, n, 30) for n in n_bins], np.uint8)
        # In some columns most rows are in the first bin.
        is_sparse = rng.random((4, 1)) < trial % 3 / 2
        codes[is_sparse & (rng.random(codes.shape) < 0.7)] = 0
        own, sides = rng.normal(size=30), rng.choice([-1, 0, 1, BY_SETS], 4).astype(np.int8)
        is_apart = (sides != BY_SETS) & (rng.random(4) < 0.5)
        sizes, children = np.full((3, 14), -np.inf), np.zeros((3, 14), np.int32)
        room = np.empty((2, 10, 5))
        best_children(codes, own, starts, sides, is_apart, pairs, room, sizes, children)
        for a in range(4):
            for bin_ in range(n_bins[a]):
                left = codes[a] == bin_ if sides[a] == BY_SETS else codes[a] <= bin_
                for k, rows in enumerate((left, ~left)):
                    of_columns = [
                        best_child(codes[b, rows], own[rows], n_bins[b], sides[b], is_apart[b])
                        for b in range(4)
                    ]
                    cut = starts[a] + bin_
                    assert sizes[k, cut] == pytest.approx(max(of_columns), abs=1e-12), trial
                    assert of_columns[children[k, cut]] == pytest.approx(max(of_columns), abs=1e-12)


def test_candidates_of_a_channel_split_different_features_at_their_roots():
    rng = np.random.default_rng(0)
    X, duals = rng.normal(size=(80, 6)), rng.normal(size=(80, 1))
    X[rng.random(X.shape) < 0.1] = np.nan
    found = PairTreeFamily(X, (-1.0, 1.0)).price(duals, 4)
    table = PairTreeFamily(X, (-1.0, 1.0)).table([candidate.learner for candidate in found])
    assert len(np.unique(table.feature[:, 0])) == 4
    edges = [candidate.edge for candidate in found]
    assert edges == sorted(edges, reverse=True)


def test_the_search_of_a_part_finds_trees_of_the_family_and_not_more():
    rng = np.random.default_rng(0)
    X, duals = rng.normal(size=(60, 70)), rng.normal(size=(60, 2))
    family = PairTreeFamily(X, (-1.0, 1.0))
    part = family.part()
    assert part is not None
    assert not part.exact_pricing
    for candidate in part.price(duals, 2):
        response = family.responses([candidate.learner])[0]
        assert response @ duals[:, candidate.channel] == pytest.approx(candidate.edge)
        best = max(c.edge for c in family.price(duals, 1) if c.channel == candidate.channel)
        assert candidate.edge <= best + 1e-12
    assert PairTreeFamily(X[:, :9], (-1.0, 1.0)).part() is None


def test_a_learner_of_other_features_is_refused():
    X = np.arange(12.0).reshape(6, 2)
    family = PairTreeFamily(X, (-1.0, 1.0))
    tree = family.price(np.array([[1.0], [-1.0], [1.0], [-1.0], [1.0], [1.0]]), 1)[0].learner
    with pytest.raises(DamagedFileError):
        family.restored(list(tree._replace(thresholds=(0.1, 0.2, 0.3))))


def test_tables_that_are_too_large_are_refused():
    with pytest.raises(ValueError, match="keep at most 4000 features"):
        PairTreeFamily(np.eye(2, 4001), (-1.0, 1.0))
    with pytest.raises(ValueError, match="leave exact=False"):
        PairTreeFamily(np.arange(5000.0)[:, None], (-1.0, 1.0), exact=True)
    with pytest.raises(NotImplementedError, match="price_shared"):
        PairTreeFamily(np.eye(2), (-1.0, 1.0)).price_shared(np.ones((2, 1)), 1)


def test_stage_wise_boosting_takes_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = StructBoostClassifier(weak_learner="pair_tree", max_iter=30, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.history_[-1]["bound"] is None


# -- the bound against programs over all trees --------------------------------------------------


def columns_of(X):
    """Distinct responses of all trees, shape (n_trees, n_rows), with leaves of -1 and 1."""
    found = set()
    for parts in all_trees(X):
        masks = [part for part in parts if part.any()]
        for signs in product((-1.0, 1.0), repeat=len(masks)):
            found.add(tuple(np.array(signs) @ np.array(masks, float)))
    return np.array(sorted(found))


def smooth_optimum(risk, n, C):
    """Smallest ``sum(w) + C risk(w)`` over w >= 0, where risk returns value and gradient."""

    def objective(w):
        value, slope = risk(w)
        return w.sum() + C * value, 1.0 + C * slope

    start = np.zeros(n)
    options = {"maxiter": 5000, "maxfun": 50000, "ftol": 1e-13, "gtol": 1e-9}
    found = minimize(
        objective, start, jac=True, bounds=[(0, None)] * n, method="L-BFGS-B", options=options
    )
    return found.fun


def exponential_risk(margins, w):
    losses = np.exp(-(margins @ w))
    return losses.mean(), -(losses @ margins) / len(losses)


def log_risk(margins, groups, w):
    sums = np.bincount(groups, np.exp(-(margins @ w)))
    chances = np.exp(-(margins @ w)) / (1.0 + sums)[groups]
    return np.log1p(sums).mean(), -(chances @ margins) / len(sums)


def problems(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.integers(0, 3, (int(rng.integers(6, 11)), 2)).astype(float)
        yield X, rng.integers(0, 3, len(X)), float(rng.uniform(2, 30)), rng


def check_bound(last, optimum, *, rtol=1e-6):
    assert last["certified"]
    assert last["gap"] <= 0.0101
    assert last["bound"] <= optimum * (1 + rtol)
    assert last["primal"] >= optimum * (1 - rtol)
    assert last["bound_all"] == last["bound"]


FORMULATIONS = ["one_slack", "m_slack", "exponential", "log", "ranking"]


@pytest.mark.slow
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.filterwarnings("ignore::structboost.errors.EmptyModelWarning")
@pytest.mark.filterwarnings("ignore::structboost.errors.ConstantPredictionWarning")
def test_the_bound_is_that_of_a_program_over_all_trees(formulation):
    settings = {"weak_learner": "pair_tree", "tol": 0.01, "random_state": 0, "max_rounds": 400}
    for X, y, C, rng in problems(40):
        responses = columns_of(X)
        if formulation == "ranking":
            pairs = [(i, j) for i, j in product(range(len(y)), repeat=2) if y[i] > y[j]]
            if not pairs:
                continue
            margins = np.array([responses[:, i] - responses[:, j] for i, j in pairs])
            weights = np.full(len(pairs), 1.0 / len(pairs))
            optimum = full_optimum(margins, 1, np.arange(len(pairs)), C * weights)
            trained = StructBoost(RankingTask(), C=C, **settings).fit([X], [y])
            check_bound(trained.history_[-1], optimum)
            continue
        margins, groups = class_margins(responses, y)
        weights = rng.uniform(0.5, 2.0, len(y))
        weights /= weights.sum()
        if formulation == "exponential":
            risk = partial(exponential_risk, margins)
            optimum = smooth_optimum(risk, margins.shape[1], C)
        elif formulation == "log":
            optimum = smooth_optimum(partial(log_risk, margins, groups), margins.shape[1], C)
        else:
            optimum = full_optimum(margins, 1, groups, C * weights)
        given = weights if formulation.endswith("slack") else None
        trainer = StructBoost(MulticlassTask(3), C=C, formulation=formulation, **settings)
        last = trainer.fit(X, y, sample_weight=given).history_[-1]
        check_bound(last, optimum, rtol=1e-6 if given is not None else 1e-4)


@pytest.mark.slow
def test_a_part_first_ends_at_the_same_optimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 70))
    y = np.where(X[:, 3] * X[:, 50] > 0, 1, -1)
    settings = {"C": 20.0, "tol": 1e-3, "weak_learner": "pair_tree", "max_rounds": 300}
    last = StructBoost(BinaryTask(), **settings).fit(X, y).history_[-1]
    other = StructBoost(BinaryTask(), **{**settings, "weak_learner": WithoutPart}).fit(X, y)
    assert last["gap"] <= 1e-3
    assert last["primal"] == pytest.approx(other.history_[-1]["primal"], rel=2e-3)


class WithoutPart(PairTreeFamily):
    """Family that is always searched as a whole."""

    def part(self):
        return None


# -- the model ----------------------------------------------------------------------------------


def mixed_table(rng, n=160):
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], n))
    frame.loc[5:9, "kind"] = np.nan
    filled = np.nan_to_num(X)
    y = (filled[:, 0] * filled[:, 1] > 0).astype(int) + (frame["kind"] == "y").to_numpy()
    return frame, y


@pytest.fixture(scope="module")
def fitted():
    frame, y = mixed_table(np.random.default_rng(0))
    model = StructBoostClassifier(
        objective="hinge", C=20, tol=0.05, weak_learner="pair_tree", random_state=0
    )
    return model.fit(frame, y), frame, y


def test_tables_of_features_and_pairs_give_the_scores(fitted):
    model, frame, _ = fitted
    rows = model._table(frame, reset=False)
    tables = model.model_.compile()
    assert isinstance(tables, PairTables)
    n_single, n_pairs = len(tables.steps.features), len(tables.pairs)
    assert repr(tables) == f"PairTables({n_single} features, {n_pairs} pairs, 3 channels)"
    scores = model.model_.scores(rows)
    np.testing.assert_allclose(tables.raw_scores(rows), scores, atol=1e-9)
    pure = tables.purified()
    np.testing.assert_allclose(pure.raw_scores(rows), scores, atol=1e-9)
    for values in pure.pairs.values():
        np.testing.assert_allclose(values[:, :-1].mean(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(values[:-1].mean(axis=0), 0, atol=1e-12)


def test_contributions_are_shapley_values(fitted):
    model, frame, _ = fitted
    scores = model.decision_function(frame)
    values, base = model.contributions(frame)
    np.testing.assert_allclose(base + values.sum(axis=1), scores, atol=1e-9)
    background, rows = frame[:7], frame[20:23]
    values, base = model.contributions(rows, background)
    np.testing.assert_allclose(base, model.decision_function(background).mean(axis=0))
    table = model._table(rows, reset=False)
    behind = model._table(background, reset=False)
    n_features = table.shape[1]
    for row, own in zip(table, values, strict=True):
        for feature in range(n_features):
            total = np.zeros(own.shape[1])
            orders = [np.random.default_rng(k).permutation(n_features) for k in range(3)]
            # A function of at most two features: an order and its reverse are enough.
            for order in (orders[0], orders[0][::-1]):
                before = order[: list(order).index(feature)]
                for is_known in (True, False):
                    mixed = behind.copy()
                    mixed[:, before] = row[before]
                    if is_known:
                        mixed[:, feature] = row[feature]
                    mean = model.model_.scores(mixed).mean(axis=0)
                    total += mean if is_known else -mean
            np.testing.assert_allclose(own[feature], total / 2, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_files_and_resumed_runs_give_the_same_model(fitted, tmp_path):
    model, frame, y = fitted
    model.save(tmp_path / "model")
    again = StructBoostClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
    assert again.history_[-1]["certified"]
    for rounds in (3, 1000):
        part = StructBoostClassifier(**model.get_params())
        part.set_params(checkpoint=tmp_path / "run", max_iter=rounds)
        part.fit(frame, y)
    assert part.objective_ == model.objective_
    np.testing.assert_array_equal(part.model_.weights, model.model_.weights)


def test_an_interaction_that_stumps_cannot_see_is_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    settings = {"objective": "hinge", "C": 20, "tol": 0.02}
    stumps = StructBoostClassifier(**settings).fit(X[:200], y[:200])
    trees = StructBoostClassifier(weak_learner="pair_tree", **settings).fit(X[:200], y[:200])
    assert trees.score(X[200:], y[200:]) > 0.9 > stumps.score(X[200:], y[200:]) + 0.1


def test_scores_rise_with_features_that_have_to():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = (X[:, 0] + X[:, 0] * X[:, 1] + rng.normal(size=150) > 0).astype(int)
    model = StructBoostClassifier(
        objective="hinge", C=30, tol=0.05, weak_learner="pair_tree", monotonic_cst=[1, 0]
    ).fit(X, y)
    assert model.history_[-1]["certified"]
    assert len(model.model_.compile().pairs) == 1
    line = np.linspace(-3, 3, 50)
    for other in (-1.0, 0.0, 1.0):
        scores = model.decision_function(np.column_stack((line, np.full(50, other))))
        assert (np.diff(scores) >= -1e-12).all()
        assert scores[-1] > scores[0]


def test_rankers_taggers_and_label_sets_are_certified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    settings = {"objective": "hinge", "C": 5, "tol": 0.05, "weak_learner": "pair_tree"}
    relevance = (X[:, 0] * X[:, 1] > 0).astype(int)
    ranker = StructBoostRanker(**settings).fit(X, relevance, qid=np.repeat(np.arange(6), 10))
    tags = StructBoostTagger(**settings).fit(np.split(X, 6), np.split(relevance, 6))
    sets = np.column_stack((relevance, X[:, 2] > 0)).astype(int)
    label_sets = StructBoostMultiLabelClassifier(**settings).fit(X, sets)
    for model in (ranker, tags, label_sets):
        last = model.history_[-1]
        assert last["certified"]
        assert last["gap"] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_engines_do_not_change_the_model(engine):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    settings = {"objective": "hinge", "C": 10, "tol": 0.1, "weak_learner": "pair_tree"}
    one = StructBoostClassifier(**settings).fit(X, y)
    other = StructBoostClassifier(engine=engine, **settings).fit(X, y)
    np.testing.assert_array_equal(one.model_.weights, other.model_.weights)
