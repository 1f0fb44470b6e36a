"""Weights and importances of the features of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray, override
from structboost.faces.base import BoostedFace
from structboost.faces.step_features import StepFeatures
from structboost.faces.tokens import TokenReader


class TokenWeights(BoostedFace):
    """Part of a tagger that explains its scores by the features of tokens.

    It needs the fitted attributes of :class:`structboost.StructBoostTagger`.
    """

    classes_: NDArray[Any]
    _reader: TokenReader
    _steps: StepFeatures | None

    @property
    def transitions_(self) -> FloatArray:
        """Score of each tag (row) before each tag (column), shape (n_tags, n_tags)."""
        check_is_fitted(self)
        n_tags = len(self.classes_)
        row = np.ones((1, 1)) if self._steps is None else np.full((1, 1), -1)
        return self.model_.scores(row, "step").reshape(n_tags, n_tags)

    @property
    def transition_columns_(self) -> IntArray:
        """Indices of the features on which scores of pairs of tags depend, in ascending order."""
        check_is_fitted(self)
        return np.zeros(0, np.int64) if self._steps is None else self._steps.columns

    @property
    def transition_weights_(self) -> FloatArray:
        """Amount that features of a token add to the score of each tag before each tag.

        The shape is (n_transition_features, n_tags, n_tags), by ``transition_columns_``.  The
        second tag is that of the token with the feature.
        """
        columns, n_tags = self.transition_columns_, len(self.classes_)
        if self._steps is None:
            return np.zeros((0, n_tags, n_tags))
        learners, matrix = self.model_.members["step"].learners, self.model_.matrix("step")
        linear: Any = learners.as_linear(matrix, len(columns))
        return np.asarray(linear[0].reshape(-1, n_tags, n_tags))

    @property
    def feature_weights_(self) -> FloatArray:
        """Amount that each feature (row) adds to the score of each tag (column).

        That is where the feature is present, and for each unit of a number.
        """
        kinds = self._columns_of_kinds()
        weights, _ = self._linear_weights("token")
        if "vector" in kinds:
            weights[kinds["vector"]] += self._linear_weights("vector")[0]
        return weights

    @property
    def intercept_(self) -> FloatArray:
        """Score of each tag of a token whose features are all 0, shape (n_tags,)."""
        of_kinds = [self._linear_weights(kind)[1] for kind in self._columns_of_kinds()]
        return np.asarray(np.sum(of_kinds, axis=0))

    def _columns_of_kinds(self) -> dict[str, IntArray]:
        """Return the kinds of parts of tokens, and the columns of features that they have."""
        check_is_fitted(self)
        columns = self._reader.vector_columns
        kinds = {"token": np.arange(int(self.n_features_in_ or 0))}
        return kinds | ({"vector": columns} if len(columns) else {})

    def _linear_weights(self, kind: str) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the features of a kind, and the score without them.

        Raises
        ------
        AttributeError
            If learners are neither single features nor linear functions.
        """
        member, matrix = self.model_.members[kind], self.model_.matrix(kind)
        learners = member.learners
        n_features = len(self._columns_of_kinds()[kind])
        if not len(learners):  # all tokens have one tag
            return np.zeros((n_features, len(self.classes_))), np.zeros(len(self.classes_))
        linear = learners.as_linear(matrix, n_features)
        if linear is None:
            raise AttributeError(
                f"feature_weights_ and intercept_ are missing, because the learners are of the "
                f"family {member.family!r}, whose parts do not add up; read feature_importances_."
            )
        return linear

    @property
    @override
    def feature_importances_(self) -> FloatArray:
        check_is_fitted(self)
        if not self._reader.is_active:
            return self.model_.feature_importances("token")
        sizes = np.zeros(int(self.n_features_in_ or 0))
        for kind, columns in self._columns_of_kinds().items():
            learners = self.model_.members[kind].learners
            sizes[columns] += learners.feature_sizes(self.model_.matrix(kind), len(columns))
        if len(columns := self.transition_columns_):
            learners = self.model_.members["step"].learners
            sizes[columns] += learners.feature_sizes(self.model_.matrix("step"), len(columns))
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else sizes)
