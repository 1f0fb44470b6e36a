"""StructuredSVM against an independent solver on the full program, and its certificate."""

import numpy as np
import pytest
from numpy.random import default_rng
from pandas import DataFrame
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from structboost import ChainTask
from structboost.contract.parts import PartKind, StackedParts, deeply_equal
from structboost.errors import InterruptedFitWarning
from structboost.learners import active_features
from structboost.linear.designs import designs_of
from structboost.linear.structured_svm import StructuredSVM
from structboost.tasks import BinaryTask, GraphInput, GraphTask, MulticlassTask, RankingTask
from tests.helpers.dense_features import dense_features
from tests.helpers.engine_tasks import PressingTask
from tests.helpers.listed_outputs import Choose, Pairs, candidates, pairs
from tests.helpers.problems import quadratic_optimum
from tests.helpers.refusals import refused

# From code and matrix products for Zen 3; those for any x86-64 give the same.
FIRST_WEIGHTS = ["-0x1.bc9bddc4d6c8fp-3", "-0x1.911b57b95d427p-7", "0x1.d5ad93406c9c8p-3"]


class FreePairs(Pairs):
    """The same without the bound on edges (but with a bias)."""

    kinds = {"node": PartKind(), "edge": PartKind()}


class SignedPairs(Pairs):
    """Features of edges may be negative."""

    def parts(self, x):
        return {"node": x[:2], "edge": x[2:]}


def classes(task, labels):
    X, y = make_classification(
        25, 4, n_informative=3, n_redundant=0, n_classes=len(labels), flip_y=0.2, random_state=1
    )
    task.outputs = lambda x: labels
    return task, X, np.array(labels)[y]


def unlike(task):
    """Labels that differ more often than not, so free weights of the edge would be negative."""
    X, _ = pairs(20)
    return task, X, [(k, k ^ (i % 4 > 0)) for i, k in enumerate(int(x[0, 0] > 0) for x in X)]


PROBLEMS = {
    "binary": classes(BinaryTask(), (-1, 1)),
    "multiclass": classes(MulticlassTask(3), (0, 1, 2)),
    "candidates": (Choose(), *candidates(20)),
    "bounded": unlike(Pairs()),
    "free": unlike(FreePairs()),
}
_, X_OF_THREE, Y_OF_THREE = PROBLEMS["multiclass"]


def joint_feature_map(task, x, y):
    """Psi(x, y), dense, kind after kind, with a bias row for kinds without bound, and its bounds.

    Weights of kinds with bounded scores are at least 0.
    """
    parts, flat, least = task.parts(x), [], []
    for kind, joint in dense_features(task, x, y).items():
        rows = np.asarray(parts[kind] if isinstance(parts, dict) else parts, dtype=float)
        is_free = task.kinds[kind].response[0] < 0
        if is_free:
            rows = np.column_stack((rows, np.ones(len(rows))))
        flat.append((rows.T @ joint).ravel())
        least.append(np.full(flat[-1].shape, -np.inf if is_free else 0.0))
    return np.concatenate(flat), np.concatenate(least)


def flat(w):
    return np.concatenate([v.ravel() for v in (w.values() if isinstance(w, dict) else [w])])


def rows_of_full_program(task, X, Y):
    """For each example the losses and the differences of joint features of all its outputs."""
    rows = []
    for x, y in zip(X, Y, strict=True):
        outputs = list(task.outputs(x))
        psi = np.array([joint_feature_map(task, x, z)[0] for z in outputs])
        truth, _ = joint_feature_map(task, x, y)
        rows.append((np.array([task.loss(y, z) for z in outputs]), truth - psi))
    return rows


def primal_of(w, rows, C):
    hinges = [max(0.0, float((losses - psi @ w).max())) for losses, psi in rows]
    return 0.5 * float(w @ w) + C * float(np.mean(hinges))


