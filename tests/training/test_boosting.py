"""The trainer against independent solvers, and what users do with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from structboost.objectives import Exponential, Logistic
from structboost.objectives.m_slack import MSlack
from structboost.objectives.norm_bounded import NormBounded
from structboost.objectives.norm_bounded_hinge import NormBoundedHinge
from structboost.objectives.one_slack import OneSlack
from structboost.objectives.stage_wise import StageWise
from structboost.runtime import blocks
from structboost.solvers.cut_program import CutProgram
from structboost.tasks import GraphInput
from tests.helpers.problems import all_stumps, class_margins, full_optimum


def binary_problem(rng, C):
    X = rng.normal(size=(24, 2)).round(1)
    y = np.where(X[:, 0] + rng.normal(size=24) > 0, 1, -1)
    H = all_stumps(X)
    optimum = full_optimum((y[:, None] * H.T), np.ones(24), np.arange(24), np.full(24, C / 24))
    return BinaryTask(), X, y, optimum


def multiclass_program(X, y):
    """Constraints of the full program on three classes: rows, losses and slacks."""
    rows, slacks = class_margins(all_stumps(X), y)
    return rows, 1, slacks


def multiclass_data(rng):
    X = rng.normal(size=(20, 2)).round(1)
    return X, np.digitize(X[:, 0] + 0.7 * rng.normal(size=20), [-0.5, 0.5])


def multiclass_problem(rng, C):
    X, y = multiclass_data(rng)
    return MulticlassTask(3), X, y, full_optimum(*multiclass_program(X, y), np.full(20, C / 20))


def ranking_problem(rng, C):
    X = rng.normal(size=(16, 2)).round(1)
    y = rng.integers(0, 3, size=16)
    H = all_stumps(X)
    pairs = [(i, j) for i in range(16) for j in range(16) if y[i] > y[j]]
    rows = np.array([H[:, i] - H[:, j] for i, j in pairs])
    optimum = full_optimum(
        rows, np.ones(len(pairs)), np.arange(len(pairs)), np.full(len(pairs), C / len(pairs))
    )
    return RankingTask(), [X], [y], optimum


PROBLEMS = {"binary": binary_problem, "multiclass": multiclass_problem, "ranking": ranking_problem}
FORMS = {
    "one_slack": {"formulation": "one_slack"},
    "printed": {"formulation": "one_slack", "stabilize": False},
    "m_slack": {"formulation": "m_slack"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("C", [3.0, 200.0])
def test_optimum_and_bound_equal_an_independent_solver(problem, form, C):
    task, X, Y, optimum = PROBLEMS[problem](np.random.default_rng(5), C)
    trainer = StructBoost(task, C=C, tol=1e-6, **FORMS[form]).fit(X, Y)
    assert trainer.objective_ == pytest.approx(optimum, rel=1e-4)
    primal = [record["primal"] for record in trainer.history_]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(primal))
    for record in trainer.history_:
        assert record["certified"]
        assert record["bound"] <= optimum * (1 + 1e-7)
        assert record["primal"] >= optimum * (1 - 1e-7)


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


@pytest.mark.parametrize("problem", PROBLEMS)
def test_objective_is_that_of_the_saved_model(problem, tmp_path):
    task, X, Y, _ = PROBLEMS[problem](np.random.default_rng(1), 20.0)
    trainer = StructBoost(task, C=20.0).fit(X, Y)
    trainer.save(tmp_path / "model")
    loaded = StructBoost.load(tmp_path / "model", task)
    assert recomputed_objective(loaded, X, Y) == pytest.approx(trainer.objective_, rel=1e-12)
    assert loaded.objective_ == trainer.objective_
    assert np.array_equal(
        np.concatenate(loaded.predict(X), axis=None), np.concatenate(trainer.predict(X), axis=None)
    )


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
    _, X, y, _ = multiclass_problem(np.random.default_rng(2), 10.0)
    slow = StructBoost(FourMethods(), C=10.0, tol=1e-6).fit(X, y)
    fast = StructBoost(MulticlassTask(3), C=10.0, tol=1e-6).fit(X, y)
    assert slow.objective_ == pytest.approx(fast.objective_, rel=1e-5)
    assert slow.predict(X) == [int(v) for v in slow.model_.scores(X).argmax(axis=1)]


class TinyCRF(Task):
    """Two labels on a chain: node parts (node, label), edge parts; argmax by enumeration."""

    kinds = {"node": PartKind(1, (-1.0, 1.0)), "edge": PartKind(1, (0.0, 1.0))}

    def parts(self, x):
        both = np.vstack((np.hstack((x, np.zeros_like(x))), np.hstack((np.zeros_like(x), x))))
        return {"node": both, "edge": np.abs(np.diff(x, axis=0))}

    def joint_feature(self, x, y):
        y = np.asarray(y)
        n = len(x)
        return {
            "node": (np.arange(n) + n * y, np.zeros(n, int), -np.ones(n)),
            "edge": -(y[1:] != y[:-1]).astype(float)[:, None],
        }

    def loss(self, y, y_pred):
        return float(np.sum(np.asarray(y) != np.asarray(y_pred)))

    def argmax(self, x, scores, y=None):
        def value(output):
            nodes = scores["node"][np.arange(len(x)) + len(x) * output, 0].sum()
            edges = scores["edge"][output[1:] != output[:-1], 0].sum()
            return -nodes - edges + (0 if y is None else self.loss(y, output))

        outputs = [np.array(list(np.binary_repr(k, len(x))), int) for k in range(2 ** len(x))]
        return max(outputs, key=value)


def test_two_kinds_of_parts_and_no_negative_edge_energy():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(rng.integers(2, 6), 1)) for _ in range(12)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    objectives = []
    for formulation in ("one_slack", "m_slack"):
        trainer = StructBoost(TinyCRF(), C=20.0, tol=1e-5, formulation=formulation).fit(X, Y)
        objectives.append(trainer.objective_)
        assert trainer.history_[-1]["certified"]
        edges = trainer.model_.scores(rng.normal(size=(50, 1)), "edge")
        assert (edges >= 0).all()
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-4)
    assert trainer.score(X, Y) > -0.5


@pytest.mark.parametrize("Cs", [[2.0, 20.0, 200.0], [200.0, 20.0, 4.0]])
def test_a_path_is_warm_started_and_its_bounds_hold_for_their_own_C(Cs):
    """The optimum falls with C: a bound of a larger one proves nothing."""
    X, y = multiclass_data(np.random.default_rng(3))
    program = multiclass_program(X, y)
    path = StructBoost(MulticlassTask(3), C=1.0, tol=1e-5).path(X, y, Cs)
    assert [trainer.C for trainer in path] == Cs
    for trainer in path:
        optimum = full_optimum(*program, np.full(20, trainer.C / 20))
        assert max(record["bound"] for record in trainer.history_) <= optimum * (1 + 1e-7)
        assert trainer.objective_ == pytest.approx(optimum, rel=1e-4)
        assert trainer.history_[-1]["gap"] <= 1e-5
    alone = StructBoost(MulticlassTask(3), C=Cs[-1], tol=1e-5).fit(X, y)
    assert path[-1].history_[-1]["oracle_calls"] < alone.history_[-1]["oracle_calls"]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 999), st.sampled_from([3.0, 60.0]), st.sampled_from(["one_slack", "m_slack"]))
def test_weighted_optimum_and_bound_equal_an_independent_solver(seed, C, formulation):
    rng = np.random.default_rng(seed)
    X, y = multiclass_data(rng)
    weight = rng.exponential(size=20) ** 2 * (rng.random(20) < 0.8)
    optimum = full_optimum(*multiclass_program(X, y), C * weight / weight.sum())
    trainer = StructBoost(MulticlassTask(3), C=C, tol=1e-6, formulation=formulation).fit(
        X, y, sample_weight=weight
    )
    assert trainer.objective_ == pytest.approx(optimum, rel=1e-4)
    assert all(record["bound"] <= optimum * (1 + 1e-7) for record in trainer.history_)
    assert all(record["primal"] >= optimum * (1 - 1e-7) for record in trainer.history_)


@pytest.mark.parametrize("threads", [2, -1])
def test_threads_do_not_change_the_result(threads, monkeypatch):
    monkeypatch.setattr("structboost.learners.stump._MIN_THREADED_WORK", 0)
    task, X, y, _ = multiclass_problem(np.random.default_rng(6), 1.0)
    one = StructBoost(task, C=50.0).fit(X, y)
    many = StructBoost(task, C=50.0, n_jobs=threads).fit(X, y)
    assert np.array_equal(one.model_.weights, many.model_.weights)
    assert [r["bound"] for r in one.history_] == [r["bound"] for r in many.history_]


def test_interruption_keeps_a_usable_model():
    task, X, y, _ = multiclass_problem(np.random.default_rng(7), 1.0)

    def interrupt(record, trainer):
        if record["round"] == 2:
            raise KeyboardInterrupt

    trainer = StructBoost(task, C=50.0, callbacks=[interrupt])
    with pytest.warns(InterruptedFitWarning, match="2 rounds"):
        trainer.fit(X, y)
    assert trainer.interrupted_
    assert len(trainer.predict(X)) == len(X)
    assert len(trainer.history_) == 2


def test_a_callback_stops_training_and_sees_the_current_model():
    task, X, y, _ = multiclass_problem(np.random.default_rng(8), 1.0)
    seen = []

    def stop(record, trainer):
        seen.append(np.array(trainer.predict(X)))
        return record["round"] == 3

    trainer = StructBoost(task, C=50.0, tol=1e-9, callbacks=[stop]).fit(X, y)
    assert len(trainer.history_) == 3
    staged = [np.array(outputs) for outputs in trainer.staged_predict(X)]
    assert all(np.array_equal(a, b) for a, b in zip(seen, staged, strict=True))
    assert np.array_equal(staged[-1], trainer.predict(X))


@pytest.mark.parametrize(
    "formulation",
    [OneSlack(), OneSlack(stabilize=False), MSlack(), Exponential(), Exponential("lbfgs"),
     Logistic(), NormBounded(), NormBoundedHinge(), StageWise()],
    ids=str,
)  # fmt: skip
def test_every_formulation_records_its_counts_per_round(formulation):
    X, y = multiclass_data(np.random.default_rng(5))
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


def test_a_solver_that_fails_raises_an_error(monkeypatch):
    monkeypatch.setattr(CutProgram, "_run", lambda self: (None, "made trouble"))
    with pytest.raises(SolverError, match="made trouble"):
        StructBoost(BinaryTask(), C=1.0).fit(np.arange(4.0)[:, None], [-1, -1, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C": 0}, "C is 0"),
        ({"C": -1.0}, "C is -1.0"),
        ({"C": float("nan")}, "C is nan"),
        ({"C": 1.0, "tol": -1}, "tol is -1"),
        ({"C": 1.0, "max_rounds": 0}, "max_rounds is 0"),
        ({"C": 1.0, "spread": 1.0}, "spread is 1.0"),
        (
            {"C": 1.0, "spread": 0.1, "formulation": "m_slack"},
            "spread needs can_spread, which MS",
        ),
        ({"C": 1.0, "formulation": "two_slack"}, "formulation is 'two_slack'"),
        ({"C": 1.0, "weak_learner": "forest"}, "weak_learner is 'forest'"),
    ],
)
def test_parameters_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        StructBoost(BinaryTask(), **arguments).fit([[0.0], [1.0]], [-1, 1])


@pytest.mark.parametrize(
    "formulation", [Exponential(), Logistic()], ids=["exponential", "logistic"]
)
def test_masters_that_take_single_terms_refuse_others(formulation):
    class Halved(PerChannel):
        """Columns of one learner, at half its size."""

        def columns(self, *arguments):
            found, edge = super().columns(*arguments)
            return [
                Column((term._replace(coefficient=0.5),), edge) for ((term, *_), edge) in found
            ], edge

    X, y = multiclass_data(np.random.default_rng(0))
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
        StructBoost(TwoParts(2), C=1.0, formulation=formulation).fit(np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="C is -1"):
        StructBoost(MulticlassTask(2), C=-1.0, formulation=formulation).fit(np.eye(3), [0, 1, 1])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0.0]], [-1, 1], "X has 1 examples and Y 2"),
        ([], [], "X is empty"),
        ([[0.0], [np.inf]], [-1, 1], r"X\[1\] has infinite"),
        ([[0.0, 1.0], [np.nan, 1.0], [np.inf, np.nan]], [-1, 1, 1], r"X\[2\] has infinite"),
        ([[0.0], [1.0]], [-1, 3], r"Y\[1\] is 3"),
        (np.zeros((2, 0)), [-1, 1], "give a non-empty table"),
        (np.zeros(2), [-1, 1], "give a non-empty table"),
    ],
)
def test_bad_data_is_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        StructBoost(BinaryTask(), C=1.0).fit(X, y)


def test_missing_numbers_and_bad_weights_are_named():
    with pytest.raises(TaskError, match=r"X\[1\] has NaN features, which weak_learner='svm'"):
        StructBoost(BinaryTask(), C=1.0, weak_learner="svm").fit([[0.0], [np.nan]], [-1, 1])
    with pytest.raises(ValueError, match=r"sample_weight\[1\] is -1"):
        StructBoost(BinaryTask(), C=1.0).fit([[0.0], [1.0]], [-1, 1], sample_weight=[1, -1])


@pytest.mark.parametrize("name", PROBLEMS)
def test_spread_weights_are_shorter_and_within_the_gap(name):
    task, X, Y, optimum = PROBLEMS[name](np.random.default_rng(3), 30.0)
    plain = StructBoost(task, C=30.0, tol=1e-3).fit(X, Y)
    spread = StructBoost(task, C=30.0, tol=1e-3, spread=0.05).fit(X, Y)
    last = spread.history_[-1]
    # Most of what is allowed is used.
    assert 0.025 <= last["gap"] <= 0.05
    assert last["bound"] <= optimum * (1 + 1e-9)
    assert spread.objective_ == last["primal"] >= optimum * (1 - 1e-9)
    assert np.sum(spread.model_.weights**2) < np.sum(plain.model_.weights**2)
    assert spread.model_.n_stages == len(spread.history_) == len(plain.history_) + 1


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    problem=st.sampled_from(sorted(PROBLEMS)),
    seed=st.integers(0, 50),
    C=st.sampled_from([5.0, 30.0, 300.0]),
    spread=st.sampled_from([0.01, 0.05, 0.2, 0.6]),
)
def test_the_objective_after_spreading_is_within_the_spread_of_the_bound(problem, seed, C, spread):
    task, X, Y, optimum = PROBLEMS[problem](np.random.default_rng(seed), C)
    trainer = StructBoost(task, C=C, tol=0.1 * spread, spread=spread).fit(X, Y)
    trained, last = trainer.history_[-2:]
    assert last["bound"] == trained["bound"] <= optimum * (1 + 1e-9)
    objective = recomputed_objective(trainer, X, Y)
    assert objective == pytest.approx(trainer.objective_, rel=1e-9)
    assert (
        trained["primal"] * (1 - 1e-9) <= objective <= last["bound"] / (1.0 - spread) * (1 + 1e-9)
    )
    assert last["gap"] <= spread * (1 + 1e-9)


def test_a_fit_over_several_blocks_of_rows_is_as_good_as_over_one(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1000, 4))
    Y = rng.integers(3, size=1000)
    X[:, 0] += Y
    one = StructBoost(MulticlassTask(3), C=10.0, tol=1e-3).fit(X, Y)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    assert len(blocks.blocks_of({"x": np.arange(1001)})) == 16
    several = StructBoost(MulticlassTask(3), C=10.0, tol=1e-3).fit(X, Y)
    assert several.objective_ == pytest.approx(one.objective_, rel=2e-3)
    assert several.history_[0]["primal"] == pytest.approx(one.history_[0]["primal"], rel=1e-9)


def test_a_stage_wise_fit_counts_a_step_for_each_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1, -1)
    trainer = StructBoost(
        BinaryTask(), C=1.0, formulation=StageWise(), columns_per_channel=1, max_rounds=4
    ).fit(X, y)
    assert [record["oracle_calls"] for record in trainer.history_] == [1, 2, 3, 4]


def graphs_in_series():
    """Small graphs, and the same in Series of a shuffled index."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 3, 6) for _ in range(40)]
    chains = np.array([[i, i + 1] for i in range(5)])
    X = [GraphInput((rng.random(6) < 0.4)[:, None] * np.eye(3)[y], chains) for y in Y]
    numbers = rng.permutation(np.arange(5, 45))  # as after train_test_split: none is 0
    return (X, Y), (pandas.Series(X, index=numbers), pandas.Series(Y, index=numbers[::-1]))


