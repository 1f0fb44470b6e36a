"""Fits that did not converge, or that learned one output, warn; the first compilation is told."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
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

RNG = np.random.default_rng(0)

HINGE = {"objective": "hinge", "C": 100, "tol": 1e-4, "max_iter": 3}
TRAINER = {"C": 100, "tol": 1e-4, "max_rounds": 3}
CERTIFIED = [
    *(face(**HINGE) for face in DATA),
    StructBoostClassifier(objective="hinge", tol=1e-6, max_iter=3),
    StructBoostClassifier(**HINGE | {"objective": "l1_log_loss"}),
    StructBoost(MulticlassTask(3), **TRAINER),
    StructBoost(MulticlassTask(3), **TRAINER, formulation="m_slack"),
    MultiBoostCWClassifier(C=100, tol=1e-6, max_rounds=3),
]


@pytest.mark.parametrize("model", CERTIFIED, ids=repr)
def test_a_certified_fit_that_runs_out_of_rounds_warns_with_gap_tol_and_remedy(model):
    with pytest.warns(ConvergenceWarning, match=r"gap of .*above tol = .*more\s+rounds"):
        model.fit(*DATA.get(type(model), (X, Y)))


def test_fits_that_reach_tol_or_have_no_bound_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        StructBoostClassifier(objective="hinge", C=10, tol=0.2).fit(X, Y)
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


NOISE = np.random.default_rng(1)
NOISY_X = NOISE.normal(size=(240, 3))
NOISY_CLASSES = NOISE.integers(0, 4, 240)
NOISY_SETS = NOISE.integers(0, 2, (240, 3))
HALVES = np.linspace(0.5, 1.0, 240)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: StructBoostClassifier(objective="svm").fit(NOISY_X, NOISY_CLASSES),
        lambda: StructBoostClassifier(objective="svm", C=5.0).fit(NOISY_X, NOISY_CLASSES, HALVES),
        lambda: StructBoostMultiLabelClassifier(objective="svm", loss="subset", C=5.0).fit(
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
    model = StructBoostMultiLabelClassifier(objective="hinge", loss="subset", C=3.0)
    with pytest.warns(EmptyModelWarning, match="The model is empty: C is 3"):
        model.fit(NOISY_X, NOISY_SETS)


def constant_scores(task, inputs):
    """Scores that are the same for every part of a kind."""
    stack = task.stack(inputs)
    rows = {
        # Pairs of labels have four channels.
        kind: np.tile((np.arange(own.n_channels) == 1) * float(own.n_channels < 4), (len(rows), 1))
        for (kind, own), rows in zip(task.kinds.items(), stack.rows.values(), strict=True)
    }
    return StackedParts(rows, stack.offsets)


ONE_OUTPUT = {
    "classes": (MulticlassTask(3), X, np.arange(150) % 3),
    "chains": (
        ChainTask(2),
        [X[:3], X[:5], X[:1]],
        [np.array([0, 1, 0]), np.array([1] * 5), np.array([0])],
    ),
    "sets": (MultiLabelTask(2), X, np.column_stack((X[:, 0] > 0, X[:, 1] > 0)).astype(int)),
    "graphs": (
        GraphTask(2),
        [GraphInput(X[:3], np.array([[0, 1], [1, 2]])), GraphInput(X[:2], np.array([[0, 1]]))],
        [np.array([0, 1, 1]), np.array([1, 1])],
    ),
}


def is_one(task, inputs, outputs, scores):
    return is_constant(task, inputs, outputs, predictions(task, inputs, scores), scores)


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_one_output_for_all_is_told_from_several(name):
    task, inputs, outputs = ONE_OUTPUT[name]
    scores = constant_scores(task, inputs)
    assert is_one(task, inputs, outputs, scores)
    # Where the truth is one output as well, nothing is wrong.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best = predictions(task, inputs, scores)
        warn_of_one_output(task, inputs, best, lambda X: constant_scores(task, X))
    varied = StackedParts(
        {kind: RNG.normal(size=rows.shape) for kind, rows in scores.rows.items()}, scores.offsets
    )
    assert not is_one(task, inputs, outputs, varied)


def test_no_warning_where_one_decision_is_best_at_all_costs():
    costs = np.abs(NOISY_X) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        all_of_three = PredictThenOptimize(Choose(3, 3), C=10.0, random_state=0)
        assert all_of_three.fit(NOISY_X, costs).score(NOISY_X, costs) == 0
    with pytest.warns(ConstantPredictionWarning, match="one output for all training examples"):
        PredictThenOptimize(Choose(3, 1), C=10.0).fit(0 * NOISY_X, costs)


def test_matchings_of_different_pairs_are_several_outputs():
    pairs = [RNG.normal(size=(3, 3, 2)) for _ in range(8)]
    matched = [RNG.permutation(3) for _ in pairs]
    task = MatchingTask()
    stack = task.stack(pairs)
    scores = StackedParts(
        {kind: RNG.normal(size=(len(rows), 1)) for kind, rows in stack.rows.items()}, stack.offsets
    )
    assert not is_one(task, pairs, matched, scores)


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
