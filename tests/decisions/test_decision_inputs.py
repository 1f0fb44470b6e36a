"""Features and costs of decisions in all forms: equal values are equal, others are refused."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from structboost import PredictThenOptimize
from structboost.decisions import Choose, DecisionInput, ShortestPath
from structboost.decisions.inputs import FeatureReader, read_costs
from tests.helpers.travel import ROUTES

N, K = 12, 3
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(-4, 5, (N, 3)).astype(float)
TOWN = np.array(["Bonn", "Kiel", "Ulm"])[RNG.integers(0, 3, N)]
COSTS = np.column_stack((NUMBERS[:, 0], -NUMBERS[:, 0], 2.0 * (TOWN == "Ulm"))) + 20.0
FRAME = pd.DataFrame(NUMBERS, columns=["wind", "rain", "load"]).assign(town=TOWN)
ITEMS = RNG.integers(-4, 5, (N, K, 2)).astype(float)
GROUPS = np.array(["old", "new"])[RNG.integers(0, 2, (N, K))]
GAPS = np.where(np.arange(N)[:, None] % 5 + [0, 1, 1], NUMBERS, np.nan)
IS_GAP = np.isnan(GAPS[:, 0])
FILLED = np.where(IS_GAP, np.nanmean(GAPS[:, 0]), GAPS[:, 0])


def one_hot(values):
    return (values[..., None] == np.unique(values)).astype(float)


def frames_of_items(library=pd.DataFrame):
    return [
        library({"size": items[:, 0].tolist(), "age": items[:, 1], "group": groups.tolist()})
        for items, groups in zip(ITEMS, GROUPS, strict=True)
    ]


def both(rows, frames):
    return [DecisionInput(*pair) for pair in zip(rows, frames, strict=True)]


ROWS = [row for _, row in FRAME.iterrows()]
PLAIN = {"instance": NUMBERS}
WITH_TOWN = {"instance": np.column_stack((NUMBERS, one_hot(TOWN)))}
WITH_GAPS = {"instance": np.column_stack((FILLED, IS_GAP, GAPS[:, 1:]))}
WITH_GROUPS = {"items": np.dstack((ITEMS, one_hot(GROUPS)))}


@pytest.mark.parametrize(
    ("X", "tables"),
    [
        (NUMBERS.tolist(), PLAIN),
        (sparse.csc_array(NUMBERS), PLAIN),
        (sparse.dok_array(NUMBERS), PLAIN),
        ([DecisionInput(x) for x in NUMBERS], PLAIN),
        (FRAME, WITH_TOWN),
        (FRAME.astype({"town": "category"}), WITH_TOWN),
        (pl.DataFrame(FRAME.to_dict("list")), WITH_TOWN),
        ([DecisionInput(row) for row in ROWS], WITH_TOWN),
        ([DecisionInput(FRAME.iloc[[i]]) for i in range(N)], WITH_TOWN),
        (GAPS, WITH_GAPS),
        (pd.DataFrame(GAPS).convert_dtypes(), WITH_GAPS),
        (np.ma.masked_invalid(GAPS), WITH_GAPS),
        (ITEMS, {"items": ITEMS}),
        (frames_of_items(), WITH_GROUPS),
        (frames_of_items(pl.DataFrame), WITH_GROUPS),
        ([DecisionInput(items=frame) for frame in frames_of_items()], WITH_GROUPS),
        (both(ROWS, frames_of_items()), WITH_TOWN | WITH_GROUPS),
        (both(NUMBERS.astype(object), ITEMS), PLAIN | {"items": ITEMS}),
    ],
)
def test_equal_features_of_all_forms_are_equal_tables(X, tables):
    reader, inputs = FeatureReader.fit(X, "from_dtype")
    for found in (inputs, reader.read(X)):
        assert found.tables.keys() == tables.keys()
        assert found.features == ("both" if len(tables) == 2 else next(iter(tables)))
        for kind, table in tables.items():
            assert_allclose(found.tables[kind], table)


def test_columns_are_found_by_name_in_any_order():
    towns = FRAME.columns[::-1]
    backwards = both(
        [row[towns] for row in ROWS],
        [frame[["group", "size", "age"]] for frame in frames_of_items()],
    )
    X = both(ROWS, frames_of_items())
    reader, inputs = FeatureReader.fit(X, ["town", "group"])
    assert reader.names == ["wind", "rain", "load", "town", "size", "age", "group"]
    for kind, table in reader.read(backwards).tables.items():
        assert_array_equal(table, inputs.tables[kind])
    backwards[7] = DecisionInput(ROWS[7], frames_of_items()[7].rename(columns={"age": "old"}))
    for read in (reader.read, lambda X: FeatureReader.fit(X, "from_dtype")):
        with pytest.raises(ValueError, match=r"X\[7\].items lacks \['age'\] and has \['old'\]"):
            read([*X[:7], backwards[7], *X[8:]])
    with pytest.raises(ValueError, match="categorical_features has 'city'"):
        FeatureReader.fit(X, ["city"])
    reader, inputs = FeatureReader.fit(FRAME, "from_dtype")
    assert_array_equal(reader.read(FRAME[towns]).instance, inputs.instance)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        reader.read(FRAME.to_numpy(object))
    reader, _ = FeatureReader.fit(FRAME.to_numpy(object), [3])
    assert reader.names is None
    with pytest.warns(UserWarning, match="has feature names, but"):
        assert_array_equal(reader.read(FRAME).instance, inputs.instance)


def test_missing_numbers_that_training_always_had_stay_and_strange_categories_warn():
    reader, _ = FeatureReader.fit(FRAME, "from_dtype")
    with pytest.warns(UserWarning, match="Column 'town' of X has no value that training had"):
        read = reader.read(FRAME.assign(town="Rome", rain=np.nan)).instance
    assert_array_equal(read[:, 3:], 0.0)
    model = PredictThenOptimize(Choose(K, 1), C=10.0, random_state=0).fit(NUMBERS, COSTS)
    means = np.where([0, 1, 0], NUMBERS.mean(axis=0), NUMBERS)
    missing = np.where([0, 1, 0], np.nan, NUMBERS)
    assert_allclose(model.predict_costs(missing), model.predict_costs(means))


@pytest.mark.parametrize("kind", ["instance", "items", "both"])
def test_a_saved_model_reads_names_categories_and_missing_values(kind, tmp_path):
    X = {
        "instance": FRAME,
        "items": frames_of_items(),
        "both": both(ROWS, frames_of_items()),
    }[kind]
    model = PredictThenOptimize(Choose(K, 1), C=10.0, random_state=0)
    model.fit(X, pd.DataFrame(COSTS, columns=[2024, 2025, 2026])).save(tmp_path / "model")
    loaded = PredictThenOptimize.load(tmp_path / "model", Choose(K, 1))
    assert_array_equal(loaded.predict_costs(X), model.predict_costs(X))
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert loaded.item_names_ == [2024, 2025, 2026]
    model.fit(NUMBERS, pd.DataFrame(COSTS, columns=pd.MultiIndex.from_product([["a"], [*"xyz"]])))
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(TypeError, match=r"column \('a', 'x'\) for item 0; files of models hold"):
        model.save(tmp_path / "model")


# -- costs ----------------------------------------------------------------------------------------

GRAPH = nx.DiGraph([("home", "mill"), ("mill", "town"), ("home", "town")])
EDGES = list(GRAPH.edges)
BY_EDGE = pd.DataFrame(COSTS, columns=pd.Index(EDGES, tupleize_cols=False))
BY_NAME = pd.DataFrame(COSTS, columns=["mill", "dam", "pump"])


@pytest.mark.parametrize(
    ("costs", "given", "names"),
    [
        (COSTS.tolist(), None, None),
        (COSTS.astype(np.int16), None, None),
        (COSTS.astype(">f8"), None, None),
        (COSTS.astype(object), None, None),
        (list(COSTS), EDGES, EDGES),
        (pd.DataFrame(COSTS)[[2, 0, 1]], None, None),
        (pd.DataFrame(COSTS).convert_dtypes(), None, None),
        (BY_NAME, None, ["mill", "dam", "pump"]),
        (BY_NAME[["pump", "mill", "dam"]], ["mill", "dam", "pump"], ["mill", "dam", "pump"]),
        (pd.DataFrame(COSTS, columns=EDGES).iloc[:, ::-1], EDGES, EDGES),
        (BY_EDGE.iloc[:, ::-1], EDGES, EDGES),
        (pl.DataFrame(BY_EDGE.rename(columns=str).iloc[:, ::-1]), EDGES, EDGES),
    ],
)
def test_equal_costs_of_all_forms_are_equal_tables(costs, given, names):
    table, found = read_costs(costs, N, K, given)
    assert found == names
    assert table.flags.c_contiguous
    assert_array_equal(table, COSTS)


def test_edges_of_a_graph_are_the_names_of_its_items():
    problem = ShortestPath(GRAPH, "home", "town")
    model = PredictThenOptimize(problem, C=1.0, random_state=0).fit(NUMBERS, BY_EDGE)
    assert model.item_names_ == problem.item_names == EDGES
    assert model.score(NUMBERS, BY_EDGE.iloc[:, ::-1]) == model.score(NUMBERS, COSTS)
    for decision in model.predict(NUMBERS):
        used = {edge for edge, chosen in zip(EDGES, decision, strict=True) if chosen}
        assert set(itertools.pairwise(problem.nodes_on_path(decision))) == used


# -- what is refused ------------------------------------------------------------------------------


def with_entry(table, value, *index):
    changed = np.array(table, object)
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"instance": NUMBERS}, "give a list with a DecisionInput of each instance"),
        ([DecisionInput()] * N, r"X\[0\] has features neither"),
        ([*both(NUMBERS, ITEMS)[:-1], DecisionInput(NUMBERS[0], ITEMS[0], ROUTES)], r"X\[11\] has"),
        (with_entry(NUMBERS, "word", 7, 1), "Column 1 of X holds object, such as 'word' in row 7"),
        (with_entry(NUMBERS, np.inf, 7, 1), r"X\[7\] has inf in feature 1;"),
        (FRAME.replace({"rain": NUMBERS[5, 1]}, -np.inf), r"has -inf in feature 'rain'"),
        (with_entry(ITEMS, "word", 7, 2, 1), r"Column 1 .* 'word' in item 2 of X\[7\]"),
        (with_entry(ITEMS, -np.inf, 7, 2, 1), r"X\[7\] has -inf in feature 1 of item 2"),
        ([*frames_of_items()[:-1], FRAME], r"X\[11\]\.items is"),
        ([*(DecisionInput(x) for x in NUMBERS[:-1]), NUMBERS[-1]], r"X\[11\]\.instance is None"),
        ([DecisionInput(items=x) for x in NUMBERS], r"X\[0\]\.items is array"),
        ([pl.DataFrame({"age": [value]}) for value in ("x", 1.0)], "columns are of different"),
    ],
)  # fmt: skip
def test_other_features_are_refused_by_name(X, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FeatureReader.fit(X, "from_dtype")


def test_features_of_other_kinds_or_sizes_than_in_training_are_named():
    of_instances, _ = FeatureReader.fit(NUMBERS, None)
    with pytest.raises(ValueError, match=r"features of the items, and .* of the instance"):
        of_instances.read(ITEMS)
    with pytest.raises(ValueError, match=r"4 features, but .* expecting 3 features"):
        of_instances.read(np.ones((2, 4)))
    of_items = PredictThenOptimize(Choose(K, 1), C=1.0).fit(ITEMS, COSTS)
    with pytest.raises(ValueError, match="X has features of 2 items, and the problem has 3"):
        of_items.predict([DecisionInput(items=table[:2]) for table in ITEMS])


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (None, "target y is None"),
        ((row for row in COSTS), "costs is a generator"),
        (sparse.csr_array(COSTS), r"write costs\.toarray\(\)"),
        (COSTS[:-1], r"costs has shape \(11, 3\)"),
        (COSTS[:, :2], "features of 3 items, and costs has 2 columns"),
        (COSTS * 1j, "costs holds complex"),
        (with_entry(COSTS, "1.5", 7, 1), "Column 1 of costs holds object, such as '1.5' in row 7"),
        (with_entry(COSTS, None, 7, 1), r"costs of X\[7\] have nan for item 1"),
        (BY_NAME.replace({"dam": COSTS[7, 1]}, np.inf), r"costs of X\[\d\] have inf for .*dam"),
        ([*COSTS[:7].tolist(), [1.0], *COSTS[8:].tolist()], r"costs\[7\] has one value|1 values"),
        (COSTS.astype(np.int64) * 10**16 + 1, "costs holds .* beyond 2\\*\\*53"),
        (pd.DataFrame(COSTS, columns=list("aab")), "costs has 2 columns named 'a'"),
        (BY_NAME, r"such as \('home', 'mill'\); costs lacks .* Rename the columns"),
    ],
)  # fmt: skip
def test_other_costs_are_refused_by_instance_and_item(costs, message):
    names = EDGES if costs is BY_NAME else None
    with pytest.raises((TypeError, ValueError), match=message):
        read_costs(costs, N, K, names)
