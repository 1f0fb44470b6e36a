"""Columns of data frames are found by their names, whatever their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost.estimators.table_columns import frame_of
from structboost.exceptions import warn_user


def names_of(features: Any) -> list[str] | None:
    """Return the names of features, if all have one that is text.

    Parameters
    ----------
    features : array-like, data frame, or series of pandas
        A table of features, or those of one row by their names.
    """
    if features is None or isinstance(features, np.ndarray | list | tuple):
        return None
    frame = frame_of(features)
    names = list(frame.columns if frame is not None else getattr(features, "index", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def by_name(features: Any, names: list[str] | None, place: str, estimator: str) -> Any:
    """Return features in the order in which training had them.

    Parameters
    ----------
    features : array-like, data frame, or series of pandas
        Without names they are returned as they are.
    names : list of str or None
        Names of the features in training.
    place, estimator : str
        What errors and warnings call the features, and the class.

    Raises
    ------
    ValueError
        If names of training are missing, or others are there.

    Warns
    -----
    UserWarning
        If only one of the two has names.
    """
    columns = names_of(features)
    if columns is not None and names is None:
        warn_user(
            f"X has feature names, but {estimator} was fitted without feature names", UserWarning
        )
    if columns is None and names is not None:
        warn_user(
            f"X does not have valid feature names, but {estimator} was fitted with feature names",
            UserWarning,
        )
    if columns is None or names is None or columns == names:
        return features
    missing, unknown = sorted(set(names) - set(columns)), sorted(set(columns) - set(names))
    if missing or unknown:
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{place} lacks {missing} and has {unknown}."
        )
    frame = frame_of(features)
    return features[names] if frame is None else frame.select(names).to_native()
