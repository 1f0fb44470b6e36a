"""Outputs that the argmax chooses from are listed once per fit, as far as memory allows."""

from functools import partial

import numpy as np
import pytest

from structboost import StructBoost, StructuredSVM
from structboost.contract.separation import KeptListings
from structboost.objectives import StageWiseRandomField
from tests.helpers.listed_outputs import Pairs, pairs


class Listed(Pairs):
    """Without an argmax; counts how often outputs are listed."""

    argmax = None
    n_listings = 0

    def outputs(self, x):
        self.n_listings += 1
        return super().outputs(x)


def test_the_first_of_equally_good_listed_outputs_is_the_best():
    rng = np.random.default_rng(0)
    task, kept = Listed(), KeptListings()
    for decimals in [0] * 20 + [12]:
        nodes, edges = (np.round(rng.normal(size=(n, 1)), decimals) for n in (2, 1))
        scores = {"node": nodes, "edge": edges}
        found = kept.best(0, task, None, scores, lambda z: task.loss((0, 1), z))
        assert found == Pairs().argmax(None, scores, (0, 1))
    assert task.n_listings == 1


boosted = partial(StructBoost, C=30.0, max_rounds=4)
MAKERS = {
    "one slack": partial(boosted, tol=1e-3),
    "m slacks": partial(boosted, tol=1e-3, formulation="m_slack"),
    "likelihood": partial(boosted, formulation="log"),
    "stage-wise": partial(boosted, C=np.inf, formulation=StageWiseRandomField()),
    "svm": partial(StructuredSVM, C=30.0, tol=1e-3, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_outputs_are_listed_once_per_fit_and_the_model_is_the_same(make, monkeypatch):
    X, Y = pairs(8)
    found = []
    for most_bytes in (KeptListings.most_bytes, 1000, 0):
        monkeypatch.setattr(KeptListings, "most_bytes", most_bytes)
        task = Listed()
        trainer = make(task).fit(X, Y)
        found.append((task.n_listings, trainer.history_[-1]["primal"], trainer.predict(X)))
    # One is probed before; the predictions list them again.
    assert found[0][0] <= 3 * len(X) + 1
    assert found[0][0] < found[1][0] < found[2][0]
    assert found[0][1:] == found[1][1:] == found[2][1:]
