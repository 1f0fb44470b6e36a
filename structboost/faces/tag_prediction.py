"""Prediction of a tagger, from the scores of tokens that are in memory together.

A scheme of chunks forbids pairs of tags.  The score of the tag O may be shifted, as the F1 of
held-out chunks decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, pairwise
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.contract.separation import best_outputs
from structboost.errors import examples_numbered
from structboost.faces.base import BoostedFace
from structboost.faces.forms import listed_tags
from structboost.faces.labels import label_vector
from structboost.faces.tokens import TokenReader, tag_indices
from structboost.linear.linear_trainer import HeldScores
from structboost.tasks.chunk_tags import (
    OUTSIDE,
    ChunkTags,
    Scheme,
    forbidden_by_scheme,
    has_tag,
    observed_pairs,
    scheme_of,
)
from structboost.validation import (
    AUTO,
    checked_choice,
    checked_number,
    checked_weights,
    is_same,
    shown,
)


def scheme_of_tags(scheme: Any, classes: AnyArray, tags: Sequence[IntArray]) -> str | None:
    """Return the scheme that predictions follow, if any.

    The tags are indices into ``classes``, -1 where unknown.  ValueError if there is no such scheme,
    or it lacks one of the tags.
    """
    if scheme is None:
        return None
    checked_choice(scheme, "scheme", Literal["auto", Scheme])
    names = [*classes.tolist(), None]
    if scheme == AUTO:
        if not ChunkTags.is_scheme(classes):
            return None
        return scheme_of(observed_pairs([names[k] for k in of] for of in tags))
    strange = next((tag for tag in names[:-1] if not has_tag(scheme, tag)), None)
    if strange is not None:
        raise ValueError(
            f"scheme is {scheme!r}, which does not have the tag {strange!r} of y; give the scheme "
            "of the tags, or None."
        )
    return str(scheme)


def pairs_of_scheme(scheme: Any, classes: AnyArray) -> list[tuple[Any, Any]]:
    """Return the pairs of tags that a scheme, if any, forbids."""
    return [] if scheme is None else forbidden_by_scheme(classes.tolist(), scheme)


# Shifts that are tried beside 0.
_CANDIDATES = (-1.0, -0.5, 0.5, 1.0, 1.5)
# Scores are logarithms of odds: a larger shift leaves no O, or nothing else.
_LARGEST = 100
# F1 without a shift below which nothing is shifted, since then F1 rewards chunks that are guessed.
_LEAST_F1 = 0.1
# Folds are used until so many true and predicted chunks are held out.
_ENOUGH_CHUNKS = 1500


def given_offset(offset: Any, classes: AnyArray) -> float | None:
    """Return the shift that a parameter gives, or None if it is to be chosen.

    ValueError or TypeError if it is neither a finite number nor ``"auto"``, or if there is no O.
    """
    if is_same(offset, AUTO):
        return None if ChunkTags.is_scheme(classes) else 0.0
    wanted = f"'auto', 0, or how much to lower the score of O, at most {_LARGEST}"
    if isinstance(offset, str) or not (
        abs(checked_number(offset, "outside_offset", wanted)) <= _LARGEST
    ):
        raise ValueError(f"outside_offset is {shown(offset)}; give {wanted}.")
    if offset and OUTSIDE not in classes.tolist():
        raise ValueError(
            f"outside_offset is {shown(offset)}, and y has no tag {OUTSIDE!r}; leave it out."
        )
    return float(offset)


def chosen_offset(task: Any, classes: AnyArray, held_out: Iterable[HeldScores]) -> float:
    """Return the shift of the score of O with the largest F1 of held-out chunks.

    It is 0 if no other candidate has a larger one.
    """
    chunks = ChunkTags(classes)
    offsets = np.array((0.0, *_CANDIDATES))
    parts, n_chunks = [], 0.0
    for fold, scores in held_out:
        true = np.concatenate([np.asarray(y) for y in fold.held_Y])
        starts = scores.offsets["token"]
        of_fold = [
            chunks.matches(
                true,
                np.concatenate(task.argmax_batch(fold.held_X, lowered(scores, chunks.outside, by))),
                starts,
            )
            for by in offsets
        ]
        weights = 1.0 if fold.held_weight is None else np.asarray(fold.held_weight)
        parts.append((weights * np.array(of_fold)).sum(axis=2))
        n_chunks += of_fold[0][1].sum()
        if n_chunks >= _ENOUGH_CHUNKS:
            break
    correct, total = np.sum(parts, axis=0).T
    f1 = 2.0 * correct / np.maximum(total, 1.0)
    if f1[0] < _LEAST_F1:
        return 0.0
    return float(offsets[f1.argmax()])


def lowered(scores: StackedParts, tag: int, offset: float) -> StackedParts:
    """Lower the scores of one tag in the scores of tokens."""
    if not offset:
        return scores
    rows = scores.rows["token"].copy()
    rows[:, tag] -= offset
    return StackedParts({**scores.rows, "token": rows}, scores.offsets)


# Scores of tags that are in memory together: 32 megabytes.
_MOST_SCORES = 1 << 22


class TagPrediction(BoostedFace):
    """Part of a tagger that predicts tags and their probabilities, and explains its scores.

    It needs the fitted attributes of :class:`structboost.StructBoostTagger`.
    """

    classes_: AnyArray
    outside_offset_: float
    _reader: TokenReader

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """Return the tags of each sequence with the highest total score.

        If tags mark chunks, the score of O is first lowered by ``outside_offset_``.

        Parameters
        ----------
        X : sequence, shape (n_sequences,)
            Sequences of tokens, as in :meth:`fit`.

        Returns
        -------
        tags : list of list, shape (n_sequences,)
            A tag for each token.

        Raises
        ------
        ValueError
            If tokens have another number of features than in training.
        """
        check_is_fitted(self)
        offset = self.outside_offset_
        outside = ChunkTags(self.classes_).outside if offset else 0

        def tags(inputs: list[None], scores: StackedParts) -> list[list[Any]]:
            lower = lowered(scores, outside, offset)
            return [
                self.classes_[predicted].tolist()
                for predicted in best_outputs(self.task_, inputs, lower)
            ]

        return self._by_blocks(X, tags)

    def predict_marginals(self, X: Sequence[Any]) -> list[list[dict[Any, float]]]:
        """Return the probability of each tag of each token, as a dict per token.

        A sequence of tags has the probability ``~ exp(score)``, which ``"log_loss"`` and
        ``"l1_log_loss"`` fit.  After training for the hinge, these numbers are not calibrated.

        Parameters
        ----------
        X : sequence, shape (n_sequences,)
            Sequences of tokens, as in :meth:`fit`.

        Returns
        -------
        probabilities : list of list of dict, shape (n_sequences,)
            The probability of each tag for each token.  Those of a token sum to 1.

        Raises
        ------
        ValueError
            If tokens have another number of features than in training.
        """
        check_is_fitted(self)
        tags = self.classes_.tolist()

        def marginals(inputs: list[None], scores: StackedParts) -> list[list[dict[Any, float]]]:
            task: Any = self.task_
            probabilities = task.tag_marginals(inputs, scores).tolist()
            by_token = [dict(zip(tags, of_token, strict=True)) for of_token in probabilities]
            return [by_token[a:b] for a, b in pairwise(scores.offsets["token"].tolist())]

        return self._by_blocks(X, marginals, self.temperature_ or 1.0)

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Return the fraction of correct tags, without tokens whose true tag is None.

        Parameters
        ----------
        X, y : sequences
            Sequences, and their tags.
        sample_weight : array-like, shape (n_sequences,), optional
            Weight of the tokens of each sequence.

        Returns
        -------
        score : float
            From 0 to 1.

        Raises
        ------
        ValueError
            If the tags do not fit the tokens, or no known tag has a weight above 0.
        """
        true, predicted, weights = self.outputs_for_metrics(y, self.predict(X), sample_weight)
        if weights is not None and not weights.any():
            raise ValueError("y has no known tag of a weight above 0; there is nothing to score.")
        return float(np.average(true == predicted, weights=weights))

    def outputs_for_metrics(
        self, true: Any, predicted: Any, sample_weight: Any
    ) -> tuple[AnyArray, AnyArray, Any]:
        """Return tags of all tokens for :func:`structboost.selection.structured_scorer`.

        Tokens whose true tag is None are left out.
        """
        lengths = [len(tags) for tags in predicted]
        _, indices = tag_indices(true, lengths, self.classes_)
        is_tagged = np.concatenate(indices) >= 0
        if not is_tagged.any():
            raise ValueError("y has no known tag; there is nothing to score.")
        listed = chain.from_iterable(listed_tags(true, lengths))
        tags = label_vector(list(compress(listed, is_tagged)))
        of_model = np.concatenate([np.asarray(of) for of in predicted])[is_tagged]
        if sample_weight is None:
            return tags, of_model, None
        weights = np.repeat(checked_weights(sample_weight, len(predicted)), lengths)
        return tags, of_model, weights[is_tagged]

    def _by_blocks(
        self, X: Any, predict: Callable[[list[None], StackedParts], list[Any]], factor: float = 1.0
    ) -> list[Any]:
        """Predict sequences from their scores times ``factor``, with few scores in memory."""
        rows, vectors, lengths = self._reader.read(X)
        transitions = factor * self.transitions_.reshape(1, -1)
        ends = np.cumsum(lengths)
        is_dense = not self._reader.is_active
        per_block = _MOST_SCORES // max(len(self.classes_), rows.shape[1] if is_dense else 1)
        out: list[Any] = []
        while len(out) < len(lengths):
            first = len(out)
            start = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, start + per_block, side="right")))
            here = slice(start, int(ends[last - 1]))
            tokens = rows[here]
            if not is_dense:
                # A token may have more active features than any in training.
                of_tokens = self.model_.scorer("token").raw_scores(tokens)
            else:
                dense = tokens.toarray() if sparse.issparse(tokens) else tokens
                of_tokens = self.model_.scores(dense, "token")
            if vectors is not None:
                of_tokens = of_tokens + self.model_.scores(vectors[here], "vector")
            n = last - first
            starts = np.concatenate(([0], ends[first:last] - start)).astype(np.int64)
            # One row of transitions in memory, for all sequences.
            steps = np.broadcast_to(transitions, (n, transitions.shape[1]))
            scores = StackedParts(
                {"token": of_tokens if factor == 1.0 else factor * of_tokens, "step": steps},
                {"token": starts, "step": np.arange(n + 1, dtype=np.int64)},
            )
            # Those of vectors are among the scores of the tokens.
            # The task reads of its inputs only where they are pieces of sequences.
            with examples_numbered(range(first, last)):
                out += predict([None] * n, scores)
        return out

    @property
    def transitions_(self) -> FloatArray:
        """Score of each tag (row) before each tag (column), shape (n_tags, n_tags)."""
        check_is_fitted(self)
        n_tags = len(self.classes_)
        return self.model_.scores(np.ones((1, 1)), "step").reshape(n_tags, n_tags)

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
        return np.asarray(sizes / sizes.sum() if sizes.sum() > 0 else sizes)
