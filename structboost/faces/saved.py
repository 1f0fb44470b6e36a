"""Files of estimators, and their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from structboost._typing import IntArray, PathName
from structboost.errors import ModelFileError
from structboost.faces.labels import plain_classes
from structboost.files.archive import DamagedFileError, finite_number, whole_number
from structboost.model.ensemble import FORMAT, read_model
from structboost.objectives.base import SoftmaxLink
from structboost.objectives.values import flat_parameters
from structboost.validation import shown

# Keys of the forms of tuples and dicts in files.
_TUPLE, _DICT = "tuple", "dict"
# Levels of lists in lists that a parameter in a file may have: what reads JSON has a limit too.
_MOST_LEVELS = 100


def save_estimator(face: Any, path: PathName) -> None:
    """Write the model of an estimator to a file, with its parameters and facts in the metadata."""
    check_is_fitted(face)
    metadata = {
        **face.model_.metadata,
        "estimator": type(face).__name__,
        "parameters": plain_parameters(flat_parameters(face)),
    }
    if hasattr(face, "classes_"):
        metadata |= plain_classes(face.classes_)
    replace(face.model_, metadata={**metadata, **face._facts()}).save(path)


def load_estimator(cls: Any, path: PathName) -> Any:
    """Read an estimator from a file, whose metadata may be damaged."""
    model = read_model(path)
    facts = model.metadata
    if facts.get("estimator") != cls.__name__:
        name = facts.get("estimator", facts.get("trainer", "StructBoost"))
        raise ModelFileError(f"{path} holds a {name} model; load it with that class.")
    with FORMAT.damage(path):
        loaded = cls(**restored_parameters(facts["parameters"]))
        loaded.model_ = model
        loaded._restore(facts)
    return loaded


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a file can hold, for :func:`restored_parameters`."""
    plain = {}
    for name, value in parameters.items():
        with suppress(TypeError):
            plain[name] = _plain(value)
    return plain


def restored_parameters(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters from a file, with tuples and dicts as they were."""
    return {name: _restored(value) for name, value in plain.items()}


def _plain(value: Any, n_levels: int = _MOST_LEVELS) -> Any:
    """Return a value as JSON holds it, or raise TypeError if it cannot, or is nested too deeply.

    Sets and arrays become lists.  A tuple is ``{"tuple": items}``, and a dict ``{"dict": pairs}``,
    because its keys need not be strings.
    """
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    plain = partial(_plain, n_levels=n_levels - 1)
    if n_levels and isinstance(value, list):
        return [plain(item) for item in value]
    if n_levels and type(value) is tuple:
        return {_TUPLE: [plain(item) for item in value]}
    if n_levels and isinstance(value, dict):
        return {_DICT: [[plain(key), plain(item)] for key, item in value.items()]}
    raise TypeError(f"{shown(value)} is not plain")


def _restored(value: Any) -> Any:
    """Return the value that :func:`_plain` took."""
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and isinstance(items := value.get(_TUPLE), list):
        return tuple(map(_restored, items))
    pairs = value.get(_DICT)
    if len(value) != 1 or not isinstance(pairs, list):
        raise DamagedFileError(f"a parameter is {shown(value)}")
    return {_restored(key): _restored(item) for key, item in pairs}


def saved_link(values: Any) -> SoftmaxLink | None:
    """Return the link of a saved classifier, or None if it has no probabilities."""
    if values is None:
        return None
    pair = [finite_number(value, "link to probabilities") for value in values]
    if len(pair) != 2:
        raise DamagedFileError(f"its link to probabilities is {shown(values)}")
    return SoftmaxLink(*pair)


def saved_names(names: Any, n_features: int) -> list[str] | None:
    """Return the names of features in a file, if there are any, and check that none is missing."""
    if names is None:
        return None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or len(names) != n_features:
        raise DamagedFileError(f"its features have the names {shown(names)}")
    return list(names)


def saved_indices(indices: Any, n_features: int) -> IntArray:
    """Return the indices of features in a file, and check that each is of one."""
    return np.array(
        [
            whole_number(index, "index of a feature", low=0, high=n_features - 1)
            for index in indices
        ],
        np.int64,
    )
