"""Pipelines in ONNX score as in Python, to the last bit of the steps, or are refused by name."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.feature_selection import RFE, SelectKBest, VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

from structboost import StructBoostClassifier

pytest.importorskip("onnxruntime")

from tests.export.onnx_sessions import check_same, outputs, session_of

N = 90
RNG = np.random.default_rng(0)
WHOLE = RNG.integers(-1, 4, (N, 3)).astype(float)
HOLED = np.where(RNG.random(WHOLE.shape) < 0.15, np.nan, WHOLE)
AWKWARD = np.column_stack((
    RNG.choice([0.1, 0.2, 0.7, 1 / 3], N),
    RNG.normal(size=N) * 10.0 ** RNG.integers(-30, 30, N),
    1e9 + RNG.choice([0.0, -0.0, 1.0], N),
))  # fmt: skip
AWKWARD[:4] = 0.0
TABLES = {
    "dense": RNG.normal(size=(N, 3)),
    "whole numbers": WHOLE,
    "missing": HOLED,
    "text": np.array(["a", "b", "c", "d"], object)[RNG.integers(0, 4, (N, 3))],
    "awkward": AWKWARD,
}
Y = RNG.integers(0, 2, N)
EXACT = {
    "scaled": StandardScaler(),
    "divided": StandardScaler(with_mean=False),
    "centred": RobustScaler(with_scaling=False),
    "robust": RobustScaler(),
    "range": MinMaxScaler(),
    "largest": MaxAbsScaler(),
    "above zero": Binarizer(),
    "above a tie": Binarizer(threshold=0.1),
    "mean": SimpleImputer(),
    "marked": SimpleImputer(strategy="median", add_indicator=True),
    "constant": SimpleImputer(strategy="constant", fill_value=-7.0),
    "another number": SimpleImputer(missing_values=0.0, strategy="most_frequent"),
    "one column each": OneHotEncoder(handle_unknown="ignore"),
    "rare": OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=12),
    "dropped": OneHotEncoder(drop="if_binary"),
    "ordinal": OrdinalEncoder(),
    "unknown": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "target": TargetEncoder(random_state=0),
    "selected": SelectKBest(k=2),
    "eliminated": RFE(DecisionTreeClassifier(max_depth=2, random_state=0)),
    "varied": VarianceThreshold(),
    "union": make_union(MinMaxScaler(), OneHotEncoder(handle_unknown="ignore")),
    "by column": make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), [2, 0]), remainder="passthrough"
    ),
}
REFUSED = {
    "clipped": MinMaxScaler(clip=True),
    "a function": FunctionTransformer(np.abs),
    "sums": PCA(2),
    "norms": Normalizer("max"),
    "powers": PowerTransformer(),
    "products": PolynomialFeatures(2),
    "quantiles": QuantileTransformer(n_quantiles=10),
    "bins": KBinsDiscretizer(strategy="uniform"),
    "trees": RandomTreesEmbedding(3, random_state=0),
    "clusters": KMeans(2, random_state=0),
    "neighbours": KNNImputer(),
    "text": SimpleImputer(strategy="most_frequent"),
}


def fitted(step, X):
    """Pipeline of a step and trees, or None if the step refuses the table."""
    pipeline = make_pipeline(step, StructBoostClassifier(max_iter=4, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pipeline.fit(X, Y)
        except (TypeError, ValueError):
            return None


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", EXACT)
def test_exported_steps_compute_the_same_or_are_refused_in_single_precision(name, table):
    X = TABLES[table]
    if (pipeline := fitted(EXACT[name], X)) is None:
        pytest.skip("scikit-learn refuses this table")
    is_text = X.dtype == object
    more = X[::-1] if is_text else np.vstack((X, 0.0 * X[:1], np.nextafter(X[:5], np.inf)))
    sample = X if is_text else None
    session = session_of(pipeline, sample, dtype="float64")
    check_same(outputs(session, {"X": X}), pipeline, X, 1e-12)
    if takes(pipeline, more):
        check_same(outputs(session, {"X": more}), pipeline, more, 1e-12)
    try:
        session = session_of(pipeline, X)
    except ValueError:  # rounded numbers score otherwise
        assert table in ("dense", "awkward")
        return
    check_same(outputs(session, {"X": X if is_text else X.astype(np.float32)}), pipeline, X, 2e-6)


def takes(pipeline, X):
    """Whether the steps of a pipeline take a table, perhaps with unknown categories."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipeline[:-1].transform(X)
        except ValueError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", REFUSED)
