"""Metadata of an estimator in model files."""

from __future__ import annotations

import math
from typing import Any

from structboost.estimators.label_types import plain_classes
from structboost.files.schema import DamagedFileError
from structboost.masters.softmax_link import SoftmaxLink
from structboost.validation import shown


def facts_of(estimator: Any) -> dict[str, Any]:
    """Return the class name, plain parameters, names of features and labels for a model file."""
    facts = {"estimator": type(estimator).__name__, "parameters": plain_parameters(estimator)}
    if hasattr(estimator, "feature_names_in_"):
        facts["feature_names"] = estimator.feature_names_in_.tolist()
    if hasattr(estimator, "classes_"):
        facts |= plain_classes(estimator.classes_)
    return facts


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that a file can hold."""
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in parameters.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    """Whether a parameter is a plain value or a list of strings, which a file can hold."""
    if isinstance(value, list | tuple):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (bool, int, float, str, type(None)))


def saved_link(numbers: Any) -> SoftmaxLink | None:
    """Return the link of a saved classifier, or None if it has no probabilities."""
    if numbers is None:
        return None
    is_pair = isinstance(numbers, list) and len(numbers) == 2
    if not is_pair or not all(isinstance(one, float) and math.isfinite(one) for one in numbers):
        raise DamagedFileError(f"its link to probabilities is {shown(numbers)}")
    return SoftmaxLink(*numbers)


def saved_names(names: Any, n_features: int) -> list[str] | None:
    """Return the names of features in a file, if there are any, and check that none is missing."""
    if names is None:
        return None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or len(names) != n_features:
        raise DamagedFileError(f"its features have the names {shown(names)}")
    return list(names)
