"""MultiBoost.MO and .ECC against plain definitions and an independent solver; the stage-wise
AdaBoosts as printed."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp
from sklearn.datasets import load_wine

from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMOClassifier,
    MultiBoostECCClassifier,
    MulticlassTask,
)
from structboost.learners.stump import StumpFamily
from structboost.learners.terms import Terms
from structboost.objectives.master import RestrictedMaster
from structboost.objectives.norm_bounded import NormBoundedMaster
from structboost.objectives.stage_wise import StageWiseBooster
from structboost.tasks import CodedTask
from structboost.tasks.classes import coding_matrix, exhaustive_code, random_column
from tests.helpers.four_faces import CODED
from tests.helpers.problems import all_stumps, problem_of
from tests.objectives.hinge_problems import margins_of

# -- codings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_exhaustive_codes_are_all_splits(n_classes):
    code = exhaustive_code(n_classes)
    assert code.shape == (n_classes, 2 ** (n_classes - 1) - 1)
    assert len(np.unique(code * code[0], axis=1).T) == code.shape[1]
    # Any two words differ in 2^(n - 2) bits.
    distances = (code[:, None] != code[None]).sum(axis=2)
    assert set(distances[~np.eye(n_classes, dtype=bool)]) == {2 ** (n_classes - 2)}


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["ecoc", "one_vs_all", "random"])
@pytest.mark.parametrize("n_classes", [2, 3, 7, 8, 26])
def test_words_differ_and_columns_split(coding, n_classes):
    code = coding_matrix(coding, n_classes, np.random.RandomState(0))
    assert len(np.unique(code, axis=0)) == n_classes
    assert not (code == code[0]).all(axis=0).any()
    np.testing.assert_array_equal(code, coding_matrix(coding, n_classes, np.random.RandomState(0)))


@pytest.mark.parametrize(
    ("coding", "message"),
    [
        ("thin", "coding is 'thin'"),
        ([[1, 0], [1, 1], [0, 1]], r"coding has shape \(3, 2\)"),
        ([[1, 1], [1, 1], [-1, 1]], "same word for two classes"),
        ([[1, 1, 1], [-1, 1, -1], [1, 1, -1]], "a column of one sign"),
    ],
)
def test_bad_codings_are_named(coding, message):
    with pytest.raises(ValueError, match=message):
        coding_matrix(coding, 3, np.random.RandomState(0))


# -- the norm-bounded master ------------------------------------------------------------------


def random_master(pairs, theta, seed, n_columns=8):
    rng = default_rng(seed)
    y = rng.integers(0, 3, 20)
    task = MulticlassTask(3) if pairs == "outputs" else CodedTask(exhaustive_code(3))
    master = NormBoundedMaster(problem_of(task, y), theta, pairs)
    responses = rng.choice([-1, 1], size=(n_columns, 20)).astype(np.int8)
    master.add_responses("x", responses)
    terms = [
        (j, j, c, 1.0 if pairs == "bits" else float(sign))
        for j in range(n_columns)
        for c, sign in enumerate(random_column(3, np.random.RandomState(seed + j)))
    ]
    columns, learners, channels, coefficients = (
        np.array(column) for column in zip(*terms, strict=True)
    )
    master.add_columns({"x": Terms(columns, learners, channels, coefficients)}, n_columns)
    return master, y, responses, columns, learners, channels, coefficients


def plain_margins(pairs, y, responses, columns, learners, channels, coefficients):
    """Margins of every column on every pair, one by one."""
    scores = np.zeros((len(responses), 20, 3))
    for j, k, c, a in zip(columns, learners, channels, coefficients, strict=True):
        scores[j, :, c] += a * responses[k]
    if pairs == "bits":
        return (scores * exhaustive_code(3)[y][None]).reshape(len(responses), -1)
    return (scores[:, np.arange(20), y][:, :, None] - scores)[:, np.arange(3) != y[:, None]]


def least_log_loss(margins, theta, weights=1.0):
    """Least log of the exponential loss over ``w >= 0, sum(w) <= theta``, by SciPy."""

    def value_and_gradient(w):
        logs = np.log(weights) - w @ margins
        value = logsumexp(logs)
        return value, -margins @ np.exp(logs - value)

    n = len(margins)
    return minimize(
        value_and_gradient, np.full(n, theta / n / 2), jac=True, method="SLSQP",
        bounds=[(0, None)] * n, options={"ftol": 1e-14, "maxiter": 2000},
        constraints={"type": "ineq", "fun": lambda w: theta - w.sum()},
    ).fun  # fmt: skip


@given(st.sampled_from(["bits", "outputs"]), st.sampled_from([0.3, 2.0, 15.0]), st.integers(0, 500))
@example("outputs", 0.3, 144)  # a step takes all of theta, of which the optimum leaves some
@example("bits", 0.3, 203)  # where Newton is blocked, weight goes to the column without effect
@example("outputs", 15.0, 130)  # rounding hides what the last step gains
def test_master_reaches_an_independent_optimum(pairs, theta, seed):
    master, *problem = random_master(pairs, theta, seed)
    margins = plain_margins(pairs, *problem)
    master.solve(1e-8)
    assert master.weights.min() >= 0
    assert master.weights.sum() <= theta * (1 + 1e-12)
    u = np.exp(-master.weights @ margins)
    assert master.primal == pytest.approx(u.sum(), rel=1e-9)
    least = least_log_loss(margins, theta)
    assert np.log(master.primal) == pytest.approx(least, abs=1e-6)
    # Dual feasibility and zero gap: u' rho[h_j] <= r for all j with u normalised (fig. 1), and
    # strong duality.
    edges = margins @ (u / u.sum())
    assert edges.max() <= master.min_edge * (1 + 1e-9) + 1e-12
    assert master.primal - master.bound(0.0) <= 2e-8 * master.primal + 1e-12
    assert master.bound(edges.max() * 1.5) <= np.exp(least) * (1 + 1e-9)


@pytest.mark.parametrize("pairs", ["bits", "outputs"])
# All of the first is used, some of it is left.
@pytest.mark.parametrize(("start", "theta"), [(2.0, 5.0), (40.0, 0.4)])
def test_another_theta_keeps_proportions_and_reaches_its_optimum(pairs, start, theta):
    master, *problem = random_master(pairs, start, 3)
    margins = plain_margins(pairs, *problem)
    master.solve(1e-8)
    before = master.weights.copy()
    master.set_C(theta)
    np.testing.assert_allclose(master.weights, before * (theta / start), rtol=1e-12)
    assert master.primal == pytest.approx(np.exp(-master.weights @ margins).sum(), rel=1e-9)
    master.solve(1e-8)
    assert master.weights.sum() <= theta * (1 + 1e-12)
    assert np.log(master.primal) == pytest.approx(least_log_loss(margins, theta), abs=1e-6)


@pytest.mark.filterwarnings("error")
def test_a_stage_that_separates_no_pair_changes_nothing():
    y = np.arange(12) % 3
    booster = StageWiseBooster(problem_of(MulticlassTask(3), y), "outputs")
    booster.add_responses("x", np.where(y == 0, 1, -1)[None].astype(np.int8))
    # The same sign for all classes, then the first class against the others.
    signs = np.array([1.0, 1, 1, 1, -1, -1])
    terms = Terms(np.repeat([0, 1], 3), np.zeros(6, int), np.tile(np.arange(3), 2), signs)
    booster.add_columns({"x": terms}, 2)
    before = booster.primal
    booster.step(np.array([0]))
    assert (booster.primal, booster.weights.tolist()) == (before, [0.0, 0.0])
    booster.step(np.array([0, 1]))
    assert booster.primal < before
    assert booster.weights[0] == 0.0 < booster.weights[1]


def separable_master(theta, seed):
    """A master over 39 columns for part of the wines, before its first step."""
    X, y = load_wine(return_X_y=True)
    rng = default_rng(seed)
    rows = rng.permutation(len(y))[:120]
    stumps = StumpFamily(X[rows], (-1.0, 1.0))
    task = CodedTask(exhaustive_code(3))
    master = NormBoundedMaster(problem_of(task, y[rows]), theta, "bits")
    learners = [
        found.learner
        for found in stumps.price(rng.normal(size=(120, 3)) + exhaustive_code(3)[y[rows]], 13)
    ]
    n = len(learners)
    master.add_responses("x", stumps.responses(learners))
    each = np.arange(3 * n)
    master.add_columns({"x": Terms(each, each // 3, each % 3, np.tile((1.0, 1.0, 1.0), n))}, 3 * n)
    return master


@pytest.mark.parametrize("theta", [30.0, 300.0, 3000.0, 30000.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_large_norm_on_separable_data_has_the_largest_margin(theta, seed):
    """A large norm is a hard margin: its optimum is that of a linear program, except for the pairs'
    number over theta."""
    master = separable_master(theta, seed)
    n, margins = len(master.weights), master.matrix
    master.solve(1e-6)
    u = np.exp(-(master.weights @ margins - (master.weights @ margins).min()))
    u /= u.sum()
    edges = margins @ u
    assert theta * edges.max() - master.weights @ edges <= 1e-4
    n_pairs = margins.shape[1]
    program = linprog(
        np.append(np.zeros(n), -1.0), np.hstack((-margins.T, np.ones((n_pairs, 1)))),
        np.zeros(n_pairs),
        np.append(np.ones(n), 0.0)[None], [1.0], bounds=[(0, None)] * n + [(None, None)],
    )  # fmt: skip
    smallest = (master.weights @ margins).min() / theta
    assert -program.fun - np.log(n_pairs) / theta <= smallest <= -program.fun + 1e-9


@pytest.mark.parametrize("steps", [1, 150, 210, 290])
def test_weights_and_risk_agree_after_ctrl_c(steps, monkeypatch):
    """Also in the midst of the smaller norms on the way to a large one."""
    master = separable_master(3000.0, 0)
    # So sparse that Newton's method stops far away, after 200 steps, and the path of norms is
    # taken.
    master.weights[:2], master._rest = 1500.0, 0.0
    before, step = master._log_objective(master.weights), master._step
    left = iter(range(steps))

    def interrupted(*args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return step(*args)

    monkeypatch.setattr(master, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        master.solve(1e-9)
    assert master.C == 3000.0
    assert master.weights.sum() <= 3000.0 * (1 + 1e-9)
    after = master._log_objective(master.weights)
    assert after <= before
    assert master.risk == pytest.approx(np.exp(np.clip(after, -700.0, 700.0)))


# -- the faces --------------------------------------------------------------------------------


def test_stage_wise_mo_is_algorithm_1():
    """Best stump of each bit, weight from the error of all bits together."""
    # Continuous features: no two stumps tie.
    y = np.arange(60) % 3
    X = default_rng(0).normal(size=(60, 4)) + np.eye(3)[y] @ np.ones((3, 4))
    model = AdaBoostMOClassifier(max_rounds=5).fit(X, y)
    words = exhaustive_code(3)[y].astype(float)
    stumps = all_stumps(X)
    u = np.full(words.shape, 1 / words.size)
    scores = np.zeros(words.shape)
    for record in model.history_:
        u /= u.sum()
        edges = stumps @ (u * words)
        best = np.abs(edges).round(12).argmax(axis=0)
        h = stumps[best].T * np.sign(edges[best, range(words.shape[1])])
        error = u[words != h].sum()
        weight = 0.5 * np.log((1 - error) / error)
        scores += weight * h
        u *= np.exp(-weight * words * h)
        assert np.exp(-words * scores).sum() == pytest.approx(record["primal"], rel=1e-9)


def test_corrective_and_stage_wise_runs_have_the_same_codes():
    X, y = load_wine(return_X_y=True)
    stage_wise = AdaBoostECCClassifier(max_rounds=40, random_state=3).fit(X, y)
    corrective = MultiBoostECCClassifier(max_rounds=40, random_state=3).fit(X, y)
    assert corrective.theta_ == pytest.approx(stage_wise.model_.weights.sum())
    assert corrective.objective_ < stage_wise.objective_
    assert corrective.model_.weights.sum() == pytest.approx(corrective.theta_)


@pytest.mark.slow
@pytest.mark.parametrize("face", CODED[:5])
@pytest.mark.parametrize("loss", ["exponential", "hinge"])
def test_columns_without_weight_are_not_dropped(face, loss, monkeypatch):
    """A code that was drawn does not come again: the same run, however soon idle columns go
    elsewhere."""
    X, y = load_wine(return_X_y=True)
    more = {"loss": loss, "theta": 2.0} if hasattr(face, "loss") else {}
    model, runs = face(random_state=0, max_rounds=25, **more), []
    for idle in (1000, 0):
        monkeypatch.setattr(RestrictedMaster, "max_idle_rounds", idle)
        runs.append([record["primal"] for record in model.fit(X, y).history_])
    assert runs[0] == runs[1]


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.5, 4.0])
def test_the_best_code_is_certified(theta):
    """Bound and objective against an independent optimum over all stumps under all codes."""
    rng = default_rng(2)
    y = np.arange(15) % 3
    X = np.round(rng.normal(size=(15, 2)) + y[:, None], 1)
    weight = rng.uniform(0.5, 2.0, size=15)
    of_pairs = np.repeat(15 * weight / weight.sum(), 2)
    codes = product([-1.0, 1.0], repeat=3)
    columns = np.array([h[:, None] * code for code in codes for h in all_stumps(X)])
    margins = margins_of(MulticlassTask(3), columns, y)[:, np.arange(3) != y[:, None]]
    optimum = np.exp(least_log_loss(margins, theta, of_pairs))
    model = MultiBoostECCClassifier(theta=theta, codes="best", max_rounds=300).fit(
        X, y, sample_weight=weight
    )
    assert model.history_[-1]["gap"] <= 1e-4
    assert all(record["certified"] for record in model.history_)
    assert all(record["bound"] <= optimum * (1 + 1e-9) for record in model.history_)
    assert model.objective_ == pytest.approx(optimum, rel=2e-4)
