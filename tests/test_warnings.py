"""Fits that did not converge, or that learned one output, warn; the first compilation is told."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.exceptions import ConvergenceWarning

from structboost import (
    ChainTask,
    GraphTask,
    MatchingTask,
    MultiBoostCWClassifier,
    MulticlassTask,
    MultiLabelTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
)
from structboost.contract.calls import is_constant, predictions, warn_of_one_output
from structboost.contract.parts import StackedParts
from structboost.decisions import Choose
from structboost.errors import ConstantPredictionWarning, EmptyModelWarning
from structboost.objectives import StageWiseLikelihood
from structboost.tasks import GraphInput
from tests.helpers.four_faces import DATA, X, Y

RNG = default_rng(0)

HINGE = {"objective": "hinge", "C": 100, "tol": 1e-4, "max_iter": 3}
TRAINER = {"C": 100, "tol": 1e-4, "max_rounds": 3}
CERTIFIED = [
    *(face(**HINGE) for face in DATA),
    StructBoostClassifier("hinge", tol=1e-6, max_iter=3),
    StructBoostClassifier(**HINGE | {"objective": "l1_log_loss"}),
    StructBoost(MulticlassTask(3), **TRAINER),
    StructBoost(MulticlassTask(3), **TRAINER, formulation="m_slack"),
    MultiBoostCWClassifier(C=100, tol=1e-6, max_rounds=3),
]


@pytest.mark.parametrize("model", CERTIFIED, ids=repr)
def test_a_certified_fit_that_runs_out_of_rounds_warns_with_gap_tol_and_remedy(model):
    with pytest.warns(ConvergenceWarning, match=r"gap of .*above tol = .*more\s+rounds"):
        model.fit(*DATA.get(type(model), (X, Y)))


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_fits_that_reach_tol_or_have_no_bound_do_not_warn():
    StructBoostClassifier("hinge", C=10, tol=0.2).fit(X, Y)
    StructBoostClassifier(max_iter=2).fit(X, Y)
    StructBoostRanker(max_iter=2).fit(X, Y)
    StructBoost(MulticlassTask(3), C=10, callbacks=[lambda *_: True]).fit(X, Y)


def test_a_path_warns_for_each_fit_that_runs_out_of_rounds():
    with pytest.warns(ConvergenceWarning) as found:
        StructBoost(MulticlassTask(3), C=1.0, tol=1e-6, max_rounds=2).path(X, Y, [10, 100])
    assert [warning.category for warning in found].count(ConvergenceWarning) == 2


RARE = np.arange(150) < 4
# A feature of two values, which the rare outputs do not depend on.
COIN = (np.arange(150) % 2).astype(float)[:, None]


@pytest.mark.parametrize(
    "fit",
    [
        lambda: StructBoostClassifier(max_iter=5).fit(COIN, RARE),
        lambda: StructBoost(
            MulticlassTask(2), C=np.inf, formulation=StageWiseLikelihood(), max_rounds=3
        ).fit(COIN, RARE.astype(int)),
        lambda: StructBoostTagger(max_iter=1, max_depth=1).fit(
            np.split(X, 30), np.where(RARE, "b", "a").reshape(30, 5).tolist()
        ),
        lambda: StructBoostMultiLabelClassifier(max_iter=1, max_depth=1).fit(
            X, np.column_stack((RARE, np.roll(RARE, 20)))
        ),
    ],
    ids=["classifier", "trainer", "tagger", "label sets"],
)
def test_a_model_that_predicts_one_output_for_everything_warns(fit):
    with pytest.warns(ConstantPredictionWarning, match="one output for all training examples"):
        fit()


NOISE = default_rng(1)
NOISY_X = NOISE.normal(size=(240, 3))
NOISY_CLASSES = NOISE.integers(0, 4, 240)
NOISY_SETS = NOISE.integers(0, 2, (240, 3))
HALVES = np.linspace(0.5, 1.0, 240)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: StructBoostClassifier("svm").fit(NOISY_X, NOISY_CLASSES),
        lambda: StructBoostClassifier("svm", C=5.0).fit(NOISY_X, NOISY_CLASSES, HALVES),
        lambda: StructBoostMultiLabelClassifier("svm", loss="subset", C=5.0).fit(
            NOISY_X, NOISY_SETS
        ),
        lambda: StructuredSVM(MulticlassTask(4), C=5.0).fit(NOISY_X, NOISY_CLASSES),
    ],
    ids=["classifier", "weights", "label sets", "trainer"],
)
def test_one_output_by_the_hinge_is_warned_of_with_what_to_write(fit):
    with pytest.warns(ConstantPredictionWarning, match="whatever C .* objective='log_loss'"):
        fit()


@pytest.mark.slow
def test_an_empty_model_of_the_subset_loss_says_what_to_write():
    model = StructBoostMultiLabelClassifier("hinge", loss="subset", C=3.0)
    with pytest.warns(EmptyModelWarning, match="The model is empty: C is 3"):
        model.fit(NOISY_X, NOISY_SETS)


def scores_of(task, inputs, *, is_constant=False):
    """Random scores, or those that are the same for every part of a kind."""
    stack = task.stack(inputs)
    rows = {}
    for kind, parts in stack.rows.items():
        n_channels = task.kinds[kind].n_channels
        # Pairs of labels have four channels.
        same = (np.arange(n_channels) == 1) * float(n_channels < 4)
        shape = len(parts), n_channels
        rows[kind] = np.tile(same, (shape[0], 1)) if is_constant else RNG.normal(size=shape)
    return StackedParts(rows, stack.offsets)


CHAINS, PATH = [X[:3], X[:5], X[:1]], np.array([[0, 1], [1, 2]])
CLASSES, SAME = np.arange(150) % 3, np.zeros(150, int)
TAGS, ONE_TAG = ([y[:3], y[:5], y[:1]] for y in (CLASSES, SAME))
GRAPHS = [GraphInput(X[:3], PATH), GraphInput(X[:2], PATH[:1])]
LABELS, ORDERS = [np.array([0, 1, 1]), np.array([1, 1])], [RNG.permutation(9) for _ in range(3)]
PAIRS, SETS = [RNG.normal(size=(9, 9, 2))] * 3, (X[:, :2] > 0).astype(int)
# Outputs that are told apart, and outputs of which all are one.
ONE_OUTPUT = {
    "classes": (MulticlassTask(3), X, CLASSES, SAME),
    "chains": (ChainTask(3), CHAINS, TAGS, ONE_TAG),
    "sets": (MultiLabelTask(2), X, SETS, 0 * SETS),
    "graphs": (GraphTask(2), GRAPHS, LABELS, [0 * y for y in LABELS]),
    "matchings": (MatchingTask(), PAIRS, ORDERS, ORDERS[:1] * 3),
}


@pytest.mark.parametrize("name", ONE_OUTPUT)
@pytest.mark.filterwarnings("error")
def test_one_output_for_all_is_told_from_several(name):
    task, inputs, several, one = ONE_OUTPUT[name]
    scores, varied = scores_of(task, inputs, is_constant=True), scores_of(task, inputs)
    kind = next(iter(task.kinds))
    partly = StackedParts({**varied.rows, kind: scores.rows[kind]}, scores.offsets)
    for truth, predicted, own, expected in (
        (several, predictions(task, inputs, scores), scores, True),
        # Within one matching some pairs are matched, others are not.
        (several, one, varied, name != "matchings"),
        (several, several, varied, False),
        (several, several, partly, len(task.kinds) == 1),
        # Where the truth is one output as well, nothing is wrong, but that nothing is told.
        (one, one, varied, False),
        (one, one, scores, True),
    ):
        assert is_constant(task, inputs, truth, predicted, own) == expected
    best = predictions(task, inputs, scores)
    warn_of_one_output(task, inputs, best, lambda X: scores_of(task, X, is_constant=True))


@pytest.mark.filterwarnings("error")
def test_no_warning_where_one_decision_is_best_at_all_costs():
    costs = np.abs(NOISY_X) + 1
    all_of_three = PredictThenOptimize(Choose(3, 3), C=10.0, random_state=0)
    assert all_of_three.fit(NOISY_X, costs).score(NOISY_X, costs) == 0
    with pytest.warns(ConstantPredictionWarning, match="one output for all training examples"):
        PredictThenOptimize(Choose(3, 1), C=10.0).fit(0 * NOISY_X, costs)


@pytest.mark.slow
def test_the_first_compilation_is_announced_without_verbose(tmp_path):
    program = (
        "from sklearn.datasets import load_iris\n"
        "from structboost import AdaBoostMHClassifier\n"
        "from structboost.runtime.dispatchers import compilations\n"
        "compilations.patience = 0.1\n"  # seconds that one round exceeds
        "AdaBoostMHClassifier(max_rounds=1).fit(*load_iris(return_X_y=True))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, check=True, env={"NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert run.stderr.count("compiles its inner loops, once per installation") == 1
    assert not run.stdout
