"""Thinned models of all libraries have certificates, also where their leaves are fitted anew."""

import pickle
import warnings
from functools import cache, partial

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from structboost import thin
from structboost.errors import NotThinnedWarning
from structboost.thinning.leaf_refit import (
    RIDGE,
    HeldOutRows,
    LeafAdditions,
    added_scores,
    refitted_leaves,
)
from structboost.thinning.library_trees import LibraryTrees
from tests.helpers.refusals import refused


@pytest.fixture(autouse=True)
def _workers_share_the_cores():
    """The threads of scikit-learn's histograms wait for each other without sleep."""
    with threadpool_limits(1):
        yield


LABELS = np.array(["ant", "bee", "cat"])
OPTIONS = {
    "lightgbm": {"n_jobs": 1, "verbose": -1},
    "xgboost": {"n_jobs": 1, "max_depth": 3},
    "catboost": {"thread_count": 1, "verbose": 0, "allow_writing_files": False, "depth": 3},
}


def of_library(library, name, **options):
    model = getattr(pytest.importorskip(library), name)
    return model(**{"n_estimators": 20, **OPTIONS[library], **options})


lightgbm = partial(of_library, "lightgbm", "LGBMClassifier")
xgboost = partial(of_library, "xgboost", "XGBClassifier")
catboost = partial(of_library, "catboost", "CatBoostClassifier")
histograms = partial(HistGradientBoostingClassifier, max_iter=20, max_leaf_nodes=8, random_state=0)
MODELS = {
    "forest": partial(RandomForestClassifier, 20, random_state=0),
    "extra trees": partial(ExtraTreesClassifier, 20, random_state=0),
    "histograms": histograms,
    "lightgbm": lightgbm,
    "lightgbm, dart and sigmoid": partial(lightgbm, boosting_type="dart", sigmoid=0.5),
    "xgboost": xgboost,
    "xgboost, parallel": partial(xgboost, num_parallel_tree=2, subsample=0.6),
    "catboost": catboost,
    "catboost, depthwise": partial(catboost, grow_policy="Depthwise"),
}


def table(n_classes, n=360):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, class_sep=0.9,
        flip_y=0.1, random_state=1,
    )  # fmt: skip
    return X, LABELS[y]


@cache
def fitted(name, n_classes=3):
    """Model, and the rows and labels that it was not trained on."""
    X, y = table(n_classes)
    y = np.searchsorted(LABELS, y) if name.startswith("xgboost") else y
    return MODELS[name]().fit(X[:160], y[:160]), X[160:], y[160:]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_few_trees_predict_by_sums_over_trees_and_leaves_and_the_model_stays(name, n_classes):
    model, X, y = fitted(name, n_classes)
    if name not in ("forest", "extra trees"):
        X = X.copy()
        X[::9, 2] = np.nan
    before = model.predict_proba(X)
    responses = LibraryTrees(model).responses(X)
    if responses.leaves is not None:
        assert responses.probabilities == pytest.approx(before, abs=1e-6)
    thinned = thin(model, X, y, n_trees=8)
    assert 0 < thinned.n_trees <= 8 < thinned.n_trees_before
    assert thinned.thinned
    assert thinned.gap <= 0.01
    scores = np.tile(thinned.offset, (len(X), 1))
    for block in responses.blocks:
        scores[:, block.channel] += thinned.weights[block.functions] @ block.scores
    if thinned.additions is not None:
        for tree in thinned.trees:
            scores += thinned.additions.trees[tree][responses.leaves[tree]]
    assert thinned.decision_function(X) == pytest.approx(scores, abs=1e-9)
    # Held-out rows are measured by the same scores.
    held = HeldOutRows(responses, np.searchsorted(model.classes_, y), None)
    of_held = held.scores(thinned.weights, thinned.additions, np.arange(len(X)))
    assert of_held == pytest.approx(scores, abs=1e-9)
    assert thinned.prices[thinned.trees] == pytest.approx(0.1 * held.prices[thinned.trees])
    assert thinned.predict_proba(X) == pytest.approx(softmax(scores, axis=1))
    assert (thinned.predict(X) == model.classes_[scores.argmax(axis=1)]).all()
    assert (model.predict_proba(X) == before).all()
    assert (pickle.loads(pickle.dumps(thinned)).predict(X) == thinned.predict(X)).all()


