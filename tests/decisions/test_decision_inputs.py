"""Features and costs of decisions in all forms: equal values are equal, others are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from structboost import PredictThenOptimize
from structboost.decisions import Choose, DecisionInput
from structboost.decisions.inputs import FeatureReader, read_costs
from tests.helpers.refusals import refused
from tests.helpers.travel import ROUTES

N, K = 12, 3
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(-4, 5, (N, 3)).astype(float)
TOWN = np.array(["Bonn", "Kiel", "Ulm"])[RNG.integers(0, 3, N)]
COSTS = np.column_stack((NUMBERS[:, 0], -NUMBERS[:, 0], 2.0 * (TOWN == "Ulm"))) + 20.0
FRAME = pd.DataFrame(NUMBERS, columns=["wind", "rain", "load"]).assign(town=TOWN)
ITEMS = RNG.integers(-4, 5, (N, K, 2)).astype(float)
GAPS = np.where(np.arange(N)[:, None] % 5 + [0, 1, 1], NUMBERS, np.nan)
IS_GAP = np.isnan(GAPS[:, 0])
FILLED = np.where(IS_GAP, np.nanmean(GAPS[:, 0]), GAPS[:, 0])


def one_hot(values):
    return (values[..., None] == np.unique(values)).astype(float)


def both(instances, items):
    return [DecisionInput(*pair) for pair in zip(instances, items, strict=True)]


PLAIN = {"instance": NUMBERS}
WITH_TOWN = {"instance": np.column_stack((NUMBERS, one_hot(TOWN)))}
WITH_GAPS = {"instance": np.column_stack((FILLED, IS_GAP, GAPS[:, 1:]))}


@pytest.mark.parametrize(
    ("X", "tables"),
    [
        ([DecisionInput(x) for x in NUMBERS], PLAIN),
        (FRAME, WITH_TOWN),
        (np.ma.masked_invalid(GAPS), WITH_GAPS),
        (ITEMS.tolist(), {"items": ITEMS}),
        ([DecisionInput(items=x) for x in ITEMS], {"items": ITEMS}),
        (both(NUMBERS.astype(object), ITEMS), PLAIN | {"items": ITEMS}),
        (both(GAPS, ITEMS), WITH_GAPS | {"items": ITEMS}),
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
    reader, inputs = FeatureReader.fit(FRAME, "from_dtype")
    assert reader.names == ["wind", "rain", "load", "town"]
    assert_array_equal(reader.read(FRAME[FRAME.columns[::-1]]).instance, inputs.instance)
    refused(
        r"X lacks \['rain'\] and has \['snow'\]",
        reader.read,
        FRAME.rename(columns={"rain": "snow"}),
    )
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


@pytest.mark.parametrize("X", [FRAME, ITEMS, both(GAPS, ITEMS)], ids=["frame", "items", "both"])
def test_a_saved_model_reads_names_categories_and_missing_values(X, tmp_path):
    model = PredictThenOptimize(Choose(K, 1), C=10.0, random_state=0)
    model.fit(X, pd.DataFrame(COSTS, columns=[2024, 2025, 2026])).save(tmp_path / "model")
    loaded = PredictThenOptimize.load(tmp_path / "model", Choose(K, 1))
    assert_array_equal(loaded.predict_costs(X), model.predict_costs(X))
    names = [getattr(m, "feature_names_in_", np.zeros(0)).tolist() for m in (loaded, model)]
    assert names[0] == names[1] == (FRAME.columns.tolist() if X is FRAME else [])
    assert loaded.item_names_ == [2024, 2025, 2026]


# -- costs ----------------------------------------------------------------------------------------

NAMES = ["mill", "dam", "pump"]
BY_NAME = pd.DataFrame(COSTS, columns=NAMES)


@pytest.mark.parametrize(
    ("costs", "given", "names"),
    [
        (list(COSTS), NAMES, None),
        (pd.DataFrame(COSTS).convert_dtypes(), None, [0, 1, 2]),
        (pd.DataFrame(COSTS)[[2, 0, 1]], [0, 1, 2], [0, 1, 2]),
        (BY_NAME, None, NAMES),
        (BY_NAME[["pump", "mill", "dam"]], NAMES, NAMES),
        (pl.DataFrame(BY_NAME.iloc[:, ::-1]), NAMES, NAMES),
    ],
)
def test_equal_costs_of_all_forms_are_equal_tables(costs, given, names):
    table, found = read_costs(costs, N, K, given)
    assert found == names
    assert table.flags.c_contiguous
    assert_array_equal(table, COSTS)


def test_costs_of_a_score_are_matched_with_those_of_the_fit():
    model = PredictThenOptimize(Choose(K, 1), C=1.0, random_state=0).fit(NUMBERS, BY_NAME)
    assert model.score(NUMBERS, BY_NAME.iloc[:, ::-1]) == model.score(NUMBERS, COSTS)


# -- what is refused ------------------------------------------------------------------------------


def with_entry(table, value, *index):
    changed = np.array(table, object)
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([DecisionInput()] * N, r"X\[0\] has features neither"),
        ([*both(NUMBERS, ITEMS)[:-1], DecisionInput(NUMBERS[0], ITEMS[0], ROUTES)], r"X\[11\] has"),
        (FRAME.replace({"rain": NUMBERS[5, 1]}, -np.inf), r"has -inf in feature 'rain'"),
        (with_entry(ITEMS, "word", 7, 2, 1), r"Column 1 .* 'word' in row 23"),
        (with_entry(ITEMS, -np.inf, 7, 2, 1), r"X\[7\] has -inf in feature 1;"),
        ([*(DecisionInput(x) for x in NUMBERS[:-1]), DecisionInput()], r"X\[11\]\.instance is"),
        ([DecisionInput(items=x) for x in NUMBERS], r"X\[0\]\.items is array"),
    ],
)  # fmt: skip
def test_other_features_are_refused_by_name(X, message):
    refused(message, FeatureReader.fit, X, "from_dtype")


def test_features_of_other_kinds_or_sizes_than_in_training_are_named():
    of_instances, _ = FeatureReader.fit(NUMBERS, None)
    refused(r"features of the items, and .* of the instance", of_instances.read, ITEMS)
    refused(r"4 features, but .* expecting 3 features", of_instances.read, np.ones((2, 4)))
    of_items = PredictThenOptimize(Choose(K, 1), C=1.0).fit(ITEMS, COSTS)
    refused("costs has", of_items.predict, [DecisionInput(items=table[:2]) for table in ITEMS])


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (sparse.csr_array(COSTS), r"write costs\.toarray\(\)"),
        (COSTS[:, :2], "features of 3 items, and costs has 2 columns"),
        (BY_NAME.replace({"dam": COSTS[7, 1]}, np.inf), r"costs of X\[\d\] have inf for .*dam"),
        (1e301 * COSTS, r"fill the cost in, from -1e\+300 to 1e\+300"),
        (COSTS.astype(np.int64) * 10**16 + 1, "costs holds .* beyond 2\\*\\*53"),
        (pd.DataFrame(COSTS, columns=list("aab")), "costs has columns of one name"),
        (BY_NAME, "costs lacks"),
    ],
)  # fmt: skip
def test_other_costs_are_refused_by_instance_and_item(costs, message):
    refused(message, read_costs, costs, N, K, [*NAMES, "sea"] if costs is BY_NAME else None)
