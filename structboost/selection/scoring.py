"""A user's own measurement of held-out data, in place of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer

from structboost.selection.folds import Fold, rows_of
from structboost.validation import shown

# ``score(model, fold)`` of a model of the other examples; larger is better.
Score = Callable[[Any, Fold], float]


def checked_score(score: Score, model: Any, fold: Fold) -> float:
    """The score of a model on the held-out part of a fold.

    Raises
    ------
    ValueError
        If it fails, or is no finite number.
    """
    try:
        value = score(model, fold)
    except Exception as error:
        raise ValueError(
            f"scoring failed on the examples held out to choose a parameter "
            f"({type(error).__name__}: {error}); give a scorer that takes predictions like these."
        ) from error
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(
            f"scoring gave {shown(value)} on the examples held out to choose a parameter; give a "
            "scorer whose values are finite numbers."
        )
    return number


def score_by(
    scoring: Any, as_fitted: Callable[[Any], Any], X: Any, y: Any, sample_weight: Any = None
) -> Score:
    """Score of a scikit-learn scorer, for the models of folds.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer of scikit-learn, or ``scorer(estimator, X, y)``.
    as_fitted : callable
        ``as_fitted(model)`` gives an estimator that predicts by the model.
    X, y : sequence
        What the scorer is given: the rows ``fold.held_rows`` of these.
    sample_weight : array-like, optional
        Weights of the rows, given to the scorer if there are any.

    Raises
    ------
    ValueError, TypeError
        If there is no such scorer.
    """
    if isinstance(scoring, str):
        try:
            scorer: Any = get_scorer(scoring)
        except ValueError:
            raise ValueError(
                f"scoring is {shown(scoring)}, which is no scorer of scikit-learn; "
                "sklearn.metrics.get_scorer_names() lists them."
            ) from None
    elif callable(scoring):
        scorer = scoring
    else:
        raise TypeError(
            f"scoring is {shown(scoring)}; give the name of a scorer of scikit-learn, or a "
            "function scorer(estimator, X, y)."
        )

    def score(model: Any, fold: Fold) -> float:
        rows = np.asarray(fold.held_rows)
        given = as_fitted(model), rows_of(X, rows), rows_of(y, rows)
        if sample_weight is None:
            return float(scorer(*given))
        return float(scorer(*given, sample_weight=np.asarray(sample_weight)[rows]))

    return score