@pytest.mark.parametrize("make", [lightgbm, xgboost])
def test_rounds_after_the_best_one_are_no_part_of_the_model(make):
    X, y = table(3)
    y = np.searchsorted(LABELS, y)
    model = make(n_estimators=300)
    if make is lightgbm:
        stop = {"callbacks": [pytest.importorskip("lightgbm").early_stopping(5, verbose=False)]}
    else:
        model.set_params(early_stopping_rounds=5)
        stop = {"verbose": False}
    model.fit(X[:160], y[:160], eval_set=[(X[160:], y[160:])], **stop)
    n_rounds = model.best_iteration_ if make is lightgbm else model.best_iteration + 1
    assert thin(model, X[160:], y[160:], n_trees=12).n_trees_before == 3 * n_rounds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["histograms", "lightgbm"])
def test_a_frame_gives_the_same_trees_without_a_warning(name):
    model, X, y = fitted(name)
    frame = pandas.DataFrame(X, columns=[f"column {j}" for j in range(6)])
    of_frame = clone(model).fit(frame, y)
    with warnings.catch_warnings(action="error"):
        thinned = thin(of_frame, frame[:180], y[:180], n_trees=9)
    same = thin(clone(model).fit(X, y), X[:180], y[:180], n_trees=9)
    assert (thinned.predict_proba(frame) == same.predict_proba(X)).all()
    if name == "lightgbm":
        refused(
            r"X has the columns .* give them in the order",
            thin,
            of_frame,
            frame[frame.columns[::-1]],
            y,
            n_trees=9,
        )


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lightgbm, {"objective": "multiclassova"}),
        (lightgbm, {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}),
        (lightgbm, {"linear_tree": True}),
        (xgboost, {"booster": "dart", "rate_drop": 0.5}),
        (catboost, {"loss_function": "MultiClassOneVsAll"}),
    ],
)
def test_models_whose_probabilities_are_no_softmax_of_summed_trees_are_refused(make, options):
    X, y = table(3)
    y = np.searchsorted(LABELS, y)
    refused("no softmax of the sum of its trees", thin, make(**options).fit(X, y), X, y)


@pytest.mark.parametrize("name", ["forest", "histograms"])
def test_no_weights_of_all_trees_have_an_objective_below_the_bound(name):
    model, X, y = fitted(name, 2 if name == "histograms" else 3)
    thinned = thin(model, X, y, n_trees=8, refit_leaves=False)
    responses, rng = thinned._reader.responses(X), default_rng(0)
    values = np.zeros((thinned.n_trees_before, *thinned.decision_function(X).shape))
    for block in responses.blocks:
        values[block.functions, :, block.channel] = block.scores
    whole = softmax(thinned.sharpness * (responses.offset + values.sum(axis=0)), axis=1)
    share, labels = thinned.label_weight, y[:, None] == thinned.classes_
    targets = (1 - share) * whole + share * labels
    means = values.mean(axis=1) * (responses.leaves is not None)

    def objective(weights):
        scores = thinned.offset + (thinned.weights - weights) @ means
        scores = scores + np.tensordot(weights, values, 1)
        loss = -(targets * log_softmax(scores, axis=1)).sum(axis=1)
        return thinned.prices @ weights + thinned.C * loss.mean()

    assert objective(thinned.weights) == pytest.approx(thinned.objective, rel=1e-9)
    for scale in (0.01, 0.1, 1.0):
        for noise in rng.exponential(scale, (30, len(means))):
            assert objective(thinned.weights * rng.uniform(0.5, 1.5) + noise) >= thinned.bound
    assert objective(np.ones(len(means))) >= thinned.bound


