"""StructuredSVM against an independent solver on the full program, and its certificate."""

import itertools
import warnings

import highspy
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import LinearSVC

from structboost.contract.parts import PartKind
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.errors import InterruptedFitWarning, TaskError
from structboost.linear.structured_svm import StructuredSVM
from structboost.tasks import BinaryTask, GraphInput, GraphTask, MulticlassTask, RankingTask
from structboost.tasks.ranking import PairOrder
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


def swapped_pairs(y):
    """Every set of swapped pairs of a query."""
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
    for swaps in itertools.product((0, 1), repeat=len(pairs)):
        counts = np.zeros(len(y))
        for (i, j), swap in zip(pairs, swaps, strict=True):
            counts[i] += (0.5 - swap) / len(pairs)
            counts[j] -= (0.5 - swap) / len(pairs)
        yield PairOrder(counts, sum(swaps) / len(pairs))


def ranking():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(n, 3)) for n in (3, 4, 3)]
    Y = [np.array([0, 1, 2]), np.array([0, 1, 1, 0]), np.array([1, 0, 0])]
    return RankingTask(), X, Y, [list(swapped_pairs(y)) for y in Y]


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
    "ranking": ranking,
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
    """The QP over all outputs, in weights and slacks, by the active-set method of HiGHS."""
    rows = rows_of_full_program(task, X, Y, outputs)
    n, d = len(rows), rows[0][1].shape[1]
    A = np.vstack(
        [
            np.hstack((psi, np.repeat(np.eye(n)[[i]], len(psi), 0)))
            for i, (_, psi) in enumerate(rows)
        ]
    )
    b = np.concatenate([losses for losses, _ in rows])
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = d + n, len(b)
    lp.col_cost_ = np.concatenate((np.zeros(d), np.full(n, C / n)))
    lp.col_lower_ = np.concatenate((np.where(bounded_weights(task, X), 0.0, -np.inf), np.zeros(n)))
    lp.col_upper_ = np.full(d + n, np.inf)
    lp.row_lower_, lp.row_upper_ = b, np.full(len(b), np.inf)
    sparse = csr_matrix(A)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = (
        sparse.indptr,
        sparse.indices,
        sparse.data,
    )
    model = highspy.HighsModel()
    model.lp_ = lp
    model.hessian_.dim_, model.hessian_.format_ = d + n, highspy.HessianFormat.kTriangular
    model.hessian_.start_ = np.minimum(np.arange(d + n + 1), d)
    model.hessian_.index_, model.hessian_.value_ = np.arange(d), np.ones(d)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return solver.getInfo().objective_function_value, rows


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("C", [0.5, 30.0])
@pytest.mark.parametrize("average", [True, False])
def test_objective_and_certificate_against_independent_solver(name, C, average):
    task, X, Y, outputs = PROBLEMS[name]()
    optimum, rows = independent_optimum(task, X, Y, outputs, C)
    svm = StructuredSVM(task, C=C, tol=1e-6, random_state=0, average=average).fit(X, Y)
    slip = 1e-7 * (1 + optimum)
    for record in svm.history_:
        assert record["bound"] <= optimum + slip
        assert optimum <= record["primal"] + slip
    assert svm.objective_ == pytest.approx(optimum, rel=1e-5, abs=1e-7)
    assert svm.history_[-1]["gap"] <= 1e-6
    assert svm.objective_ == pytest.approx(primal_of(flat(svm.w_), rows, C), rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_path_over_c_is_as_certified_as_fits_alone(name):
    task, X, Y, outputs = PROBLEMS[name]()
    svm = StructuredSVM(task, C=7.0, tol=1e-6, random_state=0)
    Cs = (0.5, 30.0, 3.0)
    for C, fitted in zip(Cs, svm.path(X, Y, Cs), strict=True):
        optimum, rows = independent_optimum(task, X, Y, outputs, C)
        slip = 1e-7 * (1 + optimum)
        for record in fitted.history_:
            assert record["bound"] <= optimum + slip
            assert optimum <= record["primal"] + slip
        assert fitted.history_[-1]["gap"] <= 1e-6
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


def test_bound_on_edges_matters_and_is_kept():
    bounded, free = (
        StructuredSVM(task, C=30.0, random_state=0).fit(*chains(task)[1:3])
        for task in (Chain(), FreeChain())
    )
    assert bounded.w_["edge"].shape == (3, 1)
    assert free.w_["edge"].shape == (4, 1)
    assert (bounded.w_["edge"] >= 0).all()
    assert (bounded.w_["edge"] == 0).any()
    assert free.w_["edge"][:3].min() < -0.01
    assert bounded.objective_ > 1.01 * free.objective_


@pytest.mark.slow
def test_equals_liblinear_on_more_rows():
    X, y = make_classification(600, 20, n_informative=8, n_classes=5, flip_y=0.1, random_state=0)
    for C in (1.0, 1000.0):
        svm = StructuredSVM(MulticlassTask(5), C=C, random_state=0).fit(X, y)
        peer = LinearSVC(
            C=C / len(y), tol=1e-8, max_iter=1_000_000, multi_class="crammer_singer", random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            peer.fit(X, y)
        w = np.vstack((peer.coef_.T, peer.intercept_))
        margins = X @ w[:-1] + w[-1] + 1.0
        rows = np.arange(len(y))
        margins[rows, y] -= 1.0
        peer_objective = 0.5 * (w**2).sum() + C * np.mean(margins.max(axis=1) - margins[rows, y])
        assert svm.history_[-1]["bound"] <= peer_objective
        assert peer_objective * (1 - 1e-3) <= svm.objective_ <= peer_objective * (1 + 1e-3)
        assert svm.history_[-1]["gap"] <= 1e-3


@pytest.mark.slow
def test_history_is_monotone_and_complete():
    _, X, Y, _ = multiclass()
    svm = StructuredSVM(MulticlassTask(3), C=1000.0, tol=1e-6, random_state=0).fit(X, Y)
    primals = [record["primal"] for record in svm.history_]
    bounds = [record["bound"] for record in svm.history_]
    assert len(primals) > 2
    assert primals == sorted(primals, reverse=True)
    assert bounds == sorted(bounds)
    assert svm.objective_ == primals[-1]
    assert set(svm.history_[0]) == {
        "round", "primal", "bound", "gap", "certified", "cuts", "columns", "oracle_calls",
        "seconds",
    }  # fmt: skip
    assert svm.history_[-1]["certified"]


def test_deterministic_per_seed():
    task, X, Y, _ = candidates()
    first, second = (StructuredSVM(task, C=100.0, random_state=7).fit(X, Y) for _ in range(2))
    other = StructuredSVM(task, C=100.0, random_state=8).fit(X, Y)
    assert np.array_equal(first.w_, second.w_)
    assert [r["cuts"] for r in first.history_] == [r["cuts"] for r in second.history_]
    assert other.objective_ == pytest.approx(first.objective_, rel=1e-3)


def test_predictions():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 3)) for _ in range(80)]
    Y = [int(np.argmax(x @ [1.0, -2.0, 0.5])) for x in X]
    svm = StructuredSVM(Choose(), C=1000.0, random_state=0).fit(X[:60], Y[:60])
    assert svm.score(X[60:], Y[60:]) > -0.3
    assert all(isinstance(y, int) for y in svm.predict(X[60:]))
    queries = [rng.normal(size=(n, 2)) for n in (10, 1, 6)]
    relevance = [(q[:, 0] > 0).astype(int) for q in queries]
    ranker = StructuredSVM(RankingTask(), C=100.0, random_state=0).fit(queries, relevance)
    assert [len(scores) for scores in ranker.predict(queries)] == [10, 1, 6]
    assert ranker.score(queries, relevance) == 0


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


