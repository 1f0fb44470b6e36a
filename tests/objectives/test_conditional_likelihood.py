"""The boosted CRF: gradients by differences, optima by another solver, gaps that are honest."""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import sparse
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from structboost import ChainTask, EnumeratedTask, MatchingTask, MulticlassTask, StructBoost
from structboost.contract.calls import stacked
from structboost.contract.parts import StackedParts
from structboost.contract.separation import ListedOutputs
from structboost.learners import ActiveFeatureFamily, active_features
from structboost.learners.terms import Terms
from structboost.objectives import ConditionalLikelihood
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from tests.helpers.refusals import refused


def chains(rng):
    """Sequences whose tokens have three 0/1 features, one of them telling of the tag."""
    X, Y = [], []
    for n in rng.integers(1, 6, size=12):
        tags = rng.integers(3, size=n)
        table = rng.random((n, 3)) < 0.4
        table[:, 0] = (tags == 0) ^ (rng.random(n) < 0.2)
        X.append(active_features(table, 3))
        Y.append(tags)
    return X, Y


def master_with_columns(rng, X, Y, sparse_answers):
    """A master of chains with ten random columns, of two terms each."""
    task = ChainTask(3)
    stack = stacked(task, X)
    shares = rng.random(len(X))
    problem = Problem(
        task, X, Y, stack.offsets, shares / shares.sum(), np.random.RandomState(0)
    )  # fmt: skip
    master = ConditionalLikelihood().start(problem, 5.0)
    terms = {}
    for kind, rows in stack.rows.items():
        answers = rng.integers(-1, 2, size=(4, len(rows))).astype(np.int8)
        master.add_responses(kind, sparse.csr_array(answers) if sparse_answers else answers)
        columns = np.arange(10) if kind == "token" else np.arange(10)[::-1]
        channels = rng.integers(task.kinds[kind].n_channels, size=10)
        terms[kind] = Terms(columns, rng.integers(4, size=10), channels, rng.normal(size=10))
    master.add_columns(terms, 10)
    return master


@pytest.mark.parametrize("sparse_answers", [False, True])
def test_the_gradient_is_that_of_the_differences(sparse_answers):
    rng = default_rng(3)
    X, Y = chains(rng)
    master = master_with_columns(rng, X, Y, sparse_answers)
    weights = rng.random(10)
    _, gradient = master.value_and_gradient(weights)
    for j in range(10):
        step = np.zeros(10)
        step[j] = 1e-5
        up, down = (master.value_and_gradient(weights + s)[0] for s in (step, -step))
        assert gradient[j] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-7)


def test_too_many_listed_outputs_are_named(monkeypatch):
    monkeypatch.setattr(ListedOutputs, "most", 23)
    X, Y = [np.ones((3, 3, 1)), np.ones((4, 4, 1))], [np.arange(3), np.arange(4)]
    model = StructBoost(MatchingTask(), C=1, formulation="log", max_rounds=1)
    refused(r"lists more than 23 outputs.*another formulation", model.fit, X, Y)
    # The argmax may look at more.
    model.set_params(formulation="one_slack").fit(X, Y)
    monkeypatch.setattr(ListedOutputs, "most", 24)
    model.set_params(formulation="log").fit(X, Y)


def test_the_optimum_is_that_of_another_solver():
    rng = default_rng(0)
    table = (rng.random((80, 6)) < 0.5).astype(float)
    Y = (table @ [2.0, 1.0, 0.5, 0, 0, 0] + rng.normal(size=80) > 1.5).astype(int)
    Y += (rng.random(80) < 0.2).astype(int)
    C = 60.0
    task = MulticlassTask(3)
    model = StructBoost(
        task, C=C, tol=1e-6, formulation="log", weak_learner=ActiveFeatureFamily, max_rounds=60
    ).fit(active_features(table), Y)
    # The constant is a weak learner like the others.
    design = np.column_stack((table, np.ones(80)))
    # Since scikit-learn 1.8 the ratio alone says which penalty it is.
    kind = {} if LogisticRegression().penalty == "deprecated" else {"penalty": "elasticnet"}
    settings = {"solver": "saga", "fit_intercept": False, "tol": 1e-9, "max_iter": 20_000}
    rival = LogisticRegression(C=C / 80, l1_ratio=1, **kind, **settings).fit(design, Y)
    scores = design @ rival.coef_.T
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(80), Y]
    optimum = np.abs(rival.coef_).sum() + C * losses.mean()
    assert model.objective_ == pytest.approx(optimum, rel=2e-6)
    # Every bound is one, and the last is near.
    assert all(entry["bound"] <= optimum * (1 + 1e-9) for entry in model.history_)
    assert model.history_[-1]["gap"] <= 1e-6
    assert model.history_[-1]["certified"]
    # The probabilities of the parts are those of the classes.
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = np.concatenate(model.predict_marginals(active_features(table)))
    assert np.allclose(found, expected, atol=2e-3)


def test_the_bound_holds_where_the_model_is_empty_and_C_is_found():
    rng = default_rng(2)
    X, Y = rng.normal(size=(40, 2)), rng.integers(3, size=40)
    task = EnumeratedTask(["a", "b", "c"], np.eye(3))
    names = [task.listed[k] for k in Y]
    with pytest.warns(UserWarning, match="The model is empty"):
        empty = StructBoost(task, C=1e-3, formulation="log").fit(X, names)
    assert empty.objective_ == pytest.approx(1e-3 * np.log(3))
    assert empty.history_[-1]["gap"] <= 1e-9
    smallest = empty.history_[-1]["smallest_C"]
    assert np.isfinite(smallest)


class Unlisted(MatchingTask):
    """A task that neither lists its outputs nor sums over them."""

    def outputs(self, x):
        return None


def test_a_task_without_marginals_is_named():
    x = np.zeros((2, 2, 1))
    refused(
        "Unlisted has no marginals",
        StructBoost(Unlisted(unmatched=True), C=1.0, formulation="log").fit,
        [x],
        [np.array([0, 1])],
    )


class NoRows:
    """A table without single rows, as sparse ones of scipy before 1.15."""

    shape = (8, 2)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, i):
        raise NotImplementedError("there are no single rows")


def test_inputs_that_a_task_does_not_read_are_not_taken_apart():
    rng = default_rng(0)
    y, scores = rng.integers(0, 3, 8), rng.normal(size=(8, 3))
    task = MulticlassTask(3)
    (kind,) = task.kinds
    stack = StackedParts({kind: scores}, {kind: np.arange(9)})
    found = Likelihood.of(task, NoRows(), y, stack.offsets).losses(stack.times(2.0).rows)
    assert found == pytest.approx(-log_softmax(2.0 * scores, axis=1)[np.arange(8), y])
