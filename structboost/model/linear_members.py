"""Linear functions of the features of a part as weak learners of a model, one for each channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.parts import PartKind
from structboost.learners.active_feature import ActiveFeatureFamily, ActiveFeatureTable
from structboost.learners.linear_function import LinearFunctionTable
from structboost.model.ensemble import KindEnsemble


def one_function_each(table: LinearFunctionTable, n_features: int, first: int) -> KindEnsemble:
    """Return one linear function for each channel, with columns from index ``first`` on."""
    index: NDArray[np.int64] = np.arange(len(table.coefficients))
    return KindEnsemble(
        family="linear",
        learners=table,
        columns=first + index,
        term_learners=index,
        channels=index,
        coefficients=np.ones(len(index)),
        n_features=n_features,
    )


def plain_functions(
    weights: FloatArray,
    part: PartKind,
    first: int,
    spread: tuple[FloatArray, FloatArray] | None = None,
) -> KindEnsemble:
    """Return linear functions of unscaled features, from index ``first`` of the columns on.

    ``weights`` has the shape (width, n_channels), with those of the constant in the last row if the
    kind has one.  ``spread`` are the means and stds of the features in training, 0 and 1 if
    unknown.
    """
    n_features = len(weights) - part.has_bias
    coefficients = np.ascontiguousarray(weights[:n_features].T)
    intercept = weights[-1].copy() if part.has_bias else np.zeros(part.n_channels)
    statistics = spread if spread is not None else (np.zeros(n_features), np.ones(n_features))
    table = LinearFunctionTable(coefficients, intercept, *statistics)
    return one_function_each(table, n_features, first)


def active_functions(weights: FloatArray, part: PartKind, first: int, n_slots: int) -> KindEnsemble:
    """Return the single features whose weights on some channel are not zero.

    ``weights`` are as for :func:`plain_functions`, by the index of the active feature.  ``n_slots``
    is the largest number of active features of a part in training.
    """
    used = np.flatnonzero(weights.any(axis=1))
    feature = np.where(used < len(weights) - part.has_bias, used, -1).astype(np.int64)
    of_used = weights if len(used) == len(weights) else weights[used]
    place, channel = (index.astype(np.int64, copy=False) for index in np.nonzero(of_used))
    ones = np.ones(len(used))
    return KindEnsemble(
        family=ActiveFeatureFamily.name,
        learners=ActiveFeatureTable(feature, np.where(feature < 0, 1.0, 0.0), ones),
        columns=first + channel,
        term_learners=place,
        channels=channel,
        coefficients=of_used[place, channel],
        n_features=n_slots,
    )


def weights_of(member: KindEnsemble, part: PartKind, n_known: int | None = None) -> FloatArray:
    """Return the weights that :func:`plain_functions` or :func:`active_functions` took.

    ``n_known`` is the number of active features, if rows are indices of these.
    """
    if n_known is None:
        functions = member.learners
        assert isinstance(functions, LinearFunctionTable)
        constant = [functions.intercept] if part.has_bias else []
        return np.vstack((functions.coefficients.T, *constant))
    features = member.learners
    assert isinstance(features, ActiveFeatureTable)
    weights = np.zeros((n_known + part.has_bias, part.n_channels))
    # The constant has the index -1, and so the last row.
    weights[features.feature[member.term_learners], member.channels] = member.coefficients
    return weights