def test_a_path_ends_where_it_is_interrupted():
    _, X, Y, _ = multiclass()
    svm = StructuredSVM(Impatient(3, 2), tol=0.5, random_state=0)
    with pytest.warns(InterruptedFitWarning, match="after 1 exact pass;"):
        fitted = list(svm.path(X, Y, (1000.0, 3000.0)))
    assert [one.interrupted_ for one in fitted] == [True]


def test_interruption_before_there_is_a_model():
    _, X, Y, _ = multiclass()
    svm = StructuredSVM(Impatient(3, 1))
    with pytest.raises(KeyboardInterrupt):
        svm.fit(X, Y)
    assert not hasattr(svm, "w_")


def test_too_few_epochs_are_not_silent():
    _, X, Y, _ = multiclass()
    svm = StructuredSVM(MulticlassTask(3), C=1000.0, max_epochs=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_epochs = 2"):
        svm.fit(X, Y)
    assert len(svm.history_) == 2


def test_progress_bar(capsys):
    _, X, Y, _ = multiclass()
    StructuredSVM(MulticlassTask(3), verbose=1, random_state=0).fit(X, Y)
    captured = capsys.readouterr()
    assert "objective" in captured.err
    assert captured.out == ""


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


class OneShort(MulticlassTask):
    separates_in_batches = True

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        return Separation(found.losses[:-1], found.differences, found.indptr)


class NanLoss(MulticlassTask):
    separates_in_batches = True

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        found.losses[4] = np.nan
        return found


def test_bad_input():
    _, X, Y, _ = multiclass()
    task = MulticlassTask(3)
    for parameters, message in (
        ({"C": 0.0}, "C is 0.0"),
        ({"C": -1.0}, "C is -1.0"),
        ({"C": np.nan}, "C is nan"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"max_epochs": 0}, "max_epochs is 0"),
        ({"max_epochs": 1.5}, "max_epochs is 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            StructuredSVM(task, **parameters).fit(X, Y)
    with pytest.raises(TypeError, match="subclass of Task"):
        StructuredSVM("multiclass").fit(X, Y)
    with pytest.raises(TypeError, match="C is '1'"):
        StructuredSVM(task, C="1").fit(X, Y)
    svm = StructuredSVM(task)
    with pytest.raises(NotFittedError, match="call fit"):
        svm.predict(X)
    with pytest.raises(ValueError, match="X has 25 examples and Y 24"):
        svm.fit(X, Y[:-1])
    with pytest.raises(ValueError, match="X is empty"):
        svm.fit([], [])
    with pytest.raises(TaskError, match=r"X\[3\] has NaN features, which a linear function"):
        svm.fit(np.where(np.arange(25)[:, None] == 3, np.nan, X), Y)
    with pytest.raises(TaskError, match=r"Y\[0\] is 3"):
        svm.fit(X, np.full(25, 3))
    with pytest.raises(ValueError, match=r"sample_weight\[2\] is -1"):
        svm.fit(X, Y, sample_weight=np.where(np.arange(25) == 2, -1.0, 1.0))
    svm.fit(X, Y)
    with pytest.raises(ValueError, match="trained on 4 features"):
        svm.predict(X[:, :3])
    with pytest.raises(ValueError, match="X is empty"):
        svm.predict([])


def test_broken_tasks():
    _, X, Y, _ = multiclass()
    with pytest.raises(TaskError, match="separate gave 24 outputs for 25 examples"):
        StructuredSVM(OneShort(3)).fit(X, Y)
    probed = type("Probed", (OneShort,), {"separates_in_batches": False})
    with pytest.raises(TaskError, match="separate gave 0 outputs for 1 examples"):
        StructuredSVM(probed(3)).fit(X, Y)
    with pytest.raises(
        TaskError, match=r"loss-augmented argmax of X\[4\] has a loss or joint feature that is not"
    ):
        StructuredSVM(NanLoss(3)).fit(X, Y)
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
