"""Features and costs of decisions in all forms: equal values decide equally, others are refused."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from structboost import PredictThenOptimize
from structboost.decisions import Choose, DecisionInput, ShortestPath
from structboost.decisions.inputs import FeatureReader
from structboost.errors import TaskError

N, K = 40, 3
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(-4, 5, (N, 3)).astype(float)
TOWN = np.array(["Bonn", "Kiel", "Ulm"])[RNG.integers(0, 3, N)]
COSTS = np.column_stack((NUMBERS[:, 0], -NUMBERS[:, 0], 2.0 * (TOWN == "Ulm"))) + 20.0
FRAME = pd.DataFrame(NUMBERS, columns=["wind", "rain", "load"]).assign(town=TOWN)
ITEMS = RNG.integers(-4, 5, (N, K, 2)).astype(float)
GROUPS = np.array(["old", "new"])[RNG.integers(0, 2, (N, K))]


def model(**parameters):
    return PredictThenOptimize(Choose(K, 1), C=10.0, random_state=0, **parameters)


def frames_of_items(library=pd.DataFrame):
    return [
        library({"size": items[:, 0], "age": items[:, 1], "group": groups.tolist()})
        for items, groups in zip(ITEMS, GROUPS, strict=True)
    ]


def one_hot(values):
    return (values[..., None] == np.unique(values)).astype(float)


# -- missing values, categories, sparse rows -----------------------------------------------------


def test_categories_are_columns_of_zeros_and_ones():
    as_numbers = np.column_stack((NUMBERS, one_hot(TOWN)))
    expected = model().fit(as_numbers, COSTS).predict_costs(as_numbers)
    frames = [FRAME, FRAME.astype({"town": "category"}), pl.DataFrame(FRAME.to_dict("list"))]
    for frame in frames:
        fitted = model().fit(frame, COSTS)
        np.testing.assert_array_equal(fitted.predict_costs(frame), expected)
        assert fitted.n_features_in_ == 4
    named = model(categorical_features=[3]).fit(FRAME.to_numpy(object), COSTS)
    np.testing.assert_array_equal(named.predict_costs(FRAME.to_numpy(object)), expected)


def test_missing_features_are_means_and_are_marked():
    X = NUMBERS.copy()
    X[::5, 0] = np.nan
    is_missing = np.isnan(X[:, 0])
    filled = np.where(is_missing, X[~is_missing, 0].mean(), X[:, 0])
    as_numbers = np.column_stack((filled, is_missing, X[:, 1:]))
    tables = FeatureReader.fit(X, None)[1].tables
    np.testing.assert_allclose(tables["instance"], as_numbers)
    fitted = model().fit(X, COSTS)
    for frame in (pd.DataFrame(X), pd.DataFrame(X).convert_dtypes(), np.ma.masked_invalid(X)):
        np.testing.assert_array_equal(fitted.predict_costs(frame), fitted.predict_costs(X))


def test_a_missing_feature_that_training_always_had_counts_as_its_mean():
    fitted = model().fit(NUMBERS, COSTS)
    X = NUMBERS.copy()
    X[:, 1] = NUMBERS[:, 1].mean()
    missing = np.where([False, True, False], np.nan, NUMBERS)
    np.testing.assert_allclose(fitted.predict_costs(missing), fitted.predict_costs(X))


def test_categories_that_training_did_not_have_warn_by_name():
    fitted = model().fit(FRAME, COSTS)
    with pytest.warns(UserWarning, match="Column 'town' of X has no value that training had"):
        fitted.predict(FRAME.assign(town="Rome"))


@pytest.mark.slow
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_items_have_categories_and_missing_values_too(library):
    items = ITEMS.copy()
    items[::3, 1, 0] = np.nan
    is_missing = np.isnan(items[:, :, 0])
    # The mean to the last bit: fits to a gap of 1 % differ by more than rounding.
    present = np.sort(items[~is_missing, 0])
    filled = np.where(is_missing, (present / len(present)).sum(), items[:, :, 0])
    as_numbers = np.dstack((filled, is_missing, items[:, :, 1], one_hot(GROUPS)))
    X = [frame.copy() if library is pd.DataFrame else frame for frame in frames_of_items(library)]
    for i in range(0, N, 3):
        if library is pd.DataFrame:
            X[i].loc[1, "size"] = np.nan
        else:
            X[i] = X[i].with_columns(pl.Series("size", [ITEMS[i, 0, 0], None, ITEMS[i, 2, 0]]))
    reader, inputs = FeatureReader.fit(X, "from_dtype")
    tables = inputs.tables
    # Equal but for the last bits of the mean.
    np.testing.assert_allclose(tables["items"], as_numbers)
    np.testing.assert_array_equal(reader.read(X).tables["items"], tables["items"])
    fitted = model().fit(X, COSTS)
    expected = model().fit(tables["items"], COSTS).predict_costs(tables["items"])
    np.testing.assert_array_equal(fitted.predict_costs(X), expected)
    inputs = [DecisionInput(items=frame) for frame in X]
    np.testing.assert_array_equal(fitted.predict_costs(inputs), fitted.predict_costs(X))


def test_sparse_rows_decide_as_dense_ones():
    expected = model().fit(NUMBERS, COSTS).predict_costs(NUMBERS)
    for make in (sparse.csr_array, sparse.csc_matrix, sparse.dok_array):
        fitted = model().fit(make(NUMBERS), COSTS)
        np.testing.assert_array_equal(fitted.predict_costs(make(NUMBERS)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["instance", "items", "both"])
def test_a_saved_model_reads_names_categories_and_missing_values(kind, tmp_path):
    rows = [FRAME.iloc[[i]] for i in range(N)]
    X = {
        "instance": FRAME,
        "items": frames_of_items(),
        "both": [DecisionInput(row, of) for row, of in zip(rows, frames_of_items(), strict=True)],
    }[kind]
    fitted = model().fit(X, pd.DataFrame(COSTS, columns=["a", "b", "c"]))
    fitted.save(tmp_path / "model")
    loaded = PredictThenOptimize.load(tmp_path / "model", Choose(K, 1))
    np.testing.assert_array_equal(loaded.predict_costs(X), fitted.predict_costs(X))
    assert loaded.feature_names_in_.tolist() == fitted.feature_names_in_.tolist()
    assert loaded.item_names_ == ["a", "b", "c"]


def test_series_of_instances_have_names_in_any_order():
    X = [DecisionInput(instance=row) for _, row in FRAME.iterrows()]
    fitted = model().fit(X, COSTS)
    assert fitted.feature_names_in_.tolist() == list(FRAME.columns)
    other = [DecisionInput(instance=row.iloc[::-1]) for _, row in FRAME.iterrows()]
    np.testing.assert_array_equal(fitted.predict_costs(X), fitted.predict_costs(other))


# -- names of items -------------------------------------------------------------------------------


def test_costs_by_the_names_of_items_may_stand_in_another_order():
    costs = pd.DataFrame(COSTS, columns=["mill", "dam", "pump"])
    fitted = model().fit(NUMBERS, costs)
    assert fitted.item_names_ == ["mill", "dam", "pump"]
    other = costs[["pump", "mill", "dam"]]
    assert fitted.score(NUMBERS, other) == fitted.score(NUMBERS, COSTS)
    with pytest.raises(ValueError, match=r"costs lacks \['dam'\] and has \['dyke'\]"):
        fitted.score(NUMBERS, costs.rename(columns={"dam": "dyke"}))
    costs.loc[7, "dam"] = np.nan
    with pytest.raises(TaskError, match=r"costs of X\[7\] have nan for item 'dam'"):
        model().fit(NUMBERS, costs)


def test_labels_of_items_that_are_whole_numbers_are_names_or_places(tmp_path):
    costs = pd.DataFrame(COSTS)
    fitted = model().fit(NUMBERS, costs)
    assert not hasattr(fitted, "item_names_")
    expected = fitted.score(NUMBERS, COSTS)
    assert fitted.score(NUMBERS, costs[[2, 0, 1]]) == expected
    years = costs.set_axis([2024, 2025, 2026], axis=1)
    fitted = model().fit(NUMBERS, years)
    fitted.save(tmp_path / "model")
    loaded = PredictThenOptimize.load(tmp_path / "model", Choose(K, 1))
    assert loaded.item_names_ == [2024, 2025, 2026]
    assert loaded.score(NUMBERS, years[[2026, 2024, 2025]]) == expected
    with pytest.raises(ValueError, match="costs has 2 columns named 'a'"):
        model().fit(NUMBERS, costs.set_axis(["a", "a", "b"], axis=1))
    levels = costs.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), axis=1)
    fitted = model().fit(NUMBERS, levels)
    assert fitted.item_names_ == [("a", 1), ("a", 2), ("b", 1)]
    assert fitted.score(NUMBERS, levels.iloc[:, ::-1]) == expected
    with pytest.raises(TypeError, match=r"column \('a', 1\) for item 0; files of models hold"):
        fitted.save(tmp_path / "model")


def test_edges_of_a_graph_are_the_names_of_its_items():
    graph = nx.DiGraph([("home", "mill"), ("mill", "town"), ("home", "town"), ("town", "sea")])
    problem = ShortestPath(graph, "home", "sea")
    assert problem.item_names == list(graph.edges)
    rng = np.random.default_rng(0)
    values = rng.uniform(1, 2, (N, 4))
    costs = pd.DataFrame(values, columns=pd.Index(list(graph.edges), tupleize_cols=False))
    fitted = PredictThenOptimize(problem, C=1.0, random_state=0).fit(NUMBERS, values)
    assert fitted.item_names_ == list(graph.edges)
    texts = costs.rename(columns=str)
    for frame in (costs, costs.iloc[:, ::-1], texts.iloc[:, ::-1], pl.DataFrame(texts)):
        assert fitted.score(NUMBERS, frame) == fitted.score(NUMBERS, values)
    with pytest.raises(ValueError, match=r"such as \('home', 'mill'\); .* Rename the columns"):
        fitted.score(NUMBERS, pd.DataFrame(values, columns=list("abcd")))
    for decision in fitted.predict(NUMBERS):
        nodes = problem.nodes_on_path(decision)
        used = {edge for edge, chosen in zip(graph.edges, decision, strict=True) if chosen}
        assert set(itertools.pairwise(nodes)) == used


def test_parallel_arcs_of_a_graph_are_items_of_their_own():
    graph = nx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    problem = ShortestPath(graph, "a", "c")
    assert problem.item_names == [("a", "b", 0), ("a", "b", 1), ("b", "c", 0)]
    np.testing.assert_array_equal(problem.solve(np.array([2.0, 1.0, 1.0])), [0, 1, 1])
    assert problem.nodes_on_path(problem.solve(np.array([2.0, 1.0, 1.0]))) == ["a", "b", "c"]


# -- what is refused ------------------------------------------------------------------------------


def with_entry(table, value, *index):
    changed = np.array(table, object)
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ((x for x in NUMBERS), "generator.*write list"),
        ({"instance": NUMBERS}, "give a list with a DecisionInput of each instance"),
        ({"wind": NUMBERS[:, 0]}, r"Write pandas\.DataFrame\(X\)"),
        (DecisionInput(NUMBERS[0]), "X is one DecisionInput; give a list"),
        (FRAME.iloc[0], "for one row write"),
        (NUMBERS[0], r"X has shape \(3,\)\. Expected 2D array, got 1D"),
        (FRAME[[]], r"0 feature\(s\)"),
        ([FRAME[[]]] * N, r"0 feature\(s\)"),
        (FRAME[["wind", "rain"]].assign(day=pd.Timestamp(2020, 1, 1)), "Column 'day' of X"),
        (with_entry(NUMBERS, "word", 7, 1), "Column 1 of X holds object, such as 'word' in row 7"),
        (with_entry(NUMBERS, np.inf, 7, 1), r"X\[7\] has inf in feature 1"),
        (with_entry(ITEMS, "word", 7, 2, 1), r"X\[7\] has items .*: Column 1 .*row 2"),
        (with_entry(ITEMS, -np.inf, 7, 2, 1), r"X\[7\] has -inf in feature 1 of item 2"),
        ([*frames_of_items()[:-1], FRAME], r"X\[39\]\.items is"),
        ([*frames_of_items()[:-1], ITEMS[0]], r"X\[39\]\.items is"),
        ([*(DecisionInput(x) for x in NUMBERS[:-1]), NUMBERS[-1]], r"X\[39\] is array"),
        ([DecisionInput(items=x) for x in NUMBERS], r"X\[0\]\.items is array"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["fit", "predict"])
def test_other_features_are_refused_by_name(X, message, method):
    is_of_items = getattr(X, "ndim", 2) == 3 or isinstance(X, list)
    trained = model().fit(ITEMS if is_of_items else NUMBERS, COSTS)
    with pytest.raises((TypeError, ValueError), match=message):
        model().fit(X, COSTS) if method == "fit" else trained.predict(X)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (None, "target y is None"),
        ((row for row in COSTS), "costs is .*generator"),
        ({"a": COSTS}, r"costs is \{"),
        ("text", "costs is 'text'"),
        (sparse.csr_array(COSTS), r"write costs\.toarray\(\)"),
        (COSTS[:, 0], r"costs has shape \(40,\)"),
        (COSTS[:-1], r"costs has shape \(39, 3\)"),
        (COSTS * 1j, r"costs of X\[0\] have .*j.* for item 0"),
        (COSTS.astype(str), r"costs of X\[0\] have '.*' for item 0"),
        (COSTS.astype("datetime64[s]"), r"costs of X\[0\] have .*datetime"),
        (with_entry(COSTS, "1.5", 7, 1), r"costs of X\[7\] have '1.5' for item 1"),
        (with_entry(COSTS, None, 7, 1), r"costs of X\[7\] have nan for item 1"),
        ([*COSTS[:7].tolist(), [1.0], *COSTS[8:].tolist()], r"costs\[7\] has 1 entries"),
        ([*COSTS[:7].tolist(), 3.0, *COSTS[8:].tolist()], r"costs\[7\] is 3\.0"),
        (COSTS.astype(np.int64) * 10**16 + 1, "costs holds .* beyond 2\\*\\*53"),
        (np.ma.masked_greater(COSTS, 23), r"have nan for item"),
    ],
)  # fmt: skip
def test_other_costs_are_refused_by_instance_and_item(costs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        model().fit(NUMBERS, costs)
    trained = model().fit(NUMBERS, COSTS)
    if costs is not None:
        with pytest.raises((TypeError, ValueError), match=message):
            trained.score(NUMBERS, costs)


@pytest.mark.parametrize(
    "costs",
    [
        COSTS.tolist(), COSTS.astype(np.int16), COSTS.astype(">f8"), COSTS.astype(np.float16),
        np.asfortranarray(COSTS), COSTS.astype(object), pd.DataFrame(COSTS),
        pd.DataFrame(COSTS).convert_dtypes(), pl.DataFrame(COSTS), list(COSTS),
    ],
    ids=lambda costs: type(costs).__name__,
)  # fmt: skip
def test_equal_costs_of_any_type_train_equal_models(costs):
    expected = model().fit(NUMBERS, COSTS).predict_costs(NUMBERS)
    np.testing.assert_array_equal(model().fit(NUMBERS, costs).predict_costs(NUMBERS), expected)
