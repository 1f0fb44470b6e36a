"""A fit of a decision checks X once, and builds few tasks."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import PredictThenOptimize
from structboost.decisions import DecisionInput, GridPath, PredictThenOptimizeTask

ROUTES = GridPath(3, 3)


def travel(n=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    costs = (3 + x @ rng.uniform(0, 1, size=(3, ROUTES.n_items))) ** 2
    return x, costs * rng.uniform(0.8, 1.2, size=costs.shape)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["instance", "items", "both"])
def test_features_are_checked_once_in_fit_and_once_in_predict(form, monkeypatch):
    x, costs = travel()
    items = costs[:, :, None] + np.random.default_rng(1).normal(size=(*costs.shape, 2))
    both = [DecisionInput(*pair) for pair in zip(x, items, strict=True)]
    X = {"instance": x, "items": items, "both": both}[form]
    tables = [x, items] if form == "both" else [X]
    checked, isfinite = [], np.isfinite

    def is_equal(values, table):
        # Rows of items stand one below the other.
        return np.size(values) == table.size and (np.reshape(values, table.shape) == table).all()

    def watched(values, *arguments, **options):
        checked.extend(i for i, table in enumerate(tables) if is_equal(values, table))
        return isfinite(values, *arguments, **options)

    monkeypatch.setattr(np, "isfinite", watched)
    model = PredictThenOptimize(ROUTES, random_state=0).fit(X, costs)
    assert checked == list(range(len(tables)))
    checked.clear()
    n_checks = 0

    def counted(values, *arguments, **options):
        nonlocal n_checks
        n_checks += np.ndim(values) > 1
        return watched(values, *arguments, **options)

    monkeypatch.setattr(np, "isfinite", counted)
    model.predict_costs(X)
    assert checked == list(range(len(tables)))
    # Standardised features are not checked again.
    assert n_checks == len(tables)


@pytest.mark.slow
def test_one_task_is_built_for_all_folds_of_a_start(monkeypatch):
    built, init = [], PredictThenOptimizeTask.__init__

    def counted(self, *arguments, **options):
        built.append(arguments[1:])
        init(self, *arguments, **options)

    monkeypatch.setattr(PredictThenOptimizeTask, "__init__", counted)
    x, costs = travel()
    PredictThenOptimize(ROUTES, random_state=0).fit(x, costs)
    # For the true decisions and the mean, then for each start, and for the chosen one.
    assert built[:3] == [("instance",), ("instance",), ("both",)]
    assert len(built) <= 4