def test_fewest_trees_within_the_margin_and_more_for_a_smaller_one():
    sizes = []
    for margin in (0.3, 0.05, 0.01):
        result = thin(*fitted("histograms", 2), margin=margin, refit_leaves=False)
        assert result.thinned
        rises = [record["loss_change"] + record["loss_change_error"] for record in result.path]
        assert rises[-1] <= margin < min(rises[:-1], default=np.inf)
        assert " trees. These are the fewest trees" in result.report()
        sizes.append(result.n_trees)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_change_of_the_loss_is_that_of_weights_fitted_on_other_rows():
    """On the rows that they were fitted on, many weights look better than they are."""
    model, X, y = fitted("histograms")
    thinned = thin(model, X[:60], y[:60], n_trees=40)
    codes = np.searchsorted(thinned.classes_, y)
    own = -np.log(thinned.predict_proba(X)[np.arange(len(y)), codes])
    assert own[:60].mean() - thinned.loss_before < thinned.loss_change


@pytest.mark.slow
@pytest.mark.parametrize("name", ["histograms", "forest"])
def test_model_stays_whole_with_a_warning_where_the_margin_cannot_be_shown(name):
    model, X, y = fitted(name)
    with pytest.warns(NotThinnedWarning, match="no part of the path is within the margin of 0;"):
        whole = thin(model, X, y, margin=0.0)
    assert not whole.thinned
    assert (whole.weights == 1).all()
    assert np.isnan([whole.gap, whole.objective, whole.leaf_gap, whole.C]).all()
    assert name == "forest" or (whole.predict(X) == model.predict(X)).all()
    assert (whole.predict_proba(X) == model.predict_proba(X)).all()
    assert "No part of the path" in whole.report()
    # The path ends where more trees lower the loss no further.
    rises = [record["loss_change"] + record["loss_change_error"] for record in whole.path]
    assert len(rises) - 1 - int(np.argmin(rises)) == 3 or name == "forest"
    assert max(record["trees"] for record in whole.path[:-1]) <= 0.8 * whole.n_trees_before


def test_rows_that_the_model_was_trained_on_warn_and_rare_classes_do_not_stop_folds():
    X, y = table(2)
    with pytest.warns(UserWarning, match="right on all 360 rows"):
        thin(ExtraTreesClassifier(20, random_state=0).fit(X, y), X, y, n_trees=20)
    model, X, y = fitted("forest")
    # Classes of fewer rows than folds do not stop them.
    rows = np.concatenate((np.flatnonzero(y == "ant")[:40], np.flatnonzero(y == "bee")[:2]))
    with warnings.catch_warnings(action="ignore"):
        assert thin(model, X[rows], y[rows], n_trees=8).n_trees_before == 20


def test_rows_without_labels_take_part():
    model, X, y = fitted("histograms")
    alone = thin(model, X[:40], y[:40], n_trees=25)
    joined = thin(model, X[:40], y[:40], n_trees=25, unlabelled=X[40:])
    distances = [(t.predict(X[40:]) != model.predict(X[40:])).mean() for t in (alone, joined)]
    # Where they have no part in the leaves, it is more than half as large.
    assert distances[1] <= 0.45 * distances[0]
    assert (alone.weights != joined.weights).any()
    assert joined.loss_before == alone.loss_before


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaves_are_fitted_anew_for_boosted_trees_only(n_classes):
    model, X, y = fitted("histograms", n_classes)
    weighed = thin(model, X, y, n_trees=8, refit_leaves=False)
    first, refitted = (thin(model, X, y, n_trees=8, random_state=3) for _ in range(2))
    assert refitted.offset == pytest.approx(weighed.offset + refitted.additions.offset)
    assert weighed.additions is None
    assert np.isnan(weighed.leaf_gap)
    assert (weighed.weights == refitted.weights).all()
    assert first.path == refitted.path
    assert refitted.leaf_gap <= 0.001
    assert "No other additions" in refitted.report()
    losses = [log_loss(y, t.predict_proba(X)) for t in (weighed, refitted)]
    assert losses[1] < losses[0]
    assert thin(*fitted("forest"), n_trees=8).additions is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": ["ant"] * 3}, r"y has shape \(3,\); give a label for each of 200 rows"),
        ({"y": ["dog"] + ["ant"] * 199}, r"y\[0\] is 'dog', which is no class of the model"),
        ({"model": partial(RandomForestRegressor, 5)}, "give a fitted classifier of LightGBM"),
        ({"model": lambda: make_pipeline(histograms())}, "last step of a Pipeline"),
        *(
            ({"model": MODELS[name]}, r"\bfit(ted)?\b|trained")
            for name in MODELS
            if "," not in name
        ),
    ],
)
def test_bad_arguments_are_named(change, message):
    model, X, y = fitted("forest")
    arguments = {"model": model, "X": X, "y": y, **change}
    if "model" in change:
        arguments["model"] = change["model"]()
    with pytest.raises(Exception, match=message):
        thin(**arguments)