def independent_optimum(task, X, Y, C):
    """The program over all outputs, in weights and slacks, by a solver that knows no cuts."""
    rows = rows_of_full_program(task, X, Y)
    n, d = len(rows), rows[0][1].shape[1]
    slacks = np.repeat(np.eye(n), [len(psi) for _, psi in rows], axis=0)
    A = np.hstack((np.vstack([psi for _, psi in rows]), slacks))
    b = np.concatenate([losses for losses, _ in rows])
    costs, least = np.append(np.zeros(d), np.full(n, C / n)), np.zeros(d + n)
    least[:d] = joint_feature_map(task, X[0], Y[0])[1]
    _, found = quadratic_optimum(costs, np.arange(d + n) < d, A, b, least)
    return primal_of(found[:d], rows, C), rows


@pytest.mark.parametrize("name", PROBLEMS)
def test_fits_and_paths_have_the_certified_optimum_of_an_independent_solver(name):
    task, X, Y = PROBLEMS[name]
    svm = StructuredSVM(task, C=7.0, tol=1e-6, random_state=0)
    Cs = (0.5, 30.0, 3.0)
    alone = [clone(svm).set_params(C=C).fit(X, Y) for C in Cs[:2]]
    for C, fitted in zip(Cs[:2] + Cs, [*alone, *svm.path(X, Y, Cs)], strict=True):
        optimum, rows = independent_optimum(task, X, Y, C)
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


def test_a_path_reads_a_frame_once_and_each_model_has_its_columns(monkeypatch):
    conversions, convert = [], DataFrame.to_numpy
    monkeypatch.setattr(
        DataFrame, "to_numpy", lambda of, **how: conversions.append(of) or convert(of, **how)
    )
    path = StructuredSVM(MulticlassTask(2)).path(DataFrame({"a": [0, 1]}), [0, 1], (1.0, 2.0))
    assert [fitted.columns_ for fitted in path] == [["a"]] * 2
    assert len(conversions) == 1


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
    X, Y = X_OF_THREE, Y_OF_THREE
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


def test_interruption_of_a_path_keeps_a_usable_model():
    task, X, Y = PROBLEMS["multiclass"]
    svm = StructuredSVM(PressingTask(at=3), tol=1e-9, random_state=0)
    with pytest.warns(InterruptedFitWarning, match="after 3 exact passes"):
        (found,) = svm.path(X, Y, (1000.0, 3000.0))
    assert found.interrupted_
    assert len(found.history_) == 3
    primal = primal_of(found.w_.ravel(), rows_of_full_program(task, X, Y), 1000.0)
    assert found.objective_ == pytest.approx(primal)
    assert len(found.predict(X)) == len(X)


