"""The hinge form of MultiBoost.MO and .ECC against the full linear program with a slack for every example."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import check_estimator

from structboost import CodedTask, MultiBoostECCClassifier, MultiBoostMOClassifier, MulticlassTask, StructBoost
from structboost.codings import exhaustive_code
from structboost.engines.examples import HomeExamples
from structboost.engines.local import Threads
from structboost.engines.shard_group import shard_group
from structboost.exceptions import SolverError
from structboost.masters.base import Problem
from structboost.masters.norm_bounded_hinge import NormBoundedHinge
from structboost.weak.pricing import BestCode, Tied

FACES = [
    MultiBoostMOClassifier(loss="hinge", theta=0.5, max_rounds=15),
    MultiBoostECCClassifier(loss="hinge", theta=1.0, max_rounds=10),
]
TASKS = {"coded": CodedTask(exhaustive_code(3)), "multiclass": MulticlassTask(3)}
RULES = {"coded": Tied, "multiclass": BestCode}
N, COLUMNS = 40, 12


def random_problem(name, theta, seed):
    """A master with random columns of three terms each, and the responses of those, (columns, examples, channels)."""
    rng = np.random.default_rng(seed)
    task = TASKS[name]
    y = rng.integers(0, 3, N)
    weights = rng.uniform(0.5, 1.5, N)
    X = rng.normal(size=(N, 2))
    weights = weights / weights.sum()
    examples = HomeExamples(task, X, y)
    group = shard_group(Threads(1), examples, weights, {})
    problem = Problem(task, X, y, examples.stack, weights, check_random_state(0), group)
    master = NormBoundedHinge().master(problem, theta)
    # Learners that know something of the class, so that weights pay.
    truth = task.codes(y).codes[y].T if name == "coded" else 2 * np.eye(3, dtype=int)[y].T - 1
    learners = np.concatenate([np.where(rng.random(truth.shape) < 0.3, -truth, truth) for _ in range(COLUMNS)])
    first = master.add_responses("x", learners.astype(np.int8))
    columns = np.repeat(np.arange(COLUMNS), 3)
    channels = np.tile(np.arange(3), COLUMNS)
    terms = (columns, first + np.arange(3 * COLUMNS), channels, rng.choice([0.5, 1.0], 3 * COLUMNS))
    master.add_columns({"x": terms}, COLUMNS)
    responses = np.zeros((COLUMNS, N, 3))
    np.add.at(responses, (columns, slice(None), channels), terms[3][:, None] * learners)
    return master, responses, y, weights / weights.mean()


def margins_of(name, responses, y):
    """F(x_i, y_i) - F(x_i, c) of every column, shape (columns, examples, classes)."""
    scores = responses @ TASKS[name].codes(y).codes.astype(float).T
    return scores[:, np.arange(len(y)), y][:, :, None] - scores


def full_program(margins, y, weights, theta):
    """Optimum over a slack for each example, a constraint for each example and class."""
    n_columns, n, n_classes = margins.shape
    rows = np.hstack((-margins.reshape(n_columns, -1).T, -np.repeat(np.eye(n), n_classes, axis=0)))
    norm = np.concatenate((np.ones(n_columns), np.zeros(n)))
    delta = (np.arange(n_classes) != np.asarray(y)[:, None]).ravel()
    answer = linprog(
        np.concatenate((np.zeros(n_columns), weights)), np.vstack((rows, norm)), np.append(-delta.astype(float), theta),
        method="highs",
    )  # fmt: skip
    assert answer.status == 0
    return answer.fun


def hinge_sum(margins, w, y, weights):
    delta = np.arange(margins.shape[2]) != np.asarray(y)[:, None]
    return weights @ (delta - np.tensordot(w, margins, 1)).max(axis=1)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("theta", [1e-3, 0.2, 1.5, 30.0, 1e5])
@pytest.mark.parametrize("seed", range(3))
def test_master_reaches_an_independent_optimum(name, theta, seed):
    master, responses, y, weights = random_problem(name, theta, seed)
    master.solve(1e-7)
    margins = margins_of(name, responses, y)
    optimum = full_program(margins, y, weights, theta)
    assert master.weights.min() >= 0
    assert master.weights.sum() <= theta * (1 + 1e-12)
    assert master.primal == pytest.approx(hinge_sum(margins, master.weights, y, weights), rel=1e-9, abs=1e-9)
    assert master.primal == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    # Dual feasibility, and bounds that hold.
    duals = master.duals()["x"]
    edges = (responses * duals).sum(axis=(1, 2))
    assert edges.max() <= master.min_edge + 1e-7
    assert master.bound(0.0) <= optimum * (1 + 1e-9) + 1e-9
    assert master.bound(0.0) >= optimum - 1e-6 * max(1.0, optimum)
    assert master.bound(2.0 * edges.max()) <= optimum + 1e-9


@pytest.mark.parametrize("name", TASKS)
def test_theta_may_change(name):
    master, responses, y, weights = random_problem(name, 0.2, 0)
    margins = margins_of(name, responses, y)
    for theta in (0.2, 1.5, 0.01):
        master.set_C(theta)
        master.solve(1e-7)
        assert master.weights.sum() <= theta * (1 + 1e-12)
        assert master.primal == pytest.approx(full_program(margins, y, weights, theta), rel=1e-6)


def test_columns_may_go():
    master, responses, y, weights = random_problem("coded", 1.5, 0)
    master.solve(1e-7)
    before, kept = master.primal, master.weights > 0
    assert not kept.all()
    master.keep_columns(kept)
    master.solve(1e-7)
    assert master.primal == pytest.approx(before, rel=1e-6)
    assert master.primal == pytest.approx(full_program(margins_of("coded", responses[kept], y), y, weights, 1.5))


def test_answers_of_the_solver_are_checked(monkeypatch):
    master, *_ = random_problem("coded", 1.5, 0)
    master.solve(1e-3)
    answer = master._program._highs.getSolution()
    wrong = type("Wrong", (), {"col_value": np.zeros(len(answer.col_value)), "row_dual": answer.row_dual})

    class Highs:
        def __init__(self, highs):
            self.highs = highs

        def __getattr__(self, name):
            return (lambda: wrong) if name == "getSolution" else getattr(self.highs, name)

    monkeypatch.setattr(master._program, "_highs", Highs(master._program._highs))
    with pytest.raises(SolverError, match=r"primal .* and dual .* differ"):
        master.solve(1e-3)


def all_stumps(X):
    """Answers of all stumps and the constants, each with its opposite."""
    below = [X[:, f] <= t for f in range(X.shape[1]) for t in np.unique(X[:, f])]
    return np.array([sign * np.where(b, 1.0, -1.0) for b in below for sign in (1, -1)])


@pytest.mark.parametrize("name", TASKS)
def test_the_gap_closes_and_bounds_hold_over_the_family(name):
    rng = np.random.default_rng(3)
    y = np.arange(36) % 3
    X = np.round(rng.normal(size=(36, 2)) + 0.8 * np.eye(3)[y][:, :2], 0)
    trainer = StructBoost(
        TASKS[name], C=1.2, tol=1e-4, max_rounds=400, formulation=NormBoundedHinge(), pricing=RULES[name](),
        columns_per_channel=1,
    ).fit(X, y)  # fmt: skip
    last = trainer.history_[-1]
    assert last["gap"] <= 1e-4
    assert last["certified"]
    assert 0 < last["primal"] < 36
    assert trainer.model_.weights.sum() <= 1.2 * (1 + 1e-12)
    primals = [record["primal"] for record in trainer.history_]
    assert primals == sorted(primals, reverse=True)
    # All columns that the rule could make: a stump for each bit, or a stump with any code.
    stumps = np.unique(all_stumps(X), axis=0)
    if name == "coded":
        # A sum over bits, one stump each under a common weight: relaxed, the bits are free of one another but for
        # their weight, which is the same.
        optimum = tied_program(stumps, y, 1.2)
    else:
        codes = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
        columns = np.array([stump[:, None] * code for stump in stumps for code in codes])
        optimum = full_program(margins_of(name, columns, y), y, np.ones(36), 1.2)
    assert max(record["bound"] for record in trainer.history_) <= optimum * (1 + 1e-5)
    assert last["primal"] >= optimum * (1 - 1e-7)


def tied_program(stumps, y, theta):
    """Each bit mixes its stumps with weights of sum theta: every such mixture is one of tied columns, and back."""
    words = exhaustive_code(3).astype(float)
    n, n_stumps = len(y), len(stumps)
    # Margin of bit l on class c: (M(y_i, l) - M(c, l)) h(x_i).
    columns = np.zeros((3 * n_stumps, n, 3))
    for bit in range(3):
        signs = words[y, bit][:, None] - words[None, :, bit]
        columns[bit * n_stumps : (bit + 1) * n_stumps] = stumps[:, :, None] * signs
    rows = np.hstack((-columns.reshape(len(columns), -1).T, -np.repeat(np.eye(n), 3, axis=0)))
    norms = np.hstack((np.kron(np.eye(3), np.ones(n_stumps)), np.zeros((3, n))))
    delta = (np.arange(3) != y[:, None]).ravel().astype(float)
    cost = np.concatenate((np.zeros(len(columns)), np.ones(n)))
    answer = linprog(cost, np.vstack((rows, norms)), np.append(-delta, [theta] * 3), method="highs")
    assert answer.status == 0
    return answer.fun


@pytest.mark.parametrize("face", FACES, ids=lambda face: type(face).__name__)
@pytest.mark.parametrize("load", [load_iris, load_wine], ids=["iris", "wine"])
def test_faces_learn_and_come_back_from_files(face, load, tmp_path):
    X, y = load(return_X_y=True)
    face = clone(face).set_params(max_rounds=40).fit(X[::2], y[::2])
    assert face.score(X[1::2], y[1::2]) > 0.85
    assert face.model_.weights.sum() <= face.theta_ * (1 + 1e-12)
    face.save(tmp_path / "model")
    loaded = type(face).load(tmp_path / "model")
    assert loaded.loss == "hinge"
    np.testing.assert_array_equal(loaded.decision_function(X), face.decision_function(X))
    scores = face.model_.scores(X[::2])
    by_class = face.task_.class_scores(scores) if isinstance(face.task_, CodedTask) else scores
    rows = np.arange(len(scores))
    losses = (by_class + (np.arange(3) != y[::2, None])).max(axis=1) - by_class[rows, y[::2]]
    assert face.objective_ == pytest.approx(losses.sum(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"loss": "squared"}, "loss is 'squared'"), ({"theta": -1.0}, "theta is -1.0"), ({"theta": "x"}, "theta is 'x'")],
)
@pytest.mark.parametrize("face", [MultiBoostMOClassifier, MultiBoostECCClassifier])
def test_bad_parameters_are_named(face, parameters, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        face(**{"loss": "hinge", **parameters}).fit(X, y)


def test_a_bad_bound_is_named():
    trainer = StructBoost(MulticlassTask(2), C=float("inf"), formulation=NormBoundedHinge())
    with pytest.raises(ValueError, match="C is inf"):
        trainer.fit(np.eye(2), [0, 1])


# A small theta: where the training set can be had without loss, the class weights that one of the checks wants to see
# at work are of no matter.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("face", FACES, ids=lambda face: type(face).__name__)
def test_the_whole_scikit_learn_battery(face):
    results = check_estimator(face, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) >= 62
