"""StructuredSVM against an independent solver on the full program, and its certificate."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from structboost import ChainTask
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.task import Task
from structboost.errors import InterruptedFitWarning, TaskError
from structboost.learners import active_features
from structboost.linear import svm_run
from structboost.linear.designs import designs_of
from structboost.linear.structured_svm import StructuredSVM
from structboost.tasks import BinaryTask, GraphInput, GraphTask, MulticlassTask, RankingTask
from tests.helpers.choose import Choose


class Chain(Task):
    """Three binary labels in a row; edges have scores >= 0 and cost where labels differ."""

    kinds = {"node": PartKind(n_channels=2), "edge": PartKind(response=(0.0, 1.0))}

    def parts(self, x):
        return {"node": x[0], "edge": x[1]}

    def joint_feature(self, x, y):
        y = np.asarray(y)
        return {
            "node": (np.arange(3), y, np.ones(3)),
            "edge": -(y[:-1] != y[1:]).astype(float)[:, None],
        }

    def loss(self, y, y_pred):
        return float(np.sum(np.asarray(y) != np.asarray(y_pred)))

    def outputs(self, x):
        return itertools.product((0, 1), repeat=3)


class FreeChain(Chain):
    """The same without the bound on edges (but with a bias)."""

    kinds = {"node": PartKind(n_channels=2), "edge": PartKind()}


def binary():
    X, y = make_classification(25, 3, n_informative=2, n_redundant=0, flip_y=0.3, random_state=0)
    return BinaryTask(), X, 2 * y - 1, [(-1, 1)] * 25


def multiclass():
    X, y = make_classification(
        25, 4, n_informative=3, n_redundant=0, n_classes=3, flip_y=0.2, random_state=1
    )
    return MulticlassTask(3), X, y, [range(3)] * 25


def candidates():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(rng.integers(1, 5), 3)) for _ in range(20)]
    return Choose(), X, [int(rng.integers(len(x))) for x in X], [range(len(x)) for x in X]


def chains(task):
    """Labels that alternate more than they agree: free edge weights would be negative."""
    rng = np.random.default_rng(4)
    X = [
        (rng.normal(size=(3, 2)), rng.uniform(size=(2, 3)) * [1.0, 1.0, 0.0] + [0, 0, 0.5])
        for _ in range(9)
    ]
    Y = [tuple(int(label) for label in (x[0][:, 0] > 0)) for x in X]
    for i in range(0, 9, 2):
        Y[i] = (0, 1, 0)
        X[i][1][:, 0] = 0.0
    return task, X, Y, [list(itertools.product((0, 1), repeat=3))] * 9


PROBLEMS = {
    "binary": binary,
    "multiclass": multiclass,
    "candidates": candidates,
    "chain_bounded": lambda: chains(Chain()),
    "chain_free": lambda: chains(FreeChain()),
}


def joint_feature_map(task, x, y):
    """Psi(x, y), dense, kind after kind, with a bias row for kinds without bound."""
    parts, M, flat = task.parts(x), task.joint_feature(x, y), []
    for kind, part in task.kinds.items():
        rows = np.asarray(parts[kind] if isinstance(parts, dict) else parts, dtype=float)
        of_kind = M[kind] if isinstance(M, dict) else M
        if isinstance(of_kind, tuple):
            dense = np.zeros((len(rows), part.n_channels))
            np.add.at(dense, (np.asarray(of_kind[0], int), np.asarray(of_kind[1], int)), of_kind[2])
            of_kind = dense
        if part.response[0] < 0:
            rows = np.column_stack((rows, np.ones(len(rows))))
        flat.append((rows.T @ of_kind).ravel())
    return np.concatenate(flat)


def bounded_weights(task, X):
    parts, out = task.parts(X[0]), []
    for kind, part in task.kinds.items():
        width = np.shape(parts[kind] if isinstance(parts, dict) else parts)[1]
        bounded = part.response[0] >= 0
        out += [bounded] * ((width + (not bounded)) * part.n_channels)
    return np.array(out)


def flat(w):
    return np.concatenate([v.ravel() for v in (w.values() if isinstance(w, dict) else [w])])


def rows_of_full_program(task, X, Y, outputs):
    """For each example the losses and the differences of joint features of all its outputs."""
    rows = []
    for x, y, of_x in zip(X, Y, outputs, strict=True):
        true = joint_feature_map(task, x, y)
        pairs = [(task.loss(y, z), true - joint_feature_map(task, x, z)) for z in of_x]
        rows.append((np.array([loss for loss, _ in pairs]), np.array([psi for _, psi in pairs])))
    return rows


def primal_of(w, rows, C):
    hinges = [max(0.0, float((losses - psi @ w).max())) for losses, psi in rows]
    return 0.5 * float(w @ w) + C * float(np.mean(hinges))


def independent_optimum(task, X, Y, outputs, C):
    """The program over all outputs, in weights and slacks, by a solver that knows no cuts."""
    rows = rows_of_full_program(task, X, Y, outputs)
    n, d = len(rows), rows[0][1].shape[1]
    slacks = np.repeat(np.eye(n), [len(psi) for _, psi in rows], axis=0)
    A = np.hstack((np.vstack([psi for _, psi in rows]), slacks))
    b = np.concatenate([losses for losses, _ in rows])
    low = np.concatenate((np.where(bounded_weights(task, X), 0.0, -np.inf), np.zeros(n)))
    found = minimize(
        lambda v: 0.5 * v[:d] @ v[:d] + C / n * v[d:].sum(),
        np.full(d + n, 1.0),
        jac=lambda v: np.append(v[:d], np.full(n, C / n)),
        bounds=[(bound, None) for bound in low],
        constraints={"type": "ineq", "fun": lambda v: A @ v - b, "jac": lambda v: A},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    return primal_of(np.where(low[:d] == 0, np.maximum(found.x[:d], 0), found.x[:d]), rows, C), rows


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("average", [True, False])
def test_fits_and_paths_have_the_certified_optimum_of_an_independent_solver(name, average):
    task, X, Y, outputs = PROBLEMS[name]()
    svm = StructuredSVM(task, C=7.0, tol=1e-6, random_state=0, average=average)
    Cs = (0.5, 30.0, 3.0)
    alone = [clone(svm).set_params(C=C).fit(X, Y) for C in Cs[:2]]
    for C, fitted in zip(Cs[:2] + Cs, [*alone, *svm.path(X, Y, Cs)], strict=True):
        optimum, rows = independent_optimum(task, X, Y, outputs, C)
        slip = 1e-6 * (1 + optimum)
        primals, bounds = ([of[key] for of in fitted.history_] for key in ("primal", "bound"))
        assert bounds == sorted(bounds)
        assert bounds[-1] <= optimum + slip
        assert primals == sorted(primals, reverse=True)
        assert optimum <= primals[-1] + slip
        assert fitted.history_[-1]["gap"] <= 1e-6
        assert fitted.history_[-1]["certified"]
        assert fitted.objective_ == primals[-1]
        assert fitted.objective_ == pytest.approx(primal_of(flat(fitted.w_), rows, C), rel=1e-9)
    assert svm.C == 7.0
    assert not hasattr(svm, "w_")


def test_a_path_takes_fewer_passes_than_fits_alone():
    X, y = make_classification(300, 20, n_informative=8, n_classes=5, flip_y=0.1, random_state=0)
    svm = StructuredSVM(MulticlassTask(5), tol=0.01, random_state=0)
    Cs = (3.0, 10.0, 30.0, 100.0)
    along = [len(fitted.history_) for fitted in svm.path(X, y, Cs)]
    alone = [len(StructuredSVM(svm.task, C=C, tol=0.01, random_state=0).fit(X, y).history_)
             for C in Cs]  # fmt: skip
    assert along[0] == alone[0]
    assert sum(along[1:]) <= 0.7 * sum(alone[1:])


def test_sample_weight_is_repetition():
    _, X, Y, _ = multiclass()
    times = np.arange(len(Y)) % 3
    weighted = StructuredSVM(MulticlassTask(3), C=5.0, tol=1e-6, random_state=0).fit(
        X, Y, sample_weight=times
    )
    repeated = StructuredSVM(MulticlassTask(3), C=5.0, tol=1e-6, random_state=0)
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=3e-6)
    assert weighted.w_ == pytest.approx(repeated.w_, abs=1e-2)


def test_nothing_to_learn():
    X = [np.ones((3, 2)), np.ones((2, 2))]
    svm = StructuredSVM(RankingTask()).fit(X, [np.zeros(3), np.ones(2)])
    assert svm.objective_ == 0
    assert svm.history_[-1]["gap"] == 0
    assert not svm.w_.any()


class Impatient(MulticlassTask):
    """Ctrl-C in the n-th exact pass."""

    separates_in_batches = True

    def __init__(self, n_classes, passes):
        super().__init__(n_classes)
        self.passes = passes

    def separate(self, X, Y, scores):
        self.passes -= 1
        if self.passes == 0:
            raise KeyboardInterrupt
        return super().separate(X, Y, scores)


def test_interruption_keeps_a_usable_model():
    task, X, Y, outputs = multiclass()
    svm = StructuredSVM(Impatient(3, 4), C=1000.0, tol=1e-9, random_state=0)
    with pytest.warns(InterruptedFitWarning, match="after 3 exact passes"):
        svm.fit(X, Y)
    assert svm.interrupted_
    assert len(svm.history_) == 3
    assert svm.objective_ == pytest.approx(
        primal_of(svm.w_.ravel(), rows_of_full_program(task, X, Y, outputs), 1000.0)
    )
    assert len(svm.predict(X)) == len(X)
    svm = StructuredSVM(Impatient(3, 2), tol=0.5, random_state=0)
    with pytest.warns(InterruptedFitWarning, match="after 1 exact pass;"):
        fitted = list(svm.path(X, Y, (1000.0, 3000.0)))
    assert [one.interrupted_ for one in fitted] == [True]


def test_too_few_epochs_are_not_silent():
    _, X, Y, _ = multiclass()
    svm = StructuredSVM(MulticlassTask(3), C=1000.0, max_epochs=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_epochs = 2"):
        svm.fit(X, Y)
    assert len(svm.history_) == 2


class Nearsighted(Choose):
    """Finds the best of the first candidates only, once the true scores separate them."""

    def argmax(self, x, scores, y=None):
        seen = 2 if np.abs(scores).max() > 0 else len(x)
        return super().argmax(x[:seen], scores[:seen], y)


class DeclaredNearsighted(Nearsighted):
    exact_argmax = False


def test_inexact_argmax_is_noticed_or_declared():
    X = [np.random.default_rng(i).normal(size=(6, 2)) for i in range(10)]
    Y = [5] * 5 + [0] * 5
    with pytest.raises(TaskError, match=r"loss-augmented argmax of X\[\d\] is not exact"):
        StructuredSVM(Nearsighted(), C=10.0, random_state=0).fit(X, Y)
    svm = StructuredSVM(DeclaredNearsighted(), C=10.0, random_state=0).fit(X, Y)
    assert not svm.history_[-1]["certified"]


class LooksAtThree(Choose):
    """Sees the candidates of the three largest absolute scores only."""

    exact_argmax = False

    def argmax(self, x, scores, y=None):
        seen = np.argsort(-np.abs(scores[:, 0]), kind="stable")[:3]
        losses = 0 if y is None else abs(seen - y)
        return int(seen[np.argmax(scores[seen, 0] + losses)])


def test_a_pass_that_finds_nothing_does_not_stall_the_fit():
    X = [np.random.default_rng([0, i]).normal(size=(8, 3)) for i in range(20)]
    Y = [int((x @ (1.0, 0.3, 0.0) + 0.1 * x[:, 2] ** 2).argmax()) for x in X]
    svm = StructuredSVM(LooksAtThree(), C=1000.0, tol=0.02, random_state=0).fit(X, Y)
    assert len(svm.history_) < 40


def test_bad_input():
    _, X, Y, _ = multiclass()
    task = MulticlassTask(3)
    for parameters, message in (
        ({"C": 0.0}, "C is 0.0"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"max_epochs": 0}, "max_epochs is 0"),
        *(({"active": active}, "active is .*, which has") for active in ("x", ["word"])),
    ):
        with pytest.raises(ValueError, match=message):
            StructuredSVM(task, **parameters).fit(X, Y)
    svm = StructuredSVM(task)
    with pytest.raises(TaskError, match=r"X\[3\] has NaN features, which a linear function"):
        svm.fit(np.where(np.arange(25)[:, None] == 3, np.nan, X), Y)


def test_a_negative_feature_of_a_bounded_kind_is_named():
    task, X, Y, _ = chains(Chain())
    X[2][1][0, 0] = -0.5
    with pytest.raises(TaskError, match=r"parts\(X\[2\]\) has a negative feature for kind 'edge'"):
        StructuredSVM(task).fit(X, Y)


def test_features_far_from_zero_are_warned_of():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        StructuredSVM(MulticlassTask(2), C=10.0, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="far from 0 .*StandardScaler"):
        StructuredSVM(MulticlassTask(2), C=10.0, random_state=0).fit(X + 20.0, y)


def test_a_kind_without_parts_is_no_source_of_warnings():
    random = np.random.default_rng(0)
    X = [GraphInput(random.normal(size=(3, 2)), np.zeros((0, 2), int)) for _ in range(5)]
    Y = [(x.nodes[:, 0] > 0).astype(int) for x in X]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        svm = StructuredSVM(GraphTask(2), C=10.0).fit(X, Y)
    assert svm.score(X, Y) == 0.0  # minus the loss


# -- indices of active features -----------------------------------------------------------------


class BoundedChain(ChainTask):
    """A chain whose scores of tags must not be negative."""

    def __init__(self, n_tags):
        super().__init__(n_tags)
        self.kinds = {**self.kinds, "token": PartKind(n_tags, response=(0.0, 1.0))}


def sequences(rng, n=30, n_features=7):
    """0/1 features of tokens, some of which tell of the tag."""
    tables, Y = [], []
    for length in rng.integers(1, 6, size=n):
        tags = rng.integers(3, size=length)
        table = rng.random((length, n_features)) < 0.3
        table[:, :3] = (tags[:, None] == np.arange(3)) ^ (rng.random((length, 3)) < 0.15)
        tables.append(table)
        Y.append(tags)
    return tables, Y


@pytest.mark.parametrize("task_class", [ChainTask, BoundedChain])
def test_numbers_of_active_features_give_the_model_of_the_array(task_class):
    tables, Y = sequences(np.random.default_rng(0))
    rows = [active_features(table, 7) for table in tables]
    task = task_class(3)
    dense = StructuredSVM(task, C=20, tol=1e-7, random_state=0)
    dense.fit([table.astype(float) for table in tables], Y)
    thin = StructuredSVM(task, C=20, tol=1e-7, random_state=0, active=["token"]).fit(rows, Y)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=2e-7)
    assert np.allclose(thin.w_["token"], dense.w_["token"], atol=5e-3)
    for ours, theirs in zip(thin.predict(rows), dense.predict(
        [table.astype(float) for table in tables]), strict=True):  # fmt: skip
        assert np.array_equal(ours, theirs)
    # Features that training did not have count nothing.
    more = [np.column_stack((row, np.full(len(row), 99))) for row in rows]
    assert np.array_equal(np.concatenate(thin.predict(more)), np.concatenate(thin.predict(rows)))


def test_first_passes_in_runs_lead_to_the_same_optimum(monkeypatch):
    tables, Y = sequences(np.random.default_rng(1), n=60)
    rows = [active_features(table, 7) for table in tables]
    model = StructuredSVM(ChainTask(3), C=30, tol=1e-6, random_state=0, active=["token"])
    plain = model.fit(rows, Y).objective_
    n_plain = model.history_[-1]["oracle_calls"]
    assert n_plain == len(model.history_)
    monkeypatch.setattr(svm_run, "_MANY_EXAMPLES", 10)
    monkeypatch.setattr(svm_run, "_RUNS", 7)
    model.fit(rows, Y)
    assert model.objective_ == pytest.approx(plain, rel=2e-6)
    assert model.history_[-1]["gap"] <= 1e-6
    assert model.history_[-1]["oracle_calls"] == len(model.history_) + 3
    # Without them the first bound is 0.
    assert model.history_[0]["gap"] < 0.9


def test_the_variances_of_columns_beside_names_sum_to_five():
    rng = np.random.default_rng(0)
    rows = {"token": rng.integers(0, 9, (40, 3)), "vector": rng.normal(size=(40, 50))}
    stack = StackedParts(rows, dict.fromkeys(rows, np.arange(0, 41, 10)))
    kinds = dict.fromkeys(rows, PartKind(2))
    for active, total in ((["token"], 5.0), ([], 50.0)):
        design = designs_of(kinds, stack, active)["vector"]
        assert np.isclose(design.matrix(rows["vector"]).var(axis=0).sum(), total)
