"""Features of tokens on which the scores of pairs of tags depend, and weights of all features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from structboost._typing import AnyArray, FloatArray, IntArray, ShortArray, override
from structboost.faces.base import BoostedFace
from structboost.faces.tokens import TokenReader
from structboost.learners.active_feature import active_features
from structboost.validation import shown

# Characters after the name of an entry of a dict, in the names of its features.
_ENDS = ("=", ":")


class StepFeatures:
    """Active features of tokens that are features of the step to the token, too.

    Parameters
    ----------
    columns : ndarray of int64
        Indices of the features, in ascending order.
    n_features : int
        Number of features of a token.
    """

    def __init__(self, columns: IntArray, n_features: int) -> None:
        self.columns, self.n_features = columns, n_features

    def of_tokens(self, rows: Any) -> sparse.csr_array:
        """Return the chosen features of tokens, shape (n_tokens, n_chosen).

        Parameters
        ----------
        rows : sparse array or ndarray of int
            Zeros and ones, or indices of active features, filled up with -1.
        """
        if not sparse.issparse(rows):
            used = rows >= 0
            ends = np.concatenate(([0], np.cumsum(used.sum(axis=1))))
            shape = len(rows), max(self.n_features, 1 + int(rows.max(initial=-1)))
            rows = sparse.csr_array((np.ones(int(ends[-1])), rows[used], ends), shape)
        return sparse.csr_array(rows[:, self.columns])

    def of_sequences(self, rows: Sequence[AnyArray]) -> list[ShortArray]:
        """Return the features of the steps of sequences, as rows of active features."""
        tokens = active_features(self.of_tokens(np.concatenate(rows)))
        return [table[1:] for table in np.split(tokens, np.cumsum([*map(len, rows)])[:-1])]


def chosen_columns(features: Any, reader: TokenReader) -> IntArray:
    """Return the indices of the features that ``transition_features`` names.

    Parameters
    ----------
    features : sequence of str or of int, or callable
        Names of entries of tokens, indices of columns, or a function of the name of a feature.
    reader : TokenReader
        After it has read the training tokens.

    Raises
    ------
    ValueError, TypeError
        If it names no features, or numbers, or is of another kind.
    """
    names, n_features = reader.names, int(reader.n_features or 0)
    wanted = "give a list of names, of indices of columns, or a function of the name of a feature"
    if callable(features):
        columns = _matching(features, names)
    elif isinstance(features, str):
        raise TypeError(f"transition_features is {features!r}; give a list, [{features!r}].")
    elif isinstance(features, bytes) or not isinstance(features, Iterable):
        raise TypeError(f"transition_features is {shown(features)}; {wanted}.")
    else:
        items = list(features)
        texts = [item for item in items if isinstance(item, str)]
        is_whole = all(
            isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items
        )
        if not items:
            raise ValueError(f"transition_features is empty; leave it out, or {wanted}.")
        if not (len(texts) == len(items) or is_whole):
            raise TypeError(f"transition_features is {shown(features)}; {wanted}.")
        if texts:
            for text in texts:
                if not len(_matching(_is_of(text), names)):
                    raise _unknown(text, reader)
            columns = _matching(lambda name: any(_is_of(text)(name) for text in texts), names)
        else:
            columns = np.unique(np.array(items, np.int64))
            if columns[0] < 0 or columns[-1] >= n_features:
                raise ValueError(
                    f"transition_features is {shown(features)}, and tokens have {n_features} "
                    f"features; give indices from 0 to {n_features - 1}."
                )
    if not len(columns):
        raise ValueError("transition_features is true for no feature; leave it out.")
    if len(dense := np.intersect1d(columns, reader.vector_columns)):
        raise ValueError(
            f"transition_features has the feature {reader.name_of(int(dense[0]))}, whose values "
            "are numbers; give features of 0 and 1, such as strings."
        )
    return columns


def _matching(is_chosen: Callable[[str], Any], names: Sequence[str] | None) -> IntArray:
    """Return the indices of the names for which a function is true."""
    if names is None:
        raise ValueError(
            "transition_features is of names, and X has columns without names; give indices of "
            "columns."
        )
    return np.flatnonzero([bool(is_chosen(name)) for name in names]).astype(np.int64)


def _unknown(entry: str, reader: TokenReader) -> ValueError:
    """Return the error about a name that is of no feature, with names that begin like it."""
    names = reader.names or []
    first = f"{entry}[0]"
    if any(names[int(column)] == first for column in reader.vector_columns):
        return ValueError(
            f"transition_features names {entry!r}, whose values are vectors of numbers; give "
            "features of 0 and 1, such as strings."
        )
    entries = list(dict.fromkeys(name.partition("=")[0] for name in names))
    alike = [name for name in entries if name.startswith(entry)]
    return ValueError(
        f"transition_features names {entry!r}, which no token has; give names of entries of "
        f"tokens, such as {shown((alike or entries)[:3])}."
    )


def _is_of(entry: str) -> Callable[[str], bool]:
    """Return whether the name of a feature is of an entry of tokens."""
    starts = tuple(entry + end for end in _ENDS)
    return lambda name: name == entry or name.startswith(starts)


class TokenWeights(BoostedFace):
    """Part of a tagger that explains its scores by the features of tokens.

    It needs the fitted attributes of :class:`structboost.StructBoostTagger`.
    """

    classes_: AnyArray
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
