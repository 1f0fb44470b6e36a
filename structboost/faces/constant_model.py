"""Models of training sets with one class or tag, which always predict it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structboost.contract.parts import PartKind
from structboost.errors import ConstantPredictionWarning, warn_user
from structboost.learners.stump import StumpTable
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.model.linear_members import plain_functions
from structboost.validation import shown


def warn_of_one_class(label: Any, what: str = "class", several: str = "classes") -> None:
    """Warn that y has one class."""
    warn_user(
        f"y has 1 {what} only, {shown(label)}, so the model always predicts it; give examples of "
        f"at least two {several}.",
        ConstantPredictionWarning,
    )


def without_learners(
    kinds: Mapping[str, PartKind], n_features: Mapping[str, int], metadata: dict[str, Any]
) -> Ensemble:
    """Return a model of no weak learners, whose scores are 0."""
    none = np.zeros(0, np.int64)
    members = {
        kind: KindEnsemble("stump", StumpTable.of([]), none, none, none, np.zeros(0), n)
        for kind, n in n_features.items()
    }
    return Ensemble(dict(kinds), members, np.zeros(0), np.zeros((1, 0)), metadata)


def zero_function(kind: PartKind, n_features: int, metadata: dict[str, Any]) -> Ensemble:
    """Return a model of one linear function that is 0."""
    member = plain_functions(np.zeros((n_features + kind.has_bias, 1)), kind, 0)
    return Ensemble({"x": kind}, {"x": member}, np.ones(1), np.ones((1, 1)), metadata)
