"""Checks of what users pass in; every error names the argument, the sample and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def checked_features(features: Any, n_features: int) -> NDArray[Any]:
    """Features as a finite matrix of the width the model was trained on."""
    rows = np.asarray(features)
    if rows.dtype.kind not in "fiub":
        rows = rows.astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"features has shape {rows.shape}; the model was trained on {n_features} features a part.")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise ValueError(f"features[{bad}] has NaN or infinite entries; impute or drop them.")
    return rows


def checked_positive(value: Any, name: str) -> float:
    """``value`` as a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} is {value!r}; give a number above 0.")
    if not np.isfinite(value) or value <= 0:
        raise ValueError(f"{name} is {value!r}; it must be finite and above 0.")
    return float(value)


def checked_regularisation(value: Any, name: str) -> float:
    """``value`` as a number above 0, infinity included."""
    return value if isinstance(value, float) and value == np.inf else checked_positive(value, name)


def checked_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """``value`` as one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}.")
    return str(value)


def checked_example_weights(sample_weight: Any, n_examples: int) -> NDArray[np.float64]:
    """Shares of the examples in the risk; they sum to 1."""
    if sample_weight is None:
        return np.full(n_examples, 1.0 / n_examples)
    weights = np.asarray(sample_weight, dtype=np.float64).ravel()
    if len(weights) != n_examples:
        raise ValueError(f"sample_weight has {len(weights)} entries for {n_examples} examples.")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise ValueError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}; weights must be finite and >= 0.")
    if weights.sum() == 0:
        raise ValueError("sample_weight is zero everywhere; at least one example must count.")
    return np.asarray(weights / weights.sum())