def test_too_few_epochs_are_not_silent():
    svm = StructuredSVM(MulticlassTask(3), C=1000.0, max_epochs=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_epochs = 2"):
        svm.fit(X_OF_THREE, Y_OF_THREE)
    assert len(svm.history_) == 2


class LooksAtThree(Choose):
    """Sees the candidates of the three largest absolute scores only."""

    exact_argmax = False

    def argmax(self, x, scores, y=None):
        seen = np.argsort(-np.abs(scores[:, 0]), kind="stable")[:3]
        losses = 0 if y is None else abs(seen - y)
        return int(seen[np.argmax(scores[seen, 0] + losses)])


def test_a_pass_that_finds_nothing_does_not_stall_the_fit():
    X = [default_rng([0, i]).normal(size=(8, 3)) for i in range(20)]
    Y = [int((x @ (1.0, 0.3, 0.0) + 0.1 * x[:, 2] ** 2).argmax()) for x in X]
    svm = StructuredSVM(LooksAtThree(), C=1000.0, tol=0.02, random_state=0).fit(X, Y)
    assert len(svm.history_) < 40
    assert not svm.history_[-1]["certified"]


def test_bad_input():
    for parameters, message in (
        ({"tol": 0.0}, "tol is 0.0"),
        *(({"active": active}, "active is .*, which has") for active in ("x", ["word"])),
    ):
        refused(message, StructuredSVM(MulticlassTask(3), **parameters).fit, X_OF_THREE, Y_OF_THREE)


def test_a_negative_feature_of_a_bounded_kind_is_named():
    task, X, Y = unlike(SignedPairs())
    X = [np.abs(x) for x in X]
    X[2][2, 0] = -0.5
    refused(
        r"parts\(X\[2\]\) has a negative feature for kind 'edge'", StructuredSVM(task).fit, X, Y
    )


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_kind_without_parts_is_no_source_of_warnings():
    random = default_rng(0)
    X = [GraphInput(random.normal(size=(3, 2)), np.zeros((0, 2), int)) for _ in range(5)]
    Y = [(x.nodes[:, 0] > 0).astype(int) for x in X]
    svm = StructuredSVM(GraphTask(2), C=10.0).fit(X, Y)
    assert svm.score(X, Y) == 0.0  # minus the loss


def test_features_far_from_0_are_warned_of():
    X, Y = default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    with pytest.warns(UserWarning, match="Features lie far from 0 .*StandardScaler"):
        StructuredSVM(MulticlassTask(2), C=10.0).fit(X + 20.0, Y)


# -- indices of active features -----------------------------------------------------------------


class BoundedChain(ChainTask):
    """A chain whose scores of tags must not be negative."""

    def __init__(self, n_tags):
        super().__init__(n_tags)
        self.kinds = {**self.kinds, "token": PartKind(n_tags, response=(0.0, 1.0))}


def sequences(rng):
    """0/1 features of tokens, some of which tell of the tag."""
    tables, Y = [], []
    for length in rng.integers(1, 6, size=30):
        tags = rng.integers(3, size=length)
        table = rng.random((length, 7)) < 0.3
        table[:, :3] = (tags[:, None] == np.arange(3)) ^ (rng.random((length, 3)) < 0.15)
        tables.append(table)
        Y.append(tags)
    return tables, Y


@pytest.mark.parametrize("task_class", [ChainTask, BoundedChain])
def test_numbers_of_active_features_give_the_model_of_the_array(task_class):
    tables, Y = sequences(default_rng(0))
    rows = [active_features(table, 7) for table in tables]
    task = task_class(3)
    dense = StructuredSVM(task, C=20, tol=1e-7, random_state=0)
    arrays = [table.astype(float) for table in tables]
    dense.fit(arrays, Y)
    thin = StructuredSVM(task, C=20, tol=1e-7, random_state=0, active=["token"]).fit(rows, Y)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=2e-7)
    assert np.allclose(thin.w_["token"], dense.w_["token"], atol=5e-3)
    assert deeply_equal(thin.predict(rows), dense.predict(arrays))
    # Features that training did not have count nothing.
    more = [np.column_stack((row, np.full(len(row), 99))) for row in rows]
    assert deeply_equal(thin.predict(more), thin.predict(rows))


def test_the_variances_of_columns_beside_names_sum_to_five():
    rng = default_rng(0)
    rows = {"token": rng.integers(0, 9, (40, 3)), "vector": rng.normal(size=(40, 50))}
    stack = StackedParts(rows, dict.fromkeys(rows, np.arange(0, 41, 10)))
    kinds = dict.fromkeys(rows, PartKind(2))
    for active, total in ((["token"], 5.0), ([], 50.0)):
        design = designs_of(kinds, stack, active)["vector"]
        assert np.isclose(design.matrix(rows["vector"]).var(axis=0).sum(), total)


def test_a_fit_has_the_same_bits_on_every_processor():
    rng = default_rng(0)
    X, y = rng.integers(-8, 9, size=(60, 19)) / 8, rng.integers(0, 3, size=60)
    w = StructuredSVM(MulticlassTask(3), C=10.0, random_state=0).fit(X, y).w_
    assert [value.hex() for value in w[0].tolist()] == FIRST_WEIGHTS
