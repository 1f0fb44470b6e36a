"""Proximal steps by blocks in the m-slack master, against the linear program and one slack."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from structboost import ChainTask, RankingTask, StructBoost
from structboost.contract.calls import separation_of
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptTruth, separate_by_argmax
from structboost.objectives import m_slack
from structboost.objectives.m_slack import SlackOracle, SlackProgramMaster
from tests.objectives.hinge_problems import given_columns


@pytest.fixture
def without_program(monkeypatch):
    """Blocks alone: the linear program is not to be solved."""

    def solve(_):
        raise AssertionError("the linear program was solved")

    monkeypatch.setattr(SlackProgramMaster, "_solve_program", solve)


def chains():
    rng = default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(0, 6, 40)]
    Y = [np.digitize(x[:, 0] + 0.5 * np.roll(x[:, 1], 1), (-0.5, 0.5)) for x in X]
    return X, Y, rng.exponential(size=40) * (rng.random(40) < 0.8)


@pytest.mark.usefixtures("without_program")
def test_the_best_weights_looked_at_are_kept_with_the_bound_of_the_duals(monkeypatch):
    C, rises = 50.0, 0
    for seed in range(6):
        problem = given_columns("m_slack_single", C, seed)
        master, seen = problem.master, []
        outputs_at = master.oracle.outputs_at

        def spy(weights, examples=None, outputs_at=outputs_at, seen=seen):
            found = outputs_at(weights, examples)
            if examples is None:
                seen.append(weights.sum() + C * found[2])
            return found

        monkeypatch.setattr(master.oracle, "outputs_at", spy)
        for _ in range(5):
            master.solve_loosely(0.0015)
            assert master.primal == pytest.approx(min(seen), rel=1e-12)
            largest = problem.edges().max()
            assert largest <= 1 + 1e-9
            assert master.bound(largest) <= problem.optimum(C) * (1 + 1e-9)
        rises += (np.diff(seen) > 0).sum()
    # Steps do not always go down, so the last weights are not always the best ones.
    assert rises > 0


@pytest.mark.slow
@pytest.mark.usefixtures("without_program")
def test_blocks_follow_a_path():
    X, Y, _ = chains()
    first = StructBoost(ChainTask(3), C=1.0, tol=0.03, formulation="m_slack")
    for trainer in first.path(X, Y, [3.0, 30.0, 10.0]):
        optimum = StructBoost(ChainTask(3), C=trainer.C, tol=1e-5).fit(X, Y).objective_
        assert optimum * (1 - 1e-5) <= trainer.objective_ <= optimum / 0.97
        assert max(record["bound"] for record in trainer.history_) <= optimum


CHAINS = ChainTask(3)


class OneByOne(ChainTask):
    """The chains again, searched one after the other."""

    separate = argmax_batch = None

    def __init__(self):
        super().__init__(3)
        self.asked, self.fails_at = [], np.inf

    def argmax(self, x, scores):
        self.asked.append(x)
        if len(self.asked) > self.fails_at and x is self.refused:
            raise ZeroDivisionError
        return CHAINS.argmax(x, scores)


class OneByOneAugmented(OneByOne):
    """The same, where the argmax knows of the loss."""

    loss_scores = None

    def argmax(self, x, scores, y=None):
        if y is not None:
            added = CHAINS.loss_scores(x, y)["token"]
            scores = {**scores, "token": scores["token"] + added}
        return super().argmax(x, scores)


@pytest.mark.slow
@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("of", [OneByOne, OneByOneAugmented])
def test_examples_found_one_by_one_are_visited_where_it_pays(of, monkeypatch):
    X, Y, weight = chains()
    looked_at, outputs_at = [], SlackOracle.outputs_at

    def spy(self, weights, examples=None):
        found = outputs_at(self, weights, examples)
        if examples is None:
            looked_at.append(weights.sum() + 30.0 * found[2])
        return found

    monkeypatch.setattr(SlackOracle, "outputs_at", spy)
    settings = {"C": 30.0, "formulation": "m_slack", "columns_per_channel": 2}
    optimum = StructBoost(CHAINS, C=30.0, tol=1e-5).fit(X, Y, sample_weight=weight)
    task = of()
    trainer = StructBoost(task, tol=0.02, **settings).fit(X, Y, sample_weight=weight)
    history = trainer.history_
    all_at_once = StructBoost(CHAINS, tol=0.02, **settings).fit(X, Y, sample_weight=weight)
    # Whole passes are counted; the probe of the argmax is not.
    asked = history[-1]["oracle_calls"] * len(X)
    assert len(task.asked) == pytest.approx(asked, abs=2 * len(X))
    assert history[-1]["oracle_calls"] < 0.8 * all_at_once.history_[-1]["oracle_calls"]
    # What is kept was looked at in all examples, and the multipliers prove the bound.
    assert all(np.isclose(looked_at, record["primal"], rtol=1e-12).any() for record in history)
    assert history[-1]["certified"]
    assert history[-1]["gap"] <= 0.02
    assert optimum.history_[-1]["bound"] <= trainer.objective_ <= optimum.objective_ / 0.98
    assert all(record["bound"] <= optimum.objective_ for record in history)
    scores = trainer.scores(X)
    violations = CHAINS.separate(X, Y, scores).violations(scores)
    risk = np.average(np.maximum(violations, 0.0), weights=weight)
    assert trainer.model_.weights.sum() + 30.0 * risk == pytest.approx(trainer.objective_)


def test_an_error_in_a_pass_over_some_examples_names_the_example():
    X, Y, _ = chains()
    task = OneByOne()
    trainer = StructBoost(task, C=30.0, formulation="m_slack", max_rounds=3).fit(X, Y)
    # The first example of the last pass over some.
    number, task.refused = len(task.asked) - 1, task.asked[-1]
    example = next(i for i, x in enumerate(X) if x is task.refused)
    task.asked, task.fails_at = [], number
    with pytest.raises(ZeroDivisionError) as raised:
        trainer.fit(X, Y)
    assert f"X[{example}]" in raised.value.__notes__[0]


@given(st.integers(0, 999), st.data())
def test_outputs_of_some_examples_are_those_of_all(seed, data):
    X, Y, _ = chains()
    X, Y = X[:8], Y[:8]
    task = data.draw(st.sampled_from([OneByOne(), OneByOneAugmented()]))
    stack = CHAINS.stack(X)
    rng = default_rng(seed)
    scores = StackedParts(
        {kind: rng.normal(size=(len(rows), task.kinds[kind].n_channels))
         for kind, rows in stack.rows.items()},
        stack.offsets,
    )  # fmt: skip
    examples = np.array(sorted(data.draw(st.sets(st.integers(0, 7), min_size=1))))
    truth = KeptTruth()
    if data.draw(st.booleans()):
        separate_by_argmax(task, X, Y, replace(scores, memo=truth))
    found = separation_of(task, X, Y, scores, examples, truth)
    whole = CHAINS.separate(X, Y, scores)
    expected = np.zeros(8)
    expected[examples] = whole.violations(scores)[examples]
    assert np.allclose(found.violations(scores), expected)
    expected[examples] = whole.losses[examples]
    assert np.array_equal(found.losses, expected)


def test_constraints_below_the_worst_are_added_where_those_are_in_the_program(monkeypatch):
    rng = default_rng(0)
    X = [rng.normal(size=(8, 3)) for _ in range(6)]
    Y = [np.digitize(x[:, 0] + 0.5 * rng.normal(size=8), (-0.5, 0.5)) for x in X]
    trainer = StructBoost(RankingTask(), formulation="m_slack", C=5.0, tol=1e-4)
    expected = trainer.fit(X, Y).objective_
    # The pairs looked at are few, and those in the program may stay violated, at their slacks.
    monkeypatch.setattr(m_slack, "_MIN_NEW_ROWS", 1)
    monkeypatch.setattr(m_slack, "_MAX_SOLVES", 60)
    trainer.fit(X, Y)
    assert trainer.history_[-1]["certified"]
    assert trainer.objective_ == pytest.approx(expected, rel=1e-3)