N_ROWS, N_TREES, N_LEAVES, N_CLASSES = 30, 4, 3, 3


def problem(seed, has_channels):
    rng = default_rng(seed)
    leaves = rng.integers(N_LEAVES, size=(N_TREES, N_ROWS))
    scored = np.ones((N_TREES, N_CLASSES), bool)
    if has_channels:
        scored = np.arange(N_TREES)[:, None] % N_CLASSES == np.arange(N_CLASSES)
    trees = np.sort(rng.permutation(N_TREES)[:3])
    scores = rng.normal(size=(N_ROWS, N_CLASSES))
    targets = rng.dirichlet(np.ones(N_CLASSES), N_ROWS)
    return leaves, scored, trees, scores, targets, rng.uniform(0.1, 1.0, N_ROWS)


def dense_objective(leaves, scored, trees, scores, targets, row_weights):
    """Objective over a vector of the additions to all leaves and classes, and of the offsets."""
    shape = (N_TREES, N_LEAVES, N_CLASSES)
    may_change = np.zeros(shape, bool)
    may_change[trees] = scored[trees][:, None]

    def objective(z):
        values = np.where(may_change, z[: np.prod(shape)].reshape(shape), 0.0)
        moved = scores + z[np.prod(shape) :]
        for tree in trees:
            moved = moved + values[tree][leaves[tree]]
        losses = logsumexp(moved, axis=1) - (targets * moved).sum(axis=1)
        return row_weights @ losses / row_weights.sum() + RIDGE / 2 * (z @ z)

    return objective, np.prod(shape) + N_CLASSES


def as_vector(additions):
    values = np.zeros((N_TREES, N_LEAVES, N_CLASSES))
    for tree, own in additions.trees.items():
        values[tree, : len(own)] = own
    return np.concatenate((values.ravel(), additions.offset))


@pytest.mark.slow
@pytest.mark.parametrize("has_channels", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_additions_are_within_their_gap_of_the_optimum_of_a_dense_solver(seed, has_channels):
    parts = problem(seed, has_channels)
    objective, size = dense_objective(*parts)
    best = minimize(objective, np.zeros(size), method="BFGS", options={"gtol": 1e-7}).fun
    for tol in (0.05, 1e-7):
        additions = refitted_leaves(*parts, tol)
        value = objective(as_vector(additions))
        assert additions.gap <= tol
        assert value * (1 - additions.gap) <= best + 1e-9
        assert best - 1e-9 <= value
    assert value == pytest.approx(best, rel=1e-5)


def test_leaves_that_no_row_reached_have_no_addition():
    additions = LeafAdditions({1: np.array([[0.0, 0.5], [1.0, 2.0]])}, np.zeros(2), 0.0)
    out = added_scores(additions, np.array([[0, 0, 0, 0], [0, 1, 2, 7]]))
    assert out.tolist() == [[0.0, 0.5], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
