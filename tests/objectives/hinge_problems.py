"""Hinge masters over given columns, and their optimum by a full linear program."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from structboost import MulticlassTask
from structboost.learners.terms import Terms
from structboost.objectives.base import Problem
from structboost.objectives.hinge import OneSlack
from structboost.objectives.m_slack import MSlack
from structboost.objectives.norm_bounded import NormBoundedHinge
from structboost.tasks import CodedTask
from structboost.tasks.classes import exhaustive_code
from structboost.training import Engine
from structboost.training.examples import ArrayTrainingSet
from structboost.training.oracle import ShardedOracle
from tests.helpers.problems import full_optimum

N, N_COLUMNS = 40, 14
TASKS = {"multiclass": MulticlassTask(3), "coded": CodedTask(exhaustive_code(3))}
# Formulation and task of every hinge master.
MASTERS = {
    "one_slack": (OneSlack(), "multiclass"),
    "printed": (OneSlack(stabilize=False), "multiclass"),
    "m_slack": (MSlack(), "multiclass"),
    "m_slack_single": (MSlack(), "multiclass"),
    "norm_bounded": (NormBoundedHinge(), "multiclass"),
    "norm_bounded_coded": (NormBoundedHinge(), "coded"),
}
_OPTIMA = {}


@dataclass
class GivenColumns:
    """A master, and what is known of its problem."""

    master: object
    responses: np.ndarray  # (columns, examples, channels)
    margins: np.ndarray  # F(x_i, y_i) - F(x_i, c): (columns, examples, classes)
    delta: np.ndarray  # (examples, classes)
    shares: np.ndarray  # of the examples in the risk
    bounds_norm: bool

    def objective(self, w, C):
        """In the units of the master: with the norm bounded, the sum of the slacks."""
        risk = self.shares @ (self.delta - np.tensordot(w, self.margins, 1)).max(axis=1)
        return N * risk if self.bounds_norm else w.sum() + C * risk

    def optimum(self, C, kept=slice(None)):
        margins = self.margins[kept]
        problem = margins.tobytes(), self.shares.tobytes(), C, self.bounds_norm
        if problem not in _OPTIMA:  # several masters have one problem
            norms = np.ones((1, len(margins))) if self.bounds_norm else None
            _OPTIMA[problem] = full_program(margins, self.delta, self.shares, C, norms)
        return _OPTIMA[problem]

    def edges(self):
        return (self.responses * self.master.duals()["x"]).sum(axis=(1, 2))


def margins_of(task, responses, y):
    """F(x_i, y_i) - F(x_i, c) of every column, shape (columns, examples, classes)."""
    scores = responses @ task.codes(y).codes.astype(float).T
    return scores[:, np.arange(len(y)), y][:, :, None] - scores


def full_program(margins, delta, shares, C, norms):
    """Optimum over a slack for each example, with a constraint for each example and class.

    With ``norms`` each of them is at most C, and the sum of the slacks is minimised.
    """
    n_columns, n, n_classes = margins.shape
    rows, slacks = margins.reshape(n_columns, -1).T, np.repeat(np.arange(n), n_classes)
    costs = (C if norms is None else n) * shares
    return full_optimum(rows, delta.ravel(), slacks, costs, norms, C)


def given_columns(name, C, seed=0):
    """A master with random columns, and weights of the examples.

    Columns have three terms each, or one if the name says single.
    """
    rng = np.random.default_rng(seed)
    formulation, task_name = MASTERS[name]
    task, X, y = TASKS[task_name], rng.normal(size=(N, 2)), rng.integers(0, 3, N)
    shares = rng.uniform(0.5, 1.5, N)
    shares /= shares.sum()
    examples = ArrayTrainingSet(task, X, y)
    oracle = ShardedOracle(examples, Engine("serial"), shares, {})
    master = formulation.start(
        Problem(task, X, y, examples.offsets, shares, check_random_state(0), oracle), C
    )
    # Learners that know something of the class, so that weights pay.
    codes = task.codes(y).codes.astype(float)
    truth = np.where(codes[y].T > 0, 1, -1)
    learners = np.concatenate(
        [np.where(rng.random(truth.shape) < 0.3, -truth, truth) for _ in range(N_COLUMNS)]
    )
    first = master.add_responses("x", learners.astype(np.int8))
    n_terms = 1 if name.endswith("single") else 3
    numbers = np.arange(n_terms * N_COLUMNS)
    columns, channels = numbers // n_terms, numbers % 3
    coefficients = rng.choice([0.5, 1.0], len(numbers))
    terms = Terms(columns, first + numbers, channels, coefficients)
    master.add_columns({"x": terms}, N_COLUMNS)
    responses = np.zeros((N_COLUMNS, N, 3))
    np.add.at(
        responses, (columns, slice(None), channels), coefficients[:, None] * learners[numbers]
    )
    margins = margins_of(task, responses, y)
    delta = (np.arange(3) != y[:, None]).astype(float)
    bounds_norm = isinstance(formulation, NormBoundedHinge)
    return GivenColumns(master, responses, margins, delta, shares, bounds_norm)