@pytest.mark.slow
def test_check_task_takes_a_series_by_position():
    check_task(GraphTask(3), *graphs_in_series()[1], max_outputs=10)


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["one_slack", "m_slack", "log"])
def test_a_series_is_taken_by_position(formulation):
    found = []
    task = GraphTask(3)
    for data in graphs_in_series():
        model = StructBoost(task, C=30, max_rounds=5, tol=0.05, formulation=formulation)
        model.fit(*data)
        found.append((model.objective_, model.score(*data)))
        if formulation == "log":
            found[-1] += (model.predict_marginals(data[0])[3]["node"].tolist(),)
        else:
            svm = StructuredSVM(task, C=1.0, random_state=0).fit(*data)
            found[-1] += (svm.history_[-1]["primal"], svm.score(*data))
    assert found[0] == found[1]


def test_a_data_frame_of_a_shuffled_index_is_taken_by_position():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    numbers = rng.permutation(60)
    frame, labels = pandas.DataFrame(X, index=numbers), pandas.Series(y, index=numbers[::-1])
    for C in (10.0, "auto"):
        models = [
            StructBoost(MulticlassTask(2), C=C, max_rounds=5).fit(*d)
            for d in ((X, y), (frame, labels))
        ]
        assert models[0].objective_ == models[1].objective_
        assert models[0].predict(X) == models[1].predict(frame)
