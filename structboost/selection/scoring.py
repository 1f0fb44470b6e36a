"""Measurement of held-out data by a user's score, in place of the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
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


@runtime_checkable
class HasOutputsForMetrics(Protocol):
    """Estimator whose outputs are lists, which metrics of scikit-learn do not take."""

    classes_: NDArray[Any]

    def outputs_for_metrics(
        self, true: Any, predicted: Any, sample_weight: Any
    ) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """Return true and predicted outputs, and weights, in a form that metrics take."""
        ...


@dataclass(frozen=True, repr=False)
class StructuredScorer:
    """Scorer ``scorer(estimator, X, y)`` that :func:`structured_scorer` makes."""

    score: str | Callable[..., float]
    arguments: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of predictions, of which a larger one is better."""
        face = _last_step(estimator)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not isinstance(face, HasOutputsForMetrics):
            if isinstance(self.score, str):
                return float(get_scorer(self.score)(estimator, X, y, **weights))
            return float(self.score(y, estimator.predict(X), **self.arguments, **weights))
        true, predicted, of_outputs = face.outputs_for_metrics(
            y, estimator.predict(X), sample_weight
        )
        if of_outputs is not None:
            weights = {"sample_weight": of_outputs}
        if not isinstance(self.score, str):
            return float(self.score(true, predicted, **self.arguments, **weights))
        with_predictions = _WithPredictions(estimator, face.classes_, predicted)
        return float(get_scorer(self.score)(with_predictions, X, true, **weights))

    def __repr__(self) -> str:
        name = self.score if isinstance(self.score, str) else self.score.__name__
        more = "".join(f", {key}={value!r}" for key, value in self.arguments.items())
        return f"structured_scorer({name!r}{more})"


class _WithPredictions(ClassifierMixin, BaseEstimator):
    """Estimator that returns predictions computed before."""

    def __init__(self, estimator: Any, classes: NDArray[Any], predicted: NDArray[Any]) -> None:
        self.estimator, self.classes_, self.predicted = estimator, classes, predicted

    def predict(self, X: Any) -> NDArray[Any]:
        return self.predicted

    def __getattr__(self, name: str) -> Any:
        if name in ("decision_function", "predict_proba"):
            return getattr(self.estimator, name)
        raise AttributeError(name)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _last_step(estimator: Any) -> Any:
    """Return the estimator that predicts, behind pipelines and searches."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def structured_scorer(score: Any = "f1_micro", **arguments: Any) -> StructuredScorer:
    """Make a scorer that takes lists of labels, and tags of sequences.

    Scorers of scikit-learn take arrays: one label, or a row of 0 and 1, for each sample.  This one
    compares label sets as rows of 0 and 1, and sequences as tags of all their tokens, without those
    whose true tag is None.  Other estimators are scored as scikit-learn does.  Searches and
    ``cross_val_score`` need ``cv=KFold(5)`` for lists, because ``cv=5`` looks for strata in them.

    Parameters
    ----------
    score : str or callable
        Name of a scorer of scikit-learn, such as ``"f1_micro"``, ``"accuracy"`` or
        ``"jaccard_samples"``, or a metric ``score(y_true, y_pred)``, of which more is better.
    **arguments
        Further arguments of a metric.

    Returns
    -------
    scorer : StructuredScorer
        Function ``scorer(estimator, X, y, sample_weight=None)``.  In pipelines and searches, the
        last step decides on the form.

    Raises
    ------
    TypeError, ValueError
        If there is no such scorer, or a name has further arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from structboost import StructBoostMultiLabelClassifier
    >>> from structboost.selection import structured_scorer
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = [["high"] * int(a > 0) + ["wide"] * int(b > 0) for a, b in X]
    >>> classifier = StructBoostMultiLabelClassifier(max_iter=10)
    >>> scores = cross_val_score(
    ...     classifier, X, y, scoring=structured_scorer("f1_micro"), cv=KFold(3)
    ... )
    >>> bool(scores.min() > 0.8)
    True
    """
    if isinstance(score, str):
        _named_scorer(score)
        if arguments:
            raise ValueError(
                f"structured_scorer has {shown(score)} and {', '.join(arguments)}; give a metric, "
                "such as sklearn.metrics.f1_score, with further arguments."
            )
    elif not callable(score):
        raise TypeError(
            f"score is {shown(score)}; give the name of a scorer of scikit-learn, or a metric "
            "score(y_true, y_pred)."
        )
    return StructuredScorer(score, arguments)


def _named_scorer(name: str) -> Any:
    try:
        return get_scorer(name)
    except ValueError:
        raise ValueError(
            f"scoring is {shown(name)}, which is not a scorer of scikit-learn; "
            "sklearn.metrics.get_scorer_names() lists them."
        ) from None


def score_by(scoring: Any, held_out: Callable[[Any, Fold], tuple[Any, Any, Any]]) -> Score:
    """Return the score of a scikit-learn scorer, for the models of folds.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer of scikit-learn, which receives the weights of the examples, and label
        sets and tags as :func:`structured_scorer` gives them, or ``scorer(estimator, X, y)``.
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
        scorer = structured_scorer(scoring)
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