def test_steps_that_round_otherwise_are_refused_with_their_name(name, table):
    if (pipeline := fitted(REFUSED[name], TABLES[table])) is None:
        pytest.skip("scikit-learn refuses this table")
    if name == "text" and table != "text":
        pytest.skip("it imputes numbers here")
    step = pipeline.steps[0][0]
    with pytest.raises(TypeError, match=rf"The step '{step}' is .* or export the last step alone"):
        session_of(pipeline, TABLES[table], dtype="float64")


def test_steps_in_steps_are_named():
    columns = make_column_transformer((make_pipeline(StandardScaler(), PCA(1)), [0, 1]))
    pipeline = fitted(columns, WHOLE)
    with pytest.raises(TypeError, match="The step 'pipeline__pca' is PCA"):
        session_of(pipeline, WHOLE)


def test_a_pipeline_may_end_with_a_pipeline():
    inner = make_pipeline(MinMaxScaler(), StructBoostClassifier(max_iter=4, random_state=0))
    pipeline = make_pipeline(SimpleImputer(), inner).fit(HOLED, Y)
    found = outputs(session_of(pipeline, HOLED), {"X": HOLED.astype(np.float32)})
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(HOLED), atol=1e-6)


class Mine(StandardScaler):
    """Step that computes something else than its base class."""

    def transform(self, X, copy=None):
        return super().transform(X, copy) ** 2


def test_a_class_derived_from_a_step_is_no_such_step():
    with pytest.raises(TypeError, match="The step 'mine' is Mine"):
        session_of(fitted(Mine(), WHOLE), WHOLE)


def test_single_precision_of_a_pipeline_needs_rows_that_it_scores_alike():
    pipeline = fitted(StandardScaler(), AWKWARD)
    with pytest.raises(ValueError, match=r"X is missing, .* or give dtype='float64'"):
        session_of(pipeline)
    wide = AWKWARD.copy()
    wide[:, 2] += RNG.normal(size=N)
    y = (wide[:, 2] > 1e9).astype(int)
    pipeline = make_pipeline(StandardScaler(), StructBoostClassifier(max_iter=4)).fit(wide, y)
    for sample in (wide, pd.DataFrame(wide)):
        pipeline.fit(sample.rename(columns=str) if sample is not wide else wide, y)
        with pytest.raises(ValueError, match=r"X\[\d+\] has other scores .*dtype='float64'"):
            session_of(pipeline, sample.rename(columns=str) if sample is not wide else wide)


def test_columns_of_a_frame_with_text_numbers_and_missing_values():
    frame = pd.DataFrame({
        "size": HOLED[:, 0], "colour": TABLES["text"][:, 0], "count": WHOLE[:, 1].astype(int),
    })  # fmt: skip
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "count"]),
        (SimpleImputer(), ["size"]),
        remainder="drop",
    )
    pipeline = fitted(columns, frame)
    frame.loc[3, "colour"], frame.loc[4, "count"] = "unknown", 99
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    for dtype, tolerance in {"float64": 1e-12, "float32": 2e-6}.items():
        session = session_of(pipeline, frame, dtype=dtype)
        given = inputs | {"size": inputs["size"].astype(dtype)}
        check_same(outputs(session, given), pipeline, frame, tolerance)
        assert outputs(session, {c: v[:0] for c, v in given.items()})["scores"].shape == (0,)
    with pytest.raises(TypeError, match=r"'onehotencoder' .* so give X"):
        session_of(pipeline, dtype="float64")


def test_missing_text_is_refused():
    text = TABLES["text"].copy()
    text[::7, 0] = None
    pipeline = fitted(OneHotEncoder(), text)
    with pytest.raises(TypeError, match="text is never missing in ONNX"):
        session_of(pipeline, text)
