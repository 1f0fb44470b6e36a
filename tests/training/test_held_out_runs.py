"""Fits that leave examples out, and what they decide."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import BinaryTask, StructBoost
from structboost.learners import TreeFamily
from structboost.objectives import StageWiseLikelihood
from structboost.objectives.master import Temperature
from structboost.training.held_out_runs import (
    EARLY,
    HeldOutRun,
    Look,
    difference,
    ends_early,
    fitted_factor,
)

RNG = default_rng(3)
X = RNG.normal(size=(300, 4))
Y = np.where(X[:, 0] + RNG.normal(size=300) > 0, 1, -1)
HELD = np.arange(300) % 5 == 0


def trainer(max_rounds=100):
    trees = partial(TreeFamily, depth=3, confident=True, row_fraction=0.5, random_state=0)
    return StructBoost(
        BinaryTask(), C=np.inf, formulation=StageWiseLikelihood(), weak_learner=trees,
        columns_per_channel=1, max_rounds=max_rounds,
    )  # fmt: skip


def run_of(outputs, max_rounds):
    weights = np.where(HELD, 0.0, 1.0)
    return HeldOutRun.of(trainer(max_rounds), (X, outputs), weights, 1.0 - weights)


def test_true_outputs_of_held_out_examples_do_not_matter_to_the_fit():
    of_truth = run_of(Y, 60)
    of_others = run_of(np.where(HELD, -Y, Y), 60)
    assert of_truth.weights.tolist() == [1.0] * 60
    for look, other in zip(of_truth.looks, of_others.looks, strict=True):
        assert look[:2] == other[:2]
        # The losses of both outputs of one score: log(1 + exp(-s)) and log(1 + exp(s)).
        np.testing.assert_allclose(np.exp(-look.losses(1.0)) + np.exp(-other.losses(1.0)), 1.0)
        np.testing.assert_allclose(look.losses(0.0), np.log(2.0))


def test_looks_begin_with_the_least_loss_of_rows_left_out():
    run = run_of(np.sign(np.prod(X[:, :2], axis=1)), 200)
    losses = [look.left_out.loss for look in run.looks]
    assert min(losses) == losses[0]
    assert run.looks[0].n_rounds > 20
    assert run.early.n_rounds >= run.looks[0].n_rounds + EARLY or run.early is run.last
    assert run.after(run.last.n_rounds) is run.last
    assert run.after(1) is run.looks[0]


def made(n_rounds, losses, left_out):
    """A look whose losses do not depend on the factor of the scores."""
    return Look(n_rounds, Temperature(1.0, left_out), lambda factor: np.array(losses))


@pytest.mark.parametrize(
    ("early", "late", "left_out", "expected"),
    [
        (0.5, 0.6, 0.5, True),
        (0.6, 0.5, 0.5, False),
        (0.5, 0.6, 0.2, False),  # far below a constant's
        (0.5, None, 0.5, False),  # without a later look
    ],
)
def test_a_fit_ends_early_where_held_out_examples_lose_nothing(early, late, left_out, expected):
    looks = [made(60, [early] * 20, left_out)]
    if late is not None:
        looks += [made(100, [early] * 20, 0.7), made(220, [late] * 20, 0.7)]
    assert ends_early([HeldOutRun(np.ones(20), looks)], 0.7) is expected
    assert not ends_early([], 0.7)


def test_differences_are_paired_and_weighted():
    weights = np.array([1.0, 3.0])
    run = HeldOutRun(weights, [made(20, [1.0, 2.0], 0.5)])
    other = HeldOutRun(weights, [made(20, [0.0, 2.0], 0.5)])
    mean, error = difference([run], run.looks, [other], other.looks)
    assert mean == pytest.approx(0.25)
    assert error == pytest.approx(np.sqrt(0.25**2 * 0.75**2 + 0.75**2 * 0.25**2))


@pytest.mark.parametrize("is_open", [False, True])
def test_the_factor_makes_held_out_outputs_most_probable(is_open):
    rng = default_rng(0)
    # The scores of rows without weight tell nothing.
    weights = np.repeat([3.0, 0.0], 4000)
    scores = rng.normal(size=8000)
    signs = np.where(rng.random(8000) < 1 / (1 + np.exp(-weights * scores)), 1, -1)
    look = Look(20, Temperature(2.0, 0.5), lambda f: np.log1p(np.exp(-f * signs * scores)))
    run = HeldOutRun(weights, [look])
    factor = fitted_factor([run], [look], is_open=is_open).factor
    assert factor == pytest.approx(3.0 if is_open else 1.5, rel=0.1)
