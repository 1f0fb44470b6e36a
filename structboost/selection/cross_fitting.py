"""Answers on training data by models that have not seen it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray
from structboost.runtime.blas_threads import one_blas_thread


def cross_fit(
    folds: IntArray,
    fit: Callable[..., Any],
    training: Sequence[tuple[Any, ...]],
    answers: Callable[[Any, NDArray[np.bool_]], FloatArray],
    *,
    n_jobs: int | None = None,
) -> tuple[list[Any], FloatArray]:
    """Train a model for each fold without it, and ask that model about the fold.

    Parameters
    ----------
    folds : ndarray of int, shape (n_rows,)
        Fold of each row, from 0.
    fit : callable
        ``fit(*training[k])`` trains the model of fold k; pickled where processes are used.
    training : sequence of tuples, one per fold
        What each model is trained on: rows of the other folds.
    answers : callable
        ``answers(model, inside)`` gives those of a model on the rows under a mask.
    n_jobs : int or None
        Number of processes; the result does not depend on it.

    Returns
    -------
    models : list
        One per fold.
    found : ndarray, shape (n_rows, n_answers)
    """
    work = joblib.delayed(_fit_on_one_thread)
    models = joblib.Parallel(n_jobs=n_jobs)(work(fit, *own) for own in training)
    found: FloatArray | None = None
    for fold, model in enumerate(models):
        inside = folds == fold
        with one_blas_thread():
            own = answers(model, inside)
        if found is None:
            found = np.empty((len(folds), own.shape[1]))
        found[inside] = own
    return models, np.empty((0, 0)) if found is None else found


def _fit_on_one_thread(fit: Callable[..., Any], *arguments: Any) -> Any:
    """One thread: sums of several would be added in another order."""
    with threadpool_limits(1):
        return fit(*arguments)
