"""The linear model on numbers of active features, and first passes in runs of examples."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import ChainTask, PartKind, StructuredSVM
from structboost.contract.parts import StackedParts
from structboost.learners import active_features
from structboost.linear import svm_run
from structboost.linear.designs import designs_of


class BoundedChain(ChainTask):
    """A chain whose scores of tags must not be negative."""

    def __init__(self, n_tags):
        super().__init__(n_tags)
        self.kinds = {**self.kinds, "token": PartKind(n_tags, response=(0.0, 1.0))}


def sequences(rng, n=30, n_features=7):
    """0/1 features of tokens, some of which tell of the tag."""
    tables, Y = [], []
    for length in rng.integers(1, 6, size=n):
        tags = rng.integers(3, size=length)
        table = rng.random((length, n_features)) < 0.3
        table[:, :3] = (tags[:, None] == np.arange(3)) ^ (rng.random((length, 3)) < 0.15)
        tables.append(table)
        Y.append(tags)
    return tables, Y


@pytest.mark.parametrize("task_class", [ChainTask, BoundedChain])
def test_numbers_of_active_features_give_the_model_of_the_array(task_class):
    tables, Y = sequences(np.random.default_rng(0))
    rows = [active_features(table, 7) for table in tables]
    task = task_class(3)
    dense = StructuredSVM(task, C=20, tol=1e-7, random_state=0)
    dense.fit([table.astype(float) for table in tables], Y)
    thin = StructuredSVM(task, C=20, tol=1e-7, random_state=0, active=["token"]).fit(rows, Y)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=2e-7)
    assert np.allclose(thin.w_["token"], dense.w_["token"], atol=5e-3)
    for ours, theirs in zip(thin.predict(rows), dense.predict(
        [table.astype(float) for table in tables]), strict=True):  # fmt: skip
        assert np.array_equal(ours, theirs)
    # Features that training did not have count nothing.
    more = [np.column_stack((row, np.full(len(row), 99))) for row in rows]
    assert np.array_equal(np.concatenate(thin.predict(more)), np.concatenate(thin.predict(rows)))


def test_first_passes_in_runs_lead_to_the_same_optimum(monkeypatch):
    tables, Y = sequences(np.random.default_rng(1), n=60)
    rows = [active_features(table, 7) for table in tables]
    model = StructuredSVM(ChainTask(3), C=30, tol=1e-6, random_state=0, active=["token"])
    plain = model.fit(rows, Y).objective_
    n_plain = model.history_[-1]["oracle_calls"]
    assert n_plain == len(model.history_)
    monkeypatch.setattr(svm_run, "_MANY_EXAMPLES", 10)
    monkeypatch.setattr(svm_run, "_RUNS", 7)
    model.fit(rows, Y)
    assert model.objective_ == pytest.approx(plain, rel=2e-6)
    assert model.history_[-1]["gap"] <= 1e-6
    assert model.history_[-1]["oracle_calls"] == len(model.history_) + 3
    # Without them the first bound is 0.
    assert model.history_[0]["gap"] < 0.9


def test_kinds_that_the_task_lacks_are_named():
    tables, Y = sequences(np.random.default_rng(0), n=3)
    for active in ("token", ["word"]):
        with pytest.raises(
            ValueError, match=r"active is .*the task, which has \['token', 'step'\]"
        ):
            StructuredSVM(ChainTask(3), active=active).fit(tables, Y)


def test_the_variances_of_columns_beside_names_sum_to_five():
    rng = np.random.default_rng(0)
    rows = {"token": rng.integers(0, 9, (40, 3)), "vector": rng.normal(size=(40, 50))}
    stack = StackedParts(rows, dict.fromkeys(rows, np.arange(0, 41, 10)))
    kinds = dict.fromkeys(rows, PartKind(2))
    for active, total in ((["token"], 5.0), ([], 50.0)):
        design = designs_of(kinds, stack, active)["vector"]
        assert np.isclose(design.features(rows["vector"]).var(axis=0).sum(), total)
