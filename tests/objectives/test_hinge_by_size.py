"""The formulation that ``formulation="auto"`` takes."""

import pytest
from sklearn.datasets import load_digits, load_wine

from structboost import MulticlassTask, RankingTask, StructBoost, StructBoostClassifier
from structboost.objectives import HingeBySize, MSlack, OneSlack
from structboost.validation import SparseRows

X, y = load_digits(return_X_y=True)
X, y = X[:200], y[:200]


class Undeclared(MulticlassTask):
    separates_in_batches = False

    def separate(self, X, Y, scores):
        return super().separate(X, Y, scores)


@pytest.mark.parametrize(
    ("task", "n_examples", "C", "is_plain", "expected"),
    [
        (MulticlassTask(10), 200, 100.0, True, MSlack()),
        (MulticlassTask(10), 200, 99.0, True, OneSlack()),
        (MulticlassTask(10), 4_000, 200.0, True, MSlack()),
        (MulticlassTask(10), 4_000, 199.0, True, OneSlack()),
        (MulticlassTask(10), 20_001, 1e6, True, OneSlack()),
        (MulticlassTask(2), 200, 1e6, True, OneSlack()),
        (MulticlassTask(10), 200, 1e6, False, OneSlack()),
        (MulticlassTask(10), 200, 1e8, True, MSlack()),
        (MulticlassTask(10), 200, 1e9, True, OneSlack()),
        # It goes by what a task declares, not by what it overrides.
        (Undeclared(10), 200, 1e6, True, OneSlack()),
        (RankingTask(), 100, 1e6, True, OneSlack()),
    ],
)
def test_auto_takes_a_slack_for_each_example_at_large_C(task, n_examples, C, is_plain, expected):
    assert HingeBySize().suited(task, n_examples, C, is_plain=is_plain) == expected


@pytest.mark.slow
@pytest.mark.parametrize("C", [1e8, 1e10, 1e12])
def test_auto_certifies_fits_of_separable_classes_at_any_C(C):
    table, classes = load_wine(return_X_y=True)
    fit = StructBoostClassifier("hinge", C=C).fit(table, classes)
    assert fit.history_[-1]["gap"] <= 0.01


@pytest.mark.slow
def test_both_formulations_bound_the_same_optimum():
    last = []
    for name, taken in (("auto", "m_slack"), ("one_slack", "one_slack")):
        settings = {"C": 150.0, "tol": 0.02, "formulation": name}
        fit = StructBoostClassifier("hinge", **settings).fit(X, y)
        assert fit.formulation_ == taken
        last.append(fit.history_[-1])
    assert all(record["certified"] and record["gap"] <= 0.02 for record in last)
    least = min(record["primal"] for record in last)
    assert max(record["bound"] for record in last) <= least * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"spread": 0.3},
        {"pricing": "best"},
        {"weak_learner": "linear"},
        {"engine": "processes", "n_jobs": 1},
        {"checkpoint": "run"},
        {},
    ],
)
def test_auto_keeps_one_slack_where_only_that_works(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = {"C": 150.0, "tol": 0.2, "max_rounds": 60, "formulation": "auto", **settings}
    fit = StructBoost(MulticlassTask(10), **made).fit(X if settings else SparseRows(X), y)
    assert fit.formulation_ == "one_slack"
