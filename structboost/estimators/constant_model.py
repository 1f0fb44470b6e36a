"""Models of training sets with one class, which always predict it."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost.contract.parts import PartKind
from structboost.exceptions import ConstantPredictionWarning, warn_user
from structboost.model.ensemble import Ensemble
from structboost.model.kind_ensemble import KindEnsemble
from structboost.model.linear_members import plain_functions
from structboost.validation import shown
from structboost.weak.stump import StumpTable

# Kinds of the binary task, whose score is 0 for the only class.
_KIND = "x"


def warn_of_one_class(label: Any) -> None:
    """Warn that y has one class."""
    warn_user(
        f"y has 1 class only, {shown(label)}, so the model always predicts it; give examples of "
        "at least two classes.",
        ConstantPredictionWarning,
    )


def without_learners(kind: PartKind, n_features: int, metadata: dict[str, Any]) -> Ensemble:
    """Return a model of no weak learners, whose scores are 0."""
    none = np.zeros(0, np.int64)
    member = KindEnsemble("stump", StumpTable.of([]), none, none, none, np.zeros(0), n_features)
    return Ensemble({_KIND: kind}, {_KIND: member}, np.zeros(0), np.zeros((1, 0)), metadata)


def zero_function(kind: PartKind, n_features: int, metadata: dict[str, Any]) -> Ensemble:
    """Return a model of one linear function that is 0."""
    member = plain_functions(np.zeros((n_features + kind.has_bias, 1)), kind, 0)
    return Ensemble({_KIND: kind}, {_KIND: member}, np.ones(1), np.ones((1, 1)), metadata)
