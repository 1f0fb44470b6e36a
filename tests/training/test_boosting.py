"""The trainer against independent solvers, and what users do with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from structboost import (
    BinaryTask,
    GraphTask,
    MulticlassTask,
    PartKind,
    RankingTask,
    StructBoost,
    StructuredSVM,
    Task,
    check_task,
)
from structboost.contract import StackedParts
from structboost.errors import InterruptedFitWarning, SolverError, TaskError
from structboost.learners.base import Column
from structboost.learners.pricing import BestCode, FreeSign, PerChannel, SharedOverChannels
from structboost.objectives import (
    Exponential,
    ExponentialLoss,
    Hinge,
    L1LogLoss,
    Logistic,
    LogLoss,
)
from structboost.objectives.m_slack import MSlack
from structboost.objectives.norm_bounded import NormBounded
from structboost.objectives.norm_bounded_hinge import NormBoundedHinge
from structboost.objectives.one_slack import OneSlack
from structboost.objectives.stage_wise import StageWise
from structboost.runtime import blocks
from structboost.solvers.cut_program import CutProgram
from structboost.tasks import GraphInput
from tests.helpers.engine_tasks import ChainTask
from tests.helpers.problems import all_stumps, class_margins, full_optimum


def problem_of(name, seed):
    """A task, its examples, and the optimum at some C and weights by a full linear program."""
    rng = np.random.default_rng(seed)
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
    {"formulation": "one_slack", "stabilize": False},
    {"formulation": "m_slack"},
]
X, y = problem_of("multiclass", 5)[1:3]


@settings(max_examples=24, deadline=None, derandomize=True)
@given(
    st.sampled_from(PROBLEMS), st.sampled_from(FORMS), st.sampled_from([3.0, 60.0, 200.0]),
    st.integers(0, 99), st.booleans(),
)  # fmt: skip
def test_optimum_and_bounds_equal_an_independent_solver(name, form, C, seed, is_weighted):
    task, X, Y, optimum = problem_of(name, seed)
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=20) ** 2 * (rng.random(20) < 0.8)
    weights = weights if is_weighted and name != "ranking" else None
    least = optimum(C, weights)
    trainer = StructBoost(task, C=C, tol=1e-6, **form).fit(X, Y, sample_weight=weights)
    assert trainer.objective_ == pytest.approx(least, rel=1e-4)
    primal = [record["primal"] for record in trainer.history_]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(primal))
    for record in trainer.history_:
        assert record["certified"]
        assert record["bound"] <= least * (1 + 1e-7)
        assert record["primal"] >= least * (1 - 1e-7)


def recomputed_objective(trainer, X, Y):
    """Objective from the model's own scores and the task's four methods."""
    task, model = trainer.task, trainer.model_
    risk = 0.0
    for x, y in zip(X, Y, strict=True):
        scores = model.scores(task.parts(x))
        worst = task.augmented_argmax(x, scores, y)

        def value(output, x=x, scores=scores):
            joint = task.joint_feature(x, output)
            if isinstance(joint, tuple):
                parts, channels, values = (np.asarray(a) for a in joint)
                return float(values @ scores[parts, channels])
            return float((np.asarray(joint) * scores).sum())

        risk += max(0.0, task.loss(y, worst) + value(worst) - value(y))
    return model.weights.sum() + trainer.C * risk / len(Y)


@pytest.mark.parametrize("name", PROBLEMS)
def test_objective_is_that_of_the_saved_model(name, tmp_path):
    task, X, Y, _ = problem_of(name, 1)
    trainer = StructBoost(task, C=20.0).fit(X, Y)
    trainer.save(tmp_path / "model")
    loaded = StructBoost.load(tmp_path / "model", task)
    assert recomputed_objective(loaded, X, Y) == pytest.approx(trainer.objective_, rel=1e-12)
    assert loaded.objective_ == trainer.objective_
    np.testing.assert_array_equal(loaded.predict(X), trainer.predict(X))


@settings(max_examples=8, deadline=None, derandomize=True)
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


class FourMethods(Task):
    """MulticlassTask without its batch forms."""

    kinds = {"x": PartKind(n_channels=3)}

    def parts(self, x):
        return x[None]

    def joint_feature(self, x, y):
        return np.eye(3)[[y]]

    def loss(self, y, y_pred):
        return float(y != y_pred)

    def argmax(self, x, scores, y=None):
        return int(np.argmax(scores[0] + (0 if y is None else np.arange(3) != y)))


def test_four_methods_train_like_the_batch_forms():
    slow = StructBoost(FourMethods(), C=10.0, tol=1e-6).fit(X, y)
    fast = StructBoost(MulticlassTask(3), C=10.0, tol=1e-6).fit(X, y)
    assert slow.objective_ == pytest.approx(fast.objective_, rel=1e-5)
    assert slow.predict(X) == [int(v) for v in slow.model_.scores(X).argmax(axis=1)]


def test_two_kinds_of_parts_and_no_negative_edge_energy():
    rng = np.random.default_rng(0)
    chains = [rng.normal(size=(rng.integers(2, 6), 1)) for _ in range(12)]
    labels = [(x[:, 0] > 0).astype(int) for x in chains]
    objectives = []
    for formulation in ("one_slack", "m_slack"):
        trainer = StructBoost(ChainTask(), C=20.0, tol=1e-5, formulation=formulation)
        objectives.append(trainer.fit(chains, labels).objective_)
        assert trainer.history_[-1]["certified"]
        assert (trainer.model_.scores(rng.normal(size=(50, 1)), "link") >= 0).all()
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-4)
    assert trainer.score(chains, labels) > -0.5


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


def test_interruption_keeps_a_usable_model():
    def interrupt(record, trainer):
        if record["round"] == 2:
            raise KeyboardInterrupt

    trainer = StructBoost(MulticlassTask(3), C=50.0, callbacks=[interrupt])
    with pytest.warns(InterruptedFitWarning, match="2 rounds"):
        trainer.fit(X, y)
    assert trainer.interrupted_
    assert len(trainer.predict(X)) == len(X)
    assert len(trainer.history_) == 2


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
        MulticlassTask(3), C=20.0, tol=1e-9, max_rounds=5, formulation=formulation, pricing=rule
    ).fit(X, y)  # fmt: skip
    history, model = trainer.history_, trainer.model_
    assert [record["round"] for record in history] == list(range(1, len(history) + 1))
    calls = [record["oracle_calls"] for record in history]
    assert calls[0] > 0
    assert calls == sorted(calls)
    assert all(record["cuts"] >= 0 for record in history)
    assert [record["columns"] for record in history] == [
        int((stage != 0).sum()) for stage in model.stages
    ]
    primals = [record["primal"] for record in history]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(primals))
    assert trainer.objective_ == primals[-1]


def test_a_stage_wise_fit_counts_a_step_for_each_column():
    settings = {"formulation": StageWise(), "columns_per_channel": 1, "max_rounds": 4}
    trainer = StructBoost(BinaryTask(), C=1.0, **settings).fit(X, np.sign(y - 0.5))
    assert [record["oracle_calls"] for record in trainer.history_] == [1, 2, 3, 4]


def test_a_solver_that_fails_raises_an_error(monkeypatch):
    monkeypatch.setattr(CutProgram, "_run", lambda self: (None, "made trouble"))
    with pytest.raises(SolverError, match="made trouble"):
        StructBoost(MulticlassTask(3), C=1.0).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": 0}, "C is 0"),
        ({"C": -1.0}, "C is -1.0"),
        ({"C": float("nan")}, "C is nan"),
        ({"tol": -1}, "tol is -1"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"spread": 1.0}, "spread is 1.0"),
        ({"spread": 0.1, "formulation": "m_slack"}, "spread needs can_spread, which MS"),
        ({"formulation": "two_slack"}, "formulation is 'two_slack'"),
        ({"weak_learner": "forest"}, "weak_learner is 'forest'"),
        ({"X": [[0.0]]}, "X has 1 examples and Y 2"),
        ({"X": [], "Y": []}, "X is empty"),
        ({"X": [[0.0], [np.inf]]}, r"X\[1\] has infinite"),
        ({"X": [[np.nan, 1.0], [np.inf, np.nan]]}, r"X\[1\] has infinite"),
        ({"X": np.zeros((2, 0))}, "give a non-empty table"),
        ({"X": np.zeros(2)}, "give a non-empty table"),
        ({"X": [[0.0], [np.nan]], "weak_learner": "svm"}, r"X\[1\] has NaN .*weak_learner='svm'"),
        ({"Y": [-1, 3]}, r"Y\[1\] is 3"),
        ({"sample_weight": [1, -1]}, r"sample_weight\[1\] is -1"),
    ],
)
def test_parameters_out_of_range_and_bad_data_are_named(changes, message):
    data = {"X": [[0.0], [1.0]], "Y": [-1, 1], "sample_weight": None}
    parameters = {"C": 1.0, **{name: changes[name] for name in changes.keys() - data}}
    trainer = StructBoost(BinaryTask(), **parameters)
    with pytest.raises(ValueError, match=message):
        trainer.fit(**{name: changes.get(name, value) for name, value in data.items()})


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
        with pytest.raises(TaskError, match="columns of one weak learner on one channel"):
            StructBoost(MulticlassTask(3), C=1e3, formulation=formulation, pricing=rule).fit(X, y)


class TwoParts(MulticlassTask):
    """Classes of inputs that have two rows each."""

    def stack(self, X):
        return StackedParts({"x": np.repeat(X, 2, axis=0)}, {"x": np.arange(0, 2 * len(X) + 1, 2)})


@pytest.mark.parametrize(
    "formulation", [Exponential(), Logistic(), NormBounded(), StageWise()], ids=str
)
def test_formulations_for_one_part_refuse_several(formulation):
    with pytest.raises(TaskError, match="one kind of parts and one part per example"):
        StructBoost(TwoParts(3), C=1.0, formulation=formulation).fit(X, y)
    with pytest.raises(ValueError, match="C is -1"):
        StructBoost(MulticlassTask(3), C=-1.0, formulation=formulation).fit(X, y)


def test_a_fit_over_several_blocks_of_rows_is_as_good_as_over_one(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1000, 4))
    Y = rng.integers(3, size=1000)
    X[:, 0] += Y
    whole = StructBoost(MulticlassTask(3), C=10.0, tol=1e-3).fit(X, Y)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    assert len(blocks.blocks_of({"x": np.arange(1001)})) == 16
    several = StructBoost(MulticlassTask(3), C=10.0, tol=1e-3).fit(X, Y)
    assert several.objective_ == pytest.approx(whole.objective_, rel=2e-3)
    assert several.history_[0]["primal"] == pytest.approx(whole.history_[0]["primal"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["one_slack", "m_slack", "log"])
def test_a_series_is_taken_by_position(formulation):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 3, 6) for _ in range(16)]
    chains = np.array([[i, i + 1] for i in range(5)])
    X = [GraphInput((rng.random(6) < 0.4)[:, None] * np.eye(3)[y], chains) for y in Y]
    labels = rng.permutation(np.arange(5, 21))  # as after train_test_split: none is 0
    series = pandas.Series(X, index=labels), pandas.Series(Y, index=labels[::-1])
    check_task(GraphTask(3), *(of.iloc[:6] for of in series), max_outputs=10)
    found = []
    for data in ((X, Y), series):
        model = StructBoost(GraphTask(3), C=30, max_rounds=5, tol=0.05, formulation=formulation)
        svm = StructuredSVM(GraphTask(3), C=1.0, random_state=0).fit(*data)
        found.append((model.fit(*data).objective_, model.score(*data), svm.score(*data)))
        if formulation == "log":
            found[-1] += (model.predict_marginals(data[0])[3]["node"].tolist(),)
    assert found[0] == found[1]


@pytest.mark.parametrize("C", [10.0, "auto"])
def test_a_data_frame_of_a_shuffled_index_is_taken_by_position(C):
    pandas = pytest.importorskip("pandas")
    labels = np.random.default_rng(0).permutation(20)
    frame, series = pandas.DataFrame(X, index=labels), pandas.Series(y, index=labels[::-1])
    of_arrays, of_frame = (
        StructBoost(MulticlassTask(3), C=C, max_rounds=5).fit(*data)
        for data in ((X, y), (frame, series))
    )
    assert of_arrays.objective_ == of_frame.objective_
    assert of_arrays.predict(X) == of_frame.predict(frame)


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
        with pytest.raises(ValueError, match="C is given twice"):
            StructBoost(task, C=2.0, objective=objective).fit(X, y)
    for wrong in (LogLoss(), "hinge"):
        with pytest.raises(TypeError, match=r"objective is .*; give Hinge\(\)"):
            StructBoost(task, C=2.0, objective=wrong).fit(X, y)
    with pytest.raises(TypeError, match="C is None"):
        StructBoost(task).fit(X, y)
