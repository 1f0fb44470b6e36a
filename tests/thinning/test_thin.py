"""Thinning of models of all libraries and of functions: certificates, limits, errors."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from structboost import thin
from structboost.errors import NotThinnedWarning
from structboost.thinning.library_trees import LibraryTrees, whole_probabilities

LABELS = np.array(["ant", "bee", "cat"])
MODELS = {
    "forest": RandomForestClassifier(20, random_state=0),
    "extra trees": ExtraTreesClassifier(20, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, random_state=0),
    "gradient": GradientBoostingClassifier(n_estimators=15, random_state=0),
}
BOOSTED = ("histograms", "gradient")


def lightgbm(**options):
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, **options)


def xgboost(**options):
    module = pytest.importorskip("xgboost")
    return module.XGBClassifier(n_estimators=20, n_jobs=1, max_depth=3, **options)


def catboost(**options):
    module = pytest.importorskip("catboost")
    return module.CatBoostClassifier(
        iterations=20, thread_count=1, verbose=0, allow_writing_files=False, depth=3, **options
    )


OTHERS = {
    "lightgbm": (lightgbm, {}),
    "lightgbm, dart and sigmoid": (lightgbm, {"boosting_type": "dart", "sigmoid": 0.5}),
    "xgboost": (xgboost, {}),
    "xgboost, parallel": (xgboost, {"num_parallel_tree": 2, "subsample": 0.6}),
    "catboost": (catboost, {}),
    "catboost, depthwise": (catboost, {"grow_policy": "Depthwise"}),
}


def table(n_classes, n=360):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, class_sep=0.9,
        flip_y=0.1, random_state=1,
    )  # fmt: skip
    return X, LABELS[y]


@pytest.fixture(scope="module")
def fitted():
    made = {}
    for n_classes in (2, 3):
        X, y = table(n_classes)
        for name, model in MODELS.items():
            own = pickle.loads(pickle.dumps(model)).fit(X[:160], y[:160])
            made[name, n_classes] = own, X[160:], y[160:]
    return made


CASES = [(name, n_classes) for name in MODELS for n_classes in (2, 3)]


def check_thinned(model, X, y):
    """Thin a model, and compare its predictions with sums over trees and leaves."""
    reader, before = LibraryTrees(model), model.predict_proba(X)
    responses = reader.responses(X)
    if responses.offset is not None:
        assert whole_probabilities(responses) == pytest.approx(before, abs=1e-6)
    thinned = thin(model, X[160:], y[160:], n_trees=8)
    assert 0 < thinned.n_trees <= 8 < thinned.n_trees_before
    assert thinned.thinned
    assert thinned.gap <= 0.01
    scores = np.tile(thinned.offset, (len(X), 1))
    for tree in thinned.trees:
        to = slice(None) if responses.channels is None else responses.channels[tree]
        scores[:, to] += thinned.weights[tree] * responses.values[tree]
        if thinned.additions is not None:
            own = thinned.additions.trees[tree]
            # Leaves that no held-out row reached have no addition.
            own = np.concatenate((own, np.zeros((responses.leaves.max() + 1, *own.shape[1:]))))
            scores[:, to] += own[responses.leaves[tree]]
    assert thinned.decision_function(X) == pytest.approx(scores, abs=1e-9)
    assert thinned.predict_proba(X) == pytest.approx(softmax(scores, axis=1))
    assert (thinned.predict(X) == model.classes_[scores.argmax(axis=1)]).all()
    assert (model.predict_proba(X) == before).all()
    assert thinned.loss_as_it_is == pytest.approx(log_loss(y[160:], before[160:]), abs=1e-6)
    return thinned


@pytest.mark.parametrize("case", CASES)
def test_few_trees_predict_and_the_model_stays(fitted, case):
    model = fitted[case][0]
    X, y = table(case[1])
    thinned = check_thinned(model, X, y)
    assert (pickle.loads(pickle.dumps(thinned)).predict(X) == thinned.predict(X)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", OTHERS)
def test_few_trees_of_other_libraries_predict_and_the_model_stays(name, n_classes):
    make, options = OTHERS[name]
    X, y = table(n_classes)
    X[::9, 2] = np.nan
    y = np.searchsorted(LABELS, y) if name.startswith("xgboost") else y
    check_thinned(make(**options).fit(X[:160], y[:160]), X, y)


@pytest.mark.parametrize("make", [lightgbm, xgboost])
def test_boosters_after_early_stopping_count_labels_from_0(make):
    X, y = table(3)
    y = np.searchsorted(LABELS, y)
    model = make().set_params(n_estimators=300)
    if make is lightgbm:
        stop = {"callbacks": [pytest.importorskip("lightgbm").early_stopping(5, verbose=False)]}
    else:
        model.set_params(early_stopping_rounds=5)
        stop = {"verbose": False}
    model.fit(X[:160], y[:160], eval_set=[(X[160:], y[160:])], **stop)
    booster = model.booster_ if make is lightgbm else model.get_booster()
    n_rounds = model.best_iteration_ if make is lightgbm else model.best_iteration + 1
    of_model, of_booster = (thin(m, X[160:], y[160:], n_trees=12) for m in (model, booster))
    assert of_model.n_trees_before == 3 * n_rounds
    assert of_booster.classes_.tolist() == [0, 1, 2]
    if make is lightgbm:
        assert (of_booster.predict_proba(X) == of_model.predict_proba(X)).all()
    else:  # a Booster of XGBoost predicts by all rounds
        assert of_booster.n_trees_before == 3 * booster.num_boosted_rounds()


def test_model_of_the_base_class_of_catboost_is_thinned():
    module = pytest.importorskip("catboost")
    X, y = table(3)
    model = module.CatBoost({
        "iterations": 20, "depth": 3, "loss_function": "MultiClass", "verbose": 0,
        "thread_count": 1, "allow_writing_files": False,
    }).fit(X[:160], y[:160])  # fmt: skip
    thinned = thin(model, X[160:], y[160:], n_trees=8)
    assert (thinned.predict(X) == y).mean() > 0.6


@pytest.mark.parametrize("classifier", [lightgbm, xgboost, catboost])
def test_classifiers_that_are_not_fitted_are_refused(classifier):
    with pytest.raises(Exception, match=r"\bfit(ted)?\b|trained"):
        thin(classifier(), [[0.0]] * 20, [0, 1] * 10)


def test_frame_whose_columns_are_in_another_order_is_refused_for_lightgbm():
    pandas = pytest.importorskip("pandas")
    X, y = table(2)
    frame = pandas.DataFrame(X, columns=[f"column {j}" for j in range(6)])
    model = lightgbm().fit(frame[:160], y[:160])
    held = frame[160:]
    assert thin(model, held, y[160:], n_trees=12).n_trees <= 12
    with pytest.raises(
        ValueError, match=r"X has the columns .* give them in the order of training"
    ):
        thin(model, held[held.columns[::-1]], y[160:], n_trees=12)


def test_rows_in_the_format_of_another_library_are_refused_by_name():
    module = pytest.importorskip("xgboost")
    X, y = table(2)
    model = xgboost().fit(X[:160], y[:160] == "ant")
    with pytest.raises(TypeError, match="X is a DMatrix of xgboost; give the table"):
        thin(model, module.DMatrix(X[160:]), y[160:])
    with pytest.raises(TypeError, match="unlabelled is a DMatrix"):
        thin(model, X[160:], y[160:], unlabelled=module.DMatrix(X))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lightgbm, {"objective": "multiclassova"}),
        (lightgbm, {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}),
        (lightgbm, {"linear_tree": True}),
        (xgboost, {"booster": "dart", "rate_drop": 0.5}),
        (catboost, {"loss_function": "MultiClassOneVsAll"}),
        (GradientBoostingClassifier, {"loss": "exponential"}),
    ],
)
def test_models_whose_probabilities_are_no_softmax_of_summed_trees_are_refused(make, options):
    X, y = table(3)
    y = np.searchsorted(LABELS, y)
    y = y > 0 if "loss" in options and make is GradientBoostingClassifier else y
    model = make(**options).fit(X, y)
    with pytest.raises(ValueError, match="no softmax of the sum of its trees"):
        thin(model, X, y)


def test_a_model_that_starts_from_another_one_is_refused():
    X, y = table(3)
    model = GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="init=None"):
        thin(model, X, y)


@pytest.mark.parametrize("case", [("forest", 3), ("histograms", 3), ("gradient", 2)])
def test_no_weights_of_all_trees_have_an_objective_below_the_bound(fitted, case):
    model, X, y = fitted[case]
    thinned = thin(model, X, y, n_trees=8)
    rng = np.random.default_rng(0)
    responses = thinned._reader.responses(X)
    values = responses.values
    offset = thinned.offset
    if thinned.additions is not None:
        offset = offset - thinned.additions.offset
    if values.ndim == 2:
        full = np.zeros((*values.shape, len(thinned.classes_)))
        full[np.arange(len(values)), :, responses.channels] = values
        values = full
    codes = np.searchsorted(thinned.classes_, y)

    def log_probabilities(scores):
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    whole = (responses.offset if responses.offset is not None else 0.0) + values.sum(axis=0)
    targets = (1 - thinned.label_weight) * np.exp(log_probabilities(thinned.sharpness * whole))
    targets[np.arange(len(y)), codes] += thinned.label_weight
    means = values.mean(axis=1) if responses.offset is not None else np.zeros(values[:, 0].shape)

    def objective(weights):
        moved = offset + (thinned.weights - weights) @ means
        loss = -(targets * log_probabilities(moved + np.tensordot(weights, values, 1))).sum(axis=1)
        return thinned.prices @ weights + thinned.C * loss.mean()

    assert objective(thinned.weights) == pytest.approx(thinned.objective, rel=1e-9)
    for scale in (0.01, 0.1, 1.0):
        for _ in range(30):
            noise = rng.exponential(scale, len(thinned.weights))
            assert objective(thinned.weights * rng.uniform(0.5, 1.5) + noise) >= thinned.bound
    assert objective(np.ones(len(thinned.weights))) >= thinned.bound


def test_fewest_trees_within_the_margin_and_more_for_a_smaller_one(fitted):
    model, X, y = fitted["histograms", 2]
    results = [
        thin(model, X, y, margin=margin, n_errors=0.0, refit_leaves=False)
        for margin in (0.3, 0.05, 0.01)
    ]
    for result, margin in zip(results, (0.3, 0.05, 0.01), strict=True):
        assert result.thinned
        assert result.loss_change <= margin
        assert all(record["loss_change"] > margin for record in result.path[:-1])
    sizes = [result.n_trees for result in results]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert " trees. These are the fewest trees" in results[0].report()


def test_change_of_the_loss_is_that_of_weights_fitted_on_other_rows(fitted):
    """On the rows that they were fitted on, many weights look better than they are."""
    model, X, y = fitted["gradient", 3]
    thinned = thin(model, X[:60], y[:60], n_trees=40)
    codes = np.searchsorted(thinned.classes_, y)
    own = -np.log(thinned.predict_proba(X)[np.arange(len(y)), codes])
    assert own[:60].mean() - thinned.loss_before < thinned.loss_change


@pytest.mark.slow
def test_model_stays_whole_with_a_warning_where_the_margin_cannot_be_shown(fitted):
    model, X, y = fitted["histograms", 2]
    with pytest.warns(NotThinnedWarning, match="no part of the path is within the margin of 0;"):
        result = thin(model, X[:60], y[:60], margin=0.0, n_errors=5.0)
    assert not result.thinned
    assert result.n_trees == 20
    assert np.isnan(result.gap)
    assert (result.predict(X) == model.predict(X)).all()
    assert "No part of the path" in result.report()
    forest, X, y = fitted["forest", 3]
    with pytest.warns(NotThinnedWarning):
        whole = thin(forest, X[:60], y[:60], margin=0.0, n_errors=5.0)
    assert (whole.predict_proba(X) == forest.predict_proba(X)).all()


def test_rows_that_the_model_was_trained_on_warn():
    X, y = table(2)
    model = ExtraTreesClassifier(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="right on all 360 rows"):
        thin(model, X, y, n_trees=20)


def test_labels_of_one_class_warn(fitted):
    model, X, y = fitted["forest", 3]
    with pytest.warns(UserWarning, match="y has one class, 'ant', of the 3 of the model"):
        thin(model, X[y == "ant"], y[y == "ant"], n_trees=8)


def test_rows_without_labels_take_part(fitted):
    model, X, y = fitted["histograms", 3]
    alone = thin(model, X[:50], y[:50], n_trees=15)
    joined = thin(model, X[:50], y[:50], n_trees=15, unlabelled=X[50:])
    whole = model.predict_proba(X[50:])
    distances = [np.abs(t.predict(X[50:]) != model.predict(X[50:])).mean() for t in (alone, joined)]
    assert whole.shape == (150, 3)
    assert distances[1] <= distances[0]
    assert joined.loss_before == alone.loss_before


@pytest.mark.slow
@pytest.mark.parametrize("case", [("histograms", 3), ("gradient", 2), ("gradient", 3)])
def test_leaves_are_fitted_anew_for_boosted_trees_only(fitted, case):
    model, X, y = fitted[case]
    weighed = thin(model, X, y, n_trees=8, refit_leaves=False)
    refitted = thin(model, X, y, n_trees=8)
    assert weighed.additions is None
    assert np.isnan(weighed.leaf_gap)
    assert (weighed.weights == refitted.weights).all()
    assert refitted.leaf_gap <= 0.001
    assert "No other additions" in refitted.report()
    codes = np.searchsorted(model.classes_, y)
    losses = [log_loss(codes, t.predict_proba(X)) for t in (weighed, refitted)]
    assert losses[1] < losses[0]
    forest, X, y = fitted["forest", 3]
    assert thin(forest, X, y, n_trees=8).additions is None


def test_callables_are_weighed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    pool = [lambda X, k=k: np.sin((k + 1) * X[:, 0]) + X[:, k % 3] for k in range(6)]
    result = thin(pool, X, y, n_trees=5)
    assert result.n_trees <= 5
    assert (result.predict(X) == y).mean() > 0.8
    with pytest.warns(NotThinnedWarning, match="from 1 to 1 trees. Give a larger n_trees"):
        thin([lambda X: X[:, 0], lambda X: X[:, 0]], X, y, n_trees=1)


def test_same_seed_gives_the_same_weights(fitted):
    model, X, y = fitted["histograms", 3]
    first, second = (thin(model, X, y, n_trees=10, random_state=3) for _ in range(2))
    assert (first.weights == second.weights).all()
    assert first.path == second.path


def test_rare_classes_do_not_stop_the_folds(fitted):
    model, X, y = fitted["forest", 3]
    rows = np.concatenate((np.flatnonzero(y == "ant")[:40], np.flatnonzero(y == "bee")[:2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert thin(model, X[rows], y[rows], n_trees=8).n_trees_before == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": ["ant"] * 3}, r"y has shape \(3,\); give a label for each of 200 rows"),
        ({"y": ["dog"] + ["ant"] * 199}, r"y\[0\] is 'dog', which is no class of the model"),
        ({"margin": -1.0}, "margin is -1.0"),
        ({"n_trees": 0}, "n_trees is 0"),
        ({"tol": 1.5}, "tol is 1.5"),
    ],
)
def test_bad_arguments_are_named(fitted, change, message):
    model, X, y = fitted["forest", 2]
    with pytest.raises(ValueError, match=message):
        thin(**{"model": model, "X": X, "y": y, **change})


@pytest.mark.parametrize(
    "model", [LogisticRegression(), RandomForestRegressor(5), "model", [], None]
)
def test_other_models_are_refused_with_a_list_of_those_that_fit(model):
    with pytest.raises(TypeError, match="give a fitted classifier of LightGBM"):
        thin(model, [[0.0]], [0])


def test_a_pipeline_is_refused_with_its_steps(fitted):
    model, X, y = fitted["gradient", 3]
    with pytest.raises(TypeError, match=r"give its last step, model\[-1\]"):
        thin(make_pipeline(StandardScaler(), model), X, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOOSTED)
def test_a_frame_gives_the_same_trees_without_a_warning(fitted, name):
    pd = pytest.importorskip("pandas")
    model, X, y = fitted[name, 3]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    of_frame = clone(model).fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thinned = thin(of_frame, frame[:180], y[:180], n_trees=9)
    same = thin(clone(model).fit(X, y), X[:180], y[:180], n_trees=9)
    assert (thinned.predict_proba(frame) == same.predict_proba(X)).all()


def test_unfitted_model_is_refused():
    with pytest.raises(ValueError, match="not fitted"):
        thin(RandomForestClassifier(), [[0.0]], [0])


@pytest.mark.slow
def test_path_ends_where_more_trees_lower_the_loss_no_further(fitted):
    model, X, y = fitted["histograms", 3]
    with pytest.warns(NotThinnedWarning):
        whole = thin(model, X, y, margin=0.0, n_errors=50.0)
    rises = [of["loss_change"] + 50.0 * of["loss_change_error"] for of in whole.path]
    assert len(rises) - 1 - int(np.argmin(rises)) == 3
    assert max(of["trees"] for of in whole.path) <= 0.8 * whole.n_trees_before
