"""What docstrings and annotations of the estimators promise."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import structboost

X = np.random.default_rng(0).normal(size=(30, 2))
POSITIVE = (X[:, 0] > 0).astype(int)
DATA = {
    "StructBoostClassifier": (X, POSITIVE),
    "StructBoostRanker": (X, POSITIVE),
    "StructBoostTagger": (np.split(X, 10), np.split(POSITIVE, 10)),
    "StructBoostMultiLabelClassifier": (X, (X > 0).astype(int)),
}


def formulations(name):
    named = re.search(r"^formulation : {(.*)}", getattr(structboost, name).__doc__, re.MULTILINE)
    return re.findall(r'"(\w+)"', named[1])


@pytest.mark.parametrize(
    ("name", "formulation"), [(name, found) for name in DATA for found in formulations(name)]
)
def test_every_formulation_that_a_docstring_names_can_be_trained(name, formulation):
    estimator = getattr(structboost, name)(
        objective="hinge", C=10, formulation=formulation, max_iter=2
    )
    assert estimator.fit(*DATA[name]).history_


@pytest.mark.parametrize("name", DATA)
def test_type_checkers_accept_a_union_of_weak_learners(name):
    parameters = inspect.signature(getattr(structboost, name)).parameters
    assert parameters["weak_learner"].annotation == "WeakLearners"
