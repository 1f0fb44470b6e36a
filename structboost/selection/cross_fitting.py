"""Predictions on training data by models that were trained without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.interrupts import uninterrupted


def cross_fit(
    folds: IntArray,
    fit: Callable[..., Any],
    training: Sequence[tuple[Any, ...]],
    predict: Callable[[Any, NDArray[np.bool_]], FloatArray],
    *,
    n_jobs: int | None = None,
) -> tuple[list[Any], FloatArray]:
    """Train a model for each fold without it, and predict the fold by that model.

    Parameters
    ----------
    folds : ndarray of int, shape (n_rows,)
        Fold of each row, from 0.
    fit : callable
        ``fit(*training[k])`` trains the model of fold k; pickled where processes are used.
    training : sequence of tuples, one per fold
        Arguments of ``fit`` for each model, from rows of the other folds.
    predict : callable
        ``predict(model, inside)`` returns the predictions of a model on the rows under a mask.
    n_jobs : int or None
        Number of processes; the result does not depend on it.

    Returns
    -------
    models : list
        One per fold.
        predictions : ndarray, shape (n_rows, n_outputs)
    """
    work = joblib.delayed(fit_on_one_thread)
    models = joblib.Parallel(n_jobs=n_jobs)(work(fit, *rows) for rows in training)
    predictions: FloatArray | None = None
    for fold, model in enumerate(models):
        inside = folds == fold
        with one_blas_thread():
            part = predict(model, inside)
        if predictions is None:
            predictions = np.empty((len(folds), part.shape[1]))
        predictions[inside] = part
    return models, np.empty((0, 0)) if predictions is None else predictions


def fit_on_one_thread(fit: Callable[..., Any], *arguments: Any) -> Any:
    """Fit on one thread, since several would add sums in another order."""
    with threadpool_limits(1):
        return uninterrupted(partial(fit, *arguments))
