"""Classifier that trains ShareBoost."""

from __future__ import annotations

from typing import Any

from structboost._typing import override
from structboost.faces.base import estimator
from structboost.faces.classifiers import BoostedClassifier
from structboost.faces.recipe import Recipe
from structboost.learners.pricing import FreeSign
from structboost.learners.registry import WeakLearners
from structboost.objectives.logistic import Logistic


@estimator()
class ShareBoostClassifier(BoostedClassifier):
    """Classifier on few features that all classes share (ShareBoost).

    Features are chosen greedily, and all weights are fitted again in each round.  One fit gives the
    models for every number of features up to ``max_rounds``, which ``staged_predict`` visits.
    Shalev-Shwartz, Wexler and Shashua, NIPS 2011.

    Parameters
    ----------
    max_rounds : int
        Maximum number of features (or stumps).  Training stops earlier if no further one has a
        gradient.
    weak_learner : {"feature", "stump"} or callable
        Family to choose from: the features, scaled to -1..1, or stumps over all thresholds.
        ``functools.partial(PatchFamily, image_shape=...)`` chooses templates of image patches.
    C : float
        Weight of the loss against the squares of the weights; infinite for none.
    random_state : int, RandomState or None
        Seed for the held-out part.

    Attributes
    ----------
    history_ : list of dict
        One record per round; the gap is None.
    objective_ : float
        Mean loss (3) plus the squares of the weights over C.

    See Also
    --------
    structboost.StructBoostClassifier : Classifier to begin with.
    structboost.StructBoostMultiLabelClassifier : Classifier of sets of labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import ShareBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ShareBoostClassifier(max_rounds=3).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.feature_importances_.shape
    (4,)
    """

    max_rounds: int = 100
    weak_learner: WeakLearners = "feature"
    C: float = 1e4
    taxonomy: Any = None

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        return self._plain_recipe(
            Logistic(), lambda _: FreeSign(), are_shared=True, tol=0.0, columns_per_channel=1
        )
