"""Cuts of examples that are split over several blocks, which are made whole at the trainer."""

import numpy as np
import pytest

from structboost import RankingTask, StructBoost
from structboost.contract.calls import stacked
from structboost.runtime import blocks
from structboost.training import Engine
from tests.objectives.hinge_problems import N_COLUMNS, given_columns


def contradictory_queries():
    """Two queries of 60 and 90 items that want opposite orders, and a small one."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (60, 90, 8)]
    return X, [
        (sign * x[:, 0] + 0.3 * x[:, 1] > 0).astype(int)
        for sign, x in zip((1, -1, 1), X, strict=True)
    ]


def weighted_objective(trainer, X, Y, weights):
    """The primal objective by its definition (StructBoost, (9)), with weighted examples."""
    task, model = trainer.task, trainer.model_
    total = model.weights.sum()
    for x, y, weight in zip(X, Y, np.asarray(weights) / np.sum(weights), strict=True):
        scores = model.scores(stacked(task, [x]).rows["x"], "x")[:, 0]
        better, worse = np.nonzero(y[:, None] > y)
        swapped = scores[better] - scores[worse] < 1.0
        hinge = (1.0 - (scores[better] - scores[worse]))[swapped].sum() / len(better)
        total += trainer.C * weight * hinge
    return float(total)


@pytest.mark.parametrize("weights", [(1.0, 1e-6, 1.0), (0.2, 3.0, 0.0)])
def test_weights_count_where_an_example_is_split_over_blocks(weights, monkeypatch):
    X, Y = contradictory_queries()
    parameters = {"C": 20.0, "tol": 1e-3, "max_rounds": 30}
    whole = StructBoost(RankingTask(), **parameters).fit(X, Y, sample_weight=weights)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 16)
    split = StructBoost(RankingTask(), engine=Engine("threads", 2), **parameters).fit(
        X, Y, sample_weight=weights
    )
    assert blocks.blocks_of(stacked(RankingTask(), X).offsets).splits_examples
    for trainer in (whole, split):
        assert trainer.objective_ == pytest.approx(
            weighted_objective(trainer, X, Y, weights), rel=1e-9
        )
    assert split.objective_ == pytest.approx(whole.objective_, rel=2e-3)
    assert split.history_[-1]["bound"] <= whole.objective_ * (1 + 1e-9)


def test_the_model_of_a_cut_is_kept_until_the_cut_is_dropped():
    oracle = given_columns("one_slack", 30.0).master.oracle
    cuts = [oracle.cut_at(np.full(N_COLUMNS, weight))[0] for weight in (0.1, 0.2)]
    oracle.forget(cuts[:1])
    assert oracle.state(cuts[1:])["models/x/sizes"].tolist() == [3 * N_COLUMNS]
    with pytest.raises(KeyError):
        oracle.state(cuts[:1])
