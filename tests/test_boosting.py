"""The trainer against independent solvers, and what users do with it."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import linprog

from structboost import (
    BinaryTask,
    MulticlassTask,
    PartKind,
    RankingTask,
    StructBoost,
    Task,
    TaskError,
    row_blocks,
)
from structboost.exceptions import InterruptedFitWarning, SolverError


def all_stumps(X):
    """Responses of all stumps and constants, both orientations, shape (n_learners, n)."""
    out = [np.ones(len(X)), -np.ones(len(X))]
    for f in range(X.shape[1]):
        for value in np.unique(X[:, f])[:-1]:
            right = np.where(X[:, f] > value, 1.0, -1.0)
            out += [right, -right]
    return np.array(out)


def full_optimum(rows, losses, slacks, costs):
    """Optimum of the full linear program, by scipy."""
    n_columns = rows.shape[1]
    one_hot = np.zeros((len(rows), len(costs)))
    one_hot[np.arange(len(rows)), slacks] = 1.0
    A = -np.hstack((rows, one_hot))
    c = np.concatenate((np.ones(n_columns), costs))
    return linprog(c, A_ub=A, b_ub=-np.asarray(losses), bounds=(0, None)).fun


def binary_problem(rng, C):
    X = rng.normal(size=(24, 2)).round(1)
    y = np.where(X[:, 0] + rng.normal(size=24) > 0, 1, -1)
    H = all_stumps(X)
    optimum = full_optimum((y[:, None] * H.T), np.ones(24), np.arange(24), np.full(24, C / 24))
    return BinaryTask(), X, y, optimum


def multiclass_problem(rng, C):
    X = rng.normal(size=(20, 2)).round(1)
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=20), [-0.5, 0.5])
    H = all_stumps(X)
    rows, losses, slacks = [], [], []
    for i in range(20):
        for c in range(3):
            if c != y[i]:
                row = np.zeros((3, len(H)))
                row[y[i]] += H[:, i]
                row[c] -= H[:, i]
                rows.append(row.ravel())
                losses.append(1.0)
                slacks.append(i)
    return MulticlassTask(3), X, y, full_optimum(np.array(rows), losses, slacks, np.full(20, C / 20))


def ranking_problem(rng, C):
    X = rng.normal(size=(16, 2)).round(1)
    y = rng.integers(0, 3, size=16)
    H = all_stumps(X)
    pairs = [(i, j) for i in range(16) for j in range(16) if y[i] > y[j]]
    rows = np.array([H[:, i] - H[:, j] for i, j in pairs])
    optimum = full_optimum(rows, np.ones(len(pairs)), np.arange(len(pairs)), np.full(len(pairs), C / len(pairs)))
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
        worst = task.argmax(x, scores, y)

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
    assert np.array_equal(np.concatenate(loaded.predict(X), axis=None), np.concatenate(trainer.predict(X), axis=None))


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


def test_path_is_warm_started_and_agrees_with_separate_fits():
    task, X, y, _ = multiclass_problem(np.random.default_rng(3), 1.0)
    Cs = [2.0, 20.0, 200.0]
    path = StructBoost(task, C=1.0, tol=1e-5).path(X, y, Cs)
    assert [trainer.C for trainer in path] == Cs
    alone = [StructBoost(task, C=C, tol=1e-5).fit(X, y) for C in Cs]
    for a, b in zip(path, alone, strict=True):
        assert a.objective_ == pytest.approx(b.objective_, rel=1e-4)
    calls = [trainer.history_[-1]["oracle_calls"] for trainer in path]
    assert calls[-1] < alone[-1].history_[-1]["oracle_calls"]


def test_sample_weight_is_repetition():
    task, X, y, _ = binary_problem(np.random.default_rng(4), 1.0)
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = StructBoost(task, C=15.0, tol=1e-6).fit(X, y, sample_weight=weight)
    repeated = StructBoost(task, C=15.0, tol=1e-6).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)


@pytest.mark.parametrize("threads", [2, -1])
def test_threads_do_not_change_the_result(threads, monkeypatch):
    monkeypatch.setattr("structboost.weak.stump._MIN_THREADED_WORK", 0)
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


def test_fitted_trainers_pickle():
    task, X, y, _ = multiclass_problem(np.random.default_rng(9), 1.0)
    trainer = StructBoost(task, C=10.0).fit(X, y)
    assert pickle.loads(pickle.dumps(trainer)).predict(X) == trainer.predict(X)


def test_solver_trouble_is_an_exception_after_a_cold_solve(monkeypatch):
    from structboost.masters.hinge_program import HingeProgram

    monkeypatch.setattr(HingeProgram, "_run", lambda self: (None, "made trouble"))
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
        ({"C": 1.0, "formulation": "two_slack"}, "formulation is 'two_slack'"),
        ({"C": 1.0, "weak_learner": "forest"}, "weak_learner is 'forest'"),
    ],
)
def test_parameters_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        StructBoost(BinaryTask(), **arguments).fit([[0.0], [1.0]], [-1, 1])


def test_bad_data_is_named():
    trainer = StructBoost(BinaryTask(), C=1.0)
    with pytest.raises(ValueError, match="X has 1 examples and Y 2"):
        trainer.fit([[0.0]], [-1, 1])
    with pytest.raises(ValueError, match="X is empty"):
        trainer.fit([], [])
    with pytest.raises(TaskError, match=r"X\[1\] has NaN"):
        trainer.fit([[0.0], [np.nan]], [-1, 1])
    with pytest.raises(TaskError, match=r"Y\[1\] is 3"):
        trainer.fit([[0.0], [1.0]], [-1, 3])
    with pytest.raises(TaskError, match=r"Y\[0\] is 7"):
        StructBoost(MulticlassTask(3), C=1.0).fit([[0.0], [1.0]], [7, 1])
    with pytest.raises(ValueError, match=r"sample_weight\[1\] is -1"):
        trainer.fit([[0.0], [1.0]], [-1, 1], sample_weight=[1, -1])


class BadLoss(FourMethods):
    def loss(self, y, y_pred):
        return -1.0


class BadJointFeature(FourMethods):
    def joint_feature(self, x, y):
        return np.zeros((1, 2))


@pytest.mark.parametrize(("task", "message"), [(BadLoss(), r"loss\(Y\[0\]"), (BadJointFeature(), r"X\[0\].*\(1, 2\)")])
def test_a_task_that_breaks_its_contract_is_named(task, message):
    with pytest.raises(TaskError, match=message):
        StructBoost(task, C=1.0).fit(np.eye(3), [0, 1, 2])


@pytest.mark.parametrize("name", PROBLEMS)
def test_spread_weights_are_shorter_and_within_the_gap(name):
    task, X, Y, optimum = PROBLEMS[name](np.random.default_rng(3), 30.0)
    plain = StructBoost(task, C=30.0, tol=1e-3).fit(X, Y)
    spread = StructBoost(task, C=30.0, tol=1e-3, spread=0.05).fit(X, Y)
    last = spread.history_[-1]
    assert last["gap"] <= 0.05
    assert last["bound"] <= optimum * (1 + 1e-9)
    assert spread.objective_ == last["primal"] >= optimum * (1 - 1e-9)
    assert np.sum(spread.model_.weights**2) < np.sum(plain.model_.weights**2)
    assert spread.model_.n_stages == len(spread.history_) == len(plain.history_) + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"spread": 1.0}, "spread is 1.0"), ({"spread": 0.1, "formulation": "m_slack"}, "spread needs formulation")],
)
def test_bad_spread(changes, message):
    with pytest.raises(ValueError, match=message):
        StructBoost(BinaryTask(), C=1.0, **changes).fit(np.zeros((2, 1)), [1, -1])


def test_a_fit_over_several_blocks_of_rows_is_that_over_one(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1000, 4))
    Y = rng.integers(3, size=1000)
    X[:, 0] += Y
    one = StructBoost(MulticlassTask(3), C=10.0, tol=1e-3).fit(X, Y)
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 64)
    assert len(row_blocks.blocks_of({"x": np.arange(1001)})) == 16
    several = StructBoost(MulticlassTask(3), C=10.0, tol=1e-3).fit(X, Y)
    assert several.objective_ == pytest.approx(one.objective_, rel=2e-3)
    assert several.history_[0]["primal"] == pytest.approx(one.history_[0]["primal"], rel=1e-9)
