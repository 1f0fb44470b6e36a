"""Names of the columns of data frames, by which later tables are read as training had them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost.errors import warn_user
from structboost.validation import frame_of, is_whole, lacks_and_has

# Text, or the whole numbers of frames of pandas.
Labels = Sequence[Any]


def labels_of(features: Any) -> list[Any] | None:
    """Return the labels of columns, text or whole numbers, or None without such labels.

    The features are a table, or those of one row in a series.  TypeError if some labels are text
    and others are not.
    """
    if features is None or isinstance(features, np.ndarray | list | tuple):
        return None
    frame = frame_of(features)
    index = frame.columns if frame is not None else getattr(features, "index", ())
    labels = [] if callable(index) else list(index)
    if not labels:
        return None
    n_texts = sum(isinstance(label, str) for label in labels)
    if frame is not None and 0 < n_texts < len(labels):
        other = next(label for label in labels if not isinstance(label, str))
        raise TypeError(
            f"X has columns named by text and others, such as {other!r}. Feature names are only "
            "supported if all input features have string names; write X.columns = "
            "X.columns.astype(str)."
        )
    return labels if are_labels(labels) else None


def are_labels(labels: list[Any]) -> bool:
    """Whether there are labels, and all are text, or all are whole numbers."""
    are_texts = all(isinstance(label, str) for label in labels)
    return bool(labels) and (are_texts or all(map(is_whole, labels)))


def plain_labels(labels: Labels | None) -> list[Any] | None:
    """Return labels as text and whole numbers of Python, which files hold."""
    return None if labels is None else [x if isinstance(x, str) else int(x) for x in labels]


def by_name(features: Any, names: Labels | None, place: str, estimator: str) -> Any:
    """Return features in the order of their ``names`` in training, if there are any.

    Errors and warnings call the features ``place``, and the class ``estimator``.  ValueError if
    names of training are missing, or others are there.  UserWarning if only one of the two has
    names.
    """
    columns = labels_of(features)
    has_names, had_names = (of is not None and isinstance(of[0], str) for of in (columns, names))
    if has_names and not had_names:
        warn_user(
            f"X has feature names, but {estimator} was fitted without feature names", UserWarning
        )
    if had_names and not has_names:
        warn_user(
            f"X does not have valid feature names, but {estimator} was fitted with feature names",
            UserWarning,
        )
    is_comparable = columns is not None and names is not None and has_names == had_names
    if not is_comparable or columns is None or names is None or columns == list(names):
        return features
    missing, unknown = sorted(set(names) - set(columns)), sorted(set(columns) - set(names))
    if missing or unknown:
        if not has_names and (_is_default(columns) or _is_default(names)):
            return features
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{place} {lacks_and_has(missing, unknown)}."
        )
    frame = frame_of(features)
    if frame is None:
        return features[list(names)]
    native = frame.to_native()
    is_pandas = hasattr(native, "iloc")
    return native[list(names)] if is_pandas else frame.select(list(names)).to_native()


def _is_default(labels: Labels) -> bool:
    """Whether labels are those that pandas gives to columns without names."""
    return list(labels) == list(range(len(labels)))
