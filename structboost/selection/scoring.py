"""Measurement of held-out data by a user's score, in place of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer

from structboost.selection.folds import Fold
from structboost.validation import shown

# ``score(model, fold)`` of a model of the other examples; larger is better.
Score = Callable[[Any, Fold], float]


def checked_score(score: Score, model: Any, fold: Fold) -> float:
    """Return the score of a model on the held-out part of a fold.

    Raises
    ------
    ValueError
        If the score fails, or is not a finite number.
    """
    try:
        value = score(model, fold)
    except Exception as error:
        raise ValueError(
            f"scoring failed on the examples held out to choose a parameter "
            f"({type(error).__name__}: {error}); give a scorer that takes predictions like these."
        ) from error
    try:
        score_value = float(value)
    except (TypeError, ValueError):
        score_value = np.nan
    if not np.isfinite(score_value):
        raise ValueError(
            f"scoring returned {shown(value)} on the examples held out to choose a parameter; give "
            "a scorer whose values are finite numbers."
        )
    return score_value


def score_by(scoring: Any, held_out: Callable[[Any, Fold], tuple[Any, Any, Any]]) -> Score:
    """Return the score of a scikit-learn scorer, for the models of folds.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer of scikit-learn, which receives the weights of the examples, or
        ``scorer(estimator, X, y)``.
    held_out : callable
        ``held_out(model, fold)`` returns an estimator that predicts by the model, and the held-out
        inputs and true outputs as that estimator and the scorer take them.

    Raises
    ------
    ValueError, TypeError
        If there is no such scorer.
    """
    scorer: Any = scoring
    takes_weights = isinstance(scoring, str)
    if isinstance(scoring, str):
        try:
            scorer = get_scorer(scoring)
        except ValueError:
            raise ValueError(
                f"scoring is {shown(scoring)}, which is not a scorer of scikit-learn; "
                "sklearn.metrics.get_scorer_names() lists them."
            ) from None
    elif not callable(scoring):
        raise TypeError(
            f"scoring is {shown(scoring)}; give the name of a scorer of scikit-learn, or a "
            "function scorer(estimator, X, y)."
        )

    def score(model: Any, fold: Fold) -> float:
        weights = fold.held_weight
        if weights is None or not takes_weights:
            return float(scorer(*held_out(model, fold)))
        return float(scorer(*held_out(model, fold), sample_weight=np.asarray(weights)))

    return score
