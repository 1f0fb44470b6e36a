"""An argmax that falls behind outputs it found before is noticed, whatever trains."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import StructBoost, StructuredSVM
from structboost.contract.separation import Separation
from structboost.errors import TaskError
from structboost.objectives import NormBoundedHinge
from structboost.objectives.m_slack import MSlackMaster
from tests.helpers.choose import Choose
from tests.helpers.engine_tasks import ChainTask

FORMULATIONS = ("one_slack", "m_slack", NormBoundedHinge())


class GreedyChain(ChainTask):
    """Chooses label after label; never looks ahead."""

    def argmax(self, x, scores, y=None):
        gain = scores["token"] + (0 if y is None else (np.arange(2) != y[:, None]) / len(y))
        labels = [int(gain[0].argmax())]
        for t in range(1, len(gain)):
            cost = scores["link"][t - 1, 0] * (np.arange(2) != labels[-1])
            labels.append(int((gain[t] - cost).argmax()))
        return labels


class LosslessInBatches(ChainTask):
    """Forgets the loss in a batch form that it declares to be exact, so no outputs are kept."""

    separates_in_batches = True

    def separate(self, X, Y, scores):
        found = [self.argmax(x, scores.example(i)) for i, x in enumerate(X)]
        return Separation.from_outputs(self, X, Y, found, scores.offsets)


class Rounded(Choose):
    """Choose with a loss in other units, in single precision."""

    unit = 1.0

    def loss(self, y, y_pred):
        return self.unit * super().loss(y, y_pred)

    def argmax(self, x, scores, y=None):
        added = 0 if y is None else self.unit * abs(np.arange(len(x)) - y)
        return int(np.argmax((scores[:, 0] + added).astype(np.float32)))


@pytest.fixture(scope="module")
def chains():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(4, 9, 40)]
    return X, [(x[:, 0] + np.roll(x[:, 0], 1) + x[:, 1] > 0).astype(int) for x in X]


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
def test_an_inexact_argmax_ends_the_fit(chains, formulation):
    trainer = StructBoost(GreedyChain(), formulation=formulation, C=30.0, max_rounds=60)
    with pytest.raises(TaskError, match=r"argmax of X\[\d+\] is not exact: it found .* earlier"):
        trainer.fit(*chains)


@pytest.mark.parametrize(
    ("formulation", "by_blocks", "message"),
    [
        ("one_slack", True, "make a risk"),
        ("m_slack", True, r"of X\[\d+\]"),
        ("m_slack", False, "make a risk"),
    ],
    ids=["cuts", "blocks", "program"],
)
def test_an_inexact_batch_form_ends_the_fit(chains, formulation, by_blocks, message, monkeypatch):
    if not by_blocks:
        monkeypatch.setattr(MSlackMaster, "_can_step", lambda *_: False)
    trainer = StructBoost(LosslessInBatches(), formulation=formulation, C=30.0, max_rounds=60)
    with pytest.raises(TaskError, match=message):
        trainer.fit(*chains)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_rounding_is_no_slip(scale, unit, monkeypatch):
    monkeypatch.setattr(Rounded, "unit", unit)
    rng = np.random.default_rng(0)
    X = [scale * rng.normal(size=(5, 2)) for _ in range(20)]
    Y = [int(x[:, 0].argmax()) for x in X]
    for formulation in FORMULATIONS[:2]:
        trainer = StructBoost(Rounded(), formulation=formulation, C=50.0, max_rounds=15).fit(X, Y)
        assert trainer.history_[-1]["certified"]
    StructuredSVM(Rounded(), C=100.0 * unit / scale**2, max_epochs=5, tol=0.5).fit(X, Y)
