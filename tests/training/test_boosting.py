"""The trainer against independent solvers, and what users do with it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.datasets import load_wine

from structboost import BinaryTask, MulticlassTask, RankingTask, StructBoost
from structboost.contract import StackedParts
from structboost.contract.separation import best_output
from structboost.learners.base import Column
from structboost.learners.pricing import BestCode, FreeSign, PerChannel, SharedOverChannels
from structboost.objectives import Exponential, ExponentialLoss, Hinge, L1LogLoss, Logistic, LogLoss
from structboost.objectives.hinge import OneSlack
from structboost.objectives.m_slack import MSlack
from structboost.objectives.norm_bounded import NormBounded, NormBoundedHinge
from structboost.objectives.stage_wise import StageWise
from tests.helpers.dense_features import dense_features
from tests.helpers.engine_tasks import ChainTask
from tests.helpers.problems import all_stumps, class_margins, full_optimum
from tests.helpers.refusals import refused


def problem_of(name, seed):
    """A task, its examples, and the optimum at some C and weights by a full linear program."""
    rng = default_rng(seed)
    X = rng.normal(size=(20, 2)).round(1)
    noisy, H, slacks = X[:, 0] + 0.7 * rng.normal(size=20), all_stumps(X), np.arange(20)
    if name == "binary":
        task, y = BinaryTask(), np.where(noisy > 0, 1, -1)
        rows = y[:, None] * H.T
    elif name == "multiclass":
        task, y = MulticlassTask(3), np.digitize(noisy, [-0.5, 0.5])
        rows, slacks = class_margins(H, y)
    else:
        task, y = RankingTask(), rng.integers(0, 3, size=20)
        pairs = [(i, j) for i in range(20) for j in range(20) if y[i] > y[j]]
        rows, slacks = np.array([H[:, i] - H[:, j] for i, j in pairs]), np.arange(len(pairs))

    def optimum(C, weights=None):
        of_slacks = np.ones(slacks.max() + 1) if weights is None else np.asarray(weights)
        return full_optimum(rows, np.ones(len(rows)), slacks, C * of_slacks / of_slacks.sum())

    return (task, [X], [y], optimum) if name == "ranking" else (task, X, y, optimum)


PROBLEMS = ["binary", "multiclass", "ranking"]
FORMS = [
    {"formulation": "one_slack"},
    {"formulation": OneSlack(stabilize=False)},
    {"formulation": "m_slack"},
]
X, y = problem_of("multiclass", 5)[1:3]


def recomputed_objective(trainer, X, Y):
    """Objective from the model's own scores and the task's four methods."""
    task, model = trainer.task, trainer.model_
    risk = 0.0
    for x, y in zip(X, Y, strict=True):
        scores = model.scores(task.parts(x))
        worst = best_output(task, x, scores, y)
        (kind,) = task.kinds
        difference = dense_features(task, x, worst)[kind] - dense_features(task, x, y)[kind]
        risk += max(0.0, task.loss(y, worst) + (difference * scores).sum())
    return model.weights.sum() + trainer.C * risk / len(Y)


@pytest.mark.slow
@settings(derandomize=True)
@given(
    st.sampled_from(PROBLEMS), st.sampled_from(FORMS), st.sampled_from([3.0, 60.0, 200.0]),
    st.integers(0, 99), st.booleans(),
)  # fmt: skip
def test_optimum_and_bounds_equal_an_independent_solver(name, form, C, seed, is_weighted):
    task, X, Y, optimum = problem_of(name, seed)
    rng = default_rng(seed)
    weights = rng.exponential(size=20) ** 2 * (rng.random(20) < 0.8)
    weights = weights if is_weighted and name != "ranking" else None
    least = optimum(C, weights)
    trainer = StructBoost(task, C=C, tol=1e-6, **form).fit(X, Y, sample_weight=weights)
    assert trainer.objective_ == pytest.approx(least, rel=1e-4)
    if weights is None:
        recomputed = recomputed_objective(trainer, X, Y)
        assert recomputed == pytest.approx(trainer.objective_, rel=1e-9)
    primal = [record["primal"] for record in trainer.history_]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(primal))
    for record in trainer.history_:
        assert record["certified"]
        assert record["bound"] <= least * (1 + 1e-7)
        assert record["primal"] >= least * (1 - 1e-7)


@settings(max_examples=8, derandomize=True)
@given(
    st.sampled_from(PROBLEMS), st.integers(0, 50), st.sampled_from([5.0, 30.0, 300.0]),
    st.sampled_from([0.01, 0.05, 0.2, 0.6]),
)  # fmt: skip
def test_spread_weights_are_shorter_and_within_the_spread_of_the_bound(name, seed, C, spread):
    task, X, Y, optimum = problem_of(name, seed)
    trainer = StructBoost(task, C=C, tol=0.1 * spread, spread=spread).fit(X, Y)
    trained, last = trainer.history_[-2:]
    assert last["bound"] == trained["bound"] <= optimum(C) * (1 + 1e-9)
    objective = recomputed_objective(trainer, X, Y)
    assert objective == pytest.approx(trainer.objective_, rel=1e-9)
    assert trained["primal"] * (1 - 1e-9) <= objective
    assert objective <= last["bound"] / (1.0 - spread) * (1 + 1e-9)
    # Most of what is allowed is used, if it is little.
    assert spread > 0.05 or 0.5 * spread <= last["gap"]
    assert last["gap"] <= spread * (1 + 1e-9)
    lengths = np.sum(trainer.model_.stages**2, axis=1)
    assert lengths[-1] <= lengths[-2] * (1 + 1e-9)
    assert trainer.model_.n_stages == len(trainer.history_)


def test_two_kinds_of_parts_and_no_negative_edge_energy():
    rng = default_rng(0)
    chains = [rng.normal(size=(rng.integers(2, 6), 1)) for _ in range(12)]
    labels = [(x[:, 0] > 0).astype(int) for x in chains]
    objectives = []
    for formulation in ("one_slack", "m_slack"):
        trainer = StructBoost(ChainTask(), C=20.0, tol=1e-5, formulation=formulation)
        objectives.append(trainer.fit(chains, labels).objective_)
        assert trainer.history_[-1]["certified"]
        assert (trainer.model_.scores(rng.normal(size=(50, 1)), "link") >= 0).all()
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-4)
    assert trainer.score(chains, [1 - y for y in labels]) < -0.5


@pytest.mark.parametrize("Cs", [[2.0, 20.0, 200.0], [200.0, 20.0, 4.0]])
def test_a_path_is_warm_started_and_its_bounds_hold_for_their_own_C(Cs):
    """The optimum falls with C: a bound of a larger one proves nothing."""
    task, X, y, optimum = problem_of("multiclass", 3)
    path = StructBoost(task, C=1.0, tol=1e-5).path(X, y, Cs)
    assert [trainer.C for trainer in path] == Cs
    for trainer in path:
        least = optimum(trainer.C)
        assert max(record["bound"] for record in trainer.history_) <= least * (1 + 1e-7)
        assert trainer.objective_ == pytest.approx(least, rel=1e-4)
        assert trainer.history_[-1]["gap"] <= 1e-5
    alone = StructBoost(task, C=Cs[-1], tol=1e-5).fit(X, y)
    assert path[-1].history_[-1]["oracle_calls"] < alone.history_[-1]["oracle_calls"]


@pytest.mark.parametrize("threads", [2, -1])
def test_threads_do_not_change_the_result(threads, monkeypatch):
    monkeypatch.setattr("structboost.learners.stump._MIN_THREADED_WORK", 0)
    alone = StructBoost(MulticlassTask(3), C=50.0).fit(X, y)
    several = StructBoost(MulticlassTask(3), C=50.0, n_jobs=threads).fit(X, y)
    assert np.array_equal(alone.model_.weights, several.model_.weights)
    assert [r["bound"] for r in alone.history_] == [r["bound"] for r in several.history_]


def test_a_callback_stops_training_and_sees_the_current_model():
    seen = []

    def stop(record, trainer):
        seen.append(np.array(trainer.predict(X)))
        return record["round"] == 3

    trainer = StructBoost(MulticlassTask(3), C=50.0, tol=1e-9, callbacks=[stop]).fit(X, y)
    assert len(trainer.history_) == 3
    np.testing.assert_array_equal(list(trainer.staged_predict(X)), seen)
    assert np.array_equal(seen[-1], trainer.predict(X))


@pytest.mark.parametrize(
    "formulation",
    [OneSlack(), OneSlack(stabilize=False), MSlack(), Exponential(), Exponential("lbfgs"),
     Logistic(), NormBounded(), NormBoundedHinge(), StageWise()],
    ids=str,
)  # fmt: skip
def test_every_formulation_records_its_counts_per_round(formulation):
    rule = FreeSign() if isinstance(formulation, Logistic) else "own"
    trainer = StructBoost(
        MulticlassTask(3), C=20.0, tol=1e-9, max_rounds=5, formulation=formulation, pricing=rule,
        columns_per_channel=1,
    ).fit(X, y)  # fmt: skip
    history, model = trainer.history_, trainer.model_
    assert [record["round"] for record in history] == list(range(1, len(history) + 1))
    calls = [record["oracle_calls"] for record in history]
    assert calls[0] > 0
    assert calls == sorted(calls)
    # A stage-wise fit makes a step for each column.
    assert not isinstance(formulation, StageWise) or calls == [3, 6, 9, 12, 15]
    assert all(record["cuts"] >= 0 for record in history)
    assert [record["columns"] for record in history] == [
        int((stage != 0).sum()) for stage in model.stages
    ]
    primals = [record["primal"] for record in history]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(primals))
    assert trainer.objective_ == primals[-1]


BAD = {
    "spread needs can_spread, which MS": {"spread": 0.1, "formulation": "m_slack"},
    r"X\[1\] has infinite": {"X": [[np.nan, 1.0], [np.inf, np.nan]]},
    r"X\[1\] has NaN .*weak_learner='svm'": {"X": [[0.0], [np.nan]], "weak_learner": "svm"},
}


@pytest.mark.parametrize(("message", "changes"), BAD.items(), ids=BAD)
def test_parameters_out_of_range_and_bad_data_are_named(message, changes):
    settings = {"C": 1.0, "X": [[0.0], [1.0]], "Y": [-1, 1], "sample_weight": None} | changes
    data = {name: settings.pop(name) for name in ("X", "Y", "sample_weight")}
    refused(message, StructBoost(BinaryTask(), **settings).fit, **data)


@pytest.mark.parametrize("formulation", [Exponential(), Logistic()], ids=str)
def test_masters_that_take_single_terms_refuse_others(formulation):
    class Halved(PerChannel):
        """Columns of one learner, at half its size."""

        def columns(self, *arguments):
            found, edge = super().columns(*arguments)
            return [
                Column((term._replace(coefficient=0.5),), edge) for ((term, *_), edge) in found
            ], edge

    for rule in (BestCode(), SharedOverChannels(), Halved()):
        refused(
            "columns of one weak learner on one channel",
            StructBoost(MulticlassTask(3), C=1e3, formulation=formulation, pricing=rule).fit,
            X,
            y,
        )


class TwoParts(MulticlassTask):
    """Classes of inputs that have two rows each."""

    def stack(self, X):
        return StackedParts({"x": np.repeat(X, 2, axis=0)}, {"x": np.arange(0, 2 * len(X) + 1, 2)})


@pytest.mark.parametrize(
    "formulation", [Exponential(), Logistic(), NormBounded(), StageWise()], ids=str
)
def test_formulations_for_one_part_refuse_several(formulation):
    refused(
        "one kind of parts and one part per example",
        StructBoost(TwoParts(3), C=1.0, formulation=formulation).fit,
        X,
        y,
    )


def test_an_objective_with_parameters_is_the_fit_of_these_parameters():
    X, y = load_wine(return_X_y=True)
    task, pairs = MulticlassTask(3), [
        (Hinge(C=5.0, formulation="m_slack", tol=0.1), {"formulation": "m_slack", "tol": 0.1}),
        (ExponentialLoss(C=5.0), {"formulation": "exponential"}),
        (L1LogLoss(C=5.0), {"formulation": "log"}),
    ]  # fmt: skip
    for objective, flat in pairs:
        given = StructBoost(task, objective=objective, max_rounds=2, random_state=0)
        plain = StructBoost(task, C=5.0, max_rounds=2, random_state=0, **flat).fit(X, y)
        for fitted in (given.fit(X, y), *given.path(X, y, [5.0])):
            np.testing.assert_array_equal(fitted.model_.weights, plain.model_.weights)
            assert fitted.C_ == 5.0
        assert given.objective is objective
        refused("C is given twice", StructBoost(task, C=2.0, objective=objective).fit, X, y)
    for wrong in (LogLoss(), "log_loss"):
        refused(r"objective is .*; give Hinge\(\)", StructBoost(task, objective=wrong).fit, X, y)
    assert StructBoost(task, C=None, max_rounds=2).fit(X, y).C_path_
