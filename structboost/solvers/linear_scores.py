"""Parts of all kinds in one flat array, linear scores on them, and outputs at these scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, KindIndices, override
from structboost.contract.parts import Kinds, StackedParts, starts_of
from structboost.contract.separation import Separation
from structboost.errors import TaskError
from structboost.solvers.proximal_step import ORDERED, inner_products


class KindLayout(NamedTuple):
    """Position of one kind in the flat arrays of :class:`LinearScores`.

    Rows begin at ``first_feature`` in the values, and sparse ones there in the indices, too.
    """

    kind: str
    n_rows: int
    n_columns: int
    n_channels: int
    bounded: bool
    is_sparse: bool
    first_feature: int
    first_weight: int
    first_score: int


# First feature and weight, number, bound and sparsity of the features of scores.
Places = tuple[IntArray, IntArray, IntArray, BoolArray, BoolArray]


class Scores(ABC):
    """Base of features for block-coordinate Frank-Wolfe, described at :class:`LinearScores`.

    The features of a part may differ from channel to channel.
    """

    layouts: list[KindLayout]
    offsets: KindIndices
    n_weights: int
    n_scores: int
    has_bounds: bool
    features: tuple[AnyArray, IntArray]

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.offsets[self.layouts[0].kind]) - 1

    @abstractmethod
    def project(self, sums: FloatArray) -> FloatArray:
        """Project bounded weights to ``max(A, 0)``, and return the others as they are."""

    @abstractmethod
    def place(self, scores: IntArray) -> Places:
        """First feature and weight, number, bound and sparsity of features of flat ``scores``."""

    def origins(self, scores: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Index of the kind, row and channel of flat ``scores``."""
        first = np.array([a.first_score for a in self.layouts])
        of_kind = np.searchsorted(first, scores, side="right") - 1
        n_channels = np.array([a.n_channels for a in self.layouts])
        return of_kind, *np.divmod(scores - first[of_kind], n_channels[of_kind])


class LinearScores(Scores):
    """Parts of all examples and the linear scores on them, all kinds in one flat array.

    A kind whose weak learners respond in (-1, 1) gets a constant feature 1, the bias, as its last.
    A kind whose scores must not be negative (responses in (0, 1)) has bounded weights, ``W >= 0``,
    and no bias.

    Parameters
    ----------
    kinds : dict of str to PartKind
    matrices : dict of str to ndarray or csr_array, shape (n_parts, width)
        Features of all parts, and the bias.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First part of each example, by kind.

    Raises
    ------
    TaskError
        If a kind with bounded weights has a negative feature.

    Attributes
    ----------
    features : (ndarray of float64, ndarray of int64)
        Values, row after row and kind after kind, and indices of sparse features at the same
        places.
    n_weights, n_scores : int
        Weights are stored channel after channel, scores row after row, kind after kind.
    has_bounds : bool
        Whether any kind has bounded weights.
    """

    def __init__(self, kinds: Kinds, matrices: Mapping[str, Any], offsets: KindIndices) -> None:
        self.offsets = offsets
        for kind, part in kinds.items():
            if not part.has_bias:
                self._check_not_negative(kind, matrices[kind])
        self._matrices = {kind: table for kind, table in matrices.items() if sparse.issparse(table)}
        # Sparse features come first, so that their indices stand at the places of their values.
        values = {kind: matrix.data for kind, matrix in self._matrices.items()}
        values |= {kind: table.ravel() for kind, table in matrices.items() if kind not in values}
        starts = starts_of([of_kind.size for of_kind in values.values()])
        first_feature = dict(zip(values, starts.tolist(), strict=False))
        indices = [matrix.indices for matrix in self._matrices.values()]
        self.features = (
            np.concatenate([np.zeros(0), *values.values()]),
            np.concatenate([np.zeros(0, np.int64), *indices]).astype(np.int64),
        )
        self.layouts = []
        self.n_weights = self.n_scores = 0
        for kind, part in kinds.items():
            (n_rows, n_columns), n_channels = matrices[kind].shape, part.n_channels
            self.layouts.append(
                KindLayout(
                    kind, n_rows, n_columns, n_channels, not part.has_bias, kind in self._matrices,
                    first_feature[kind], self.n_weights, self.n_scores,
                )
            )  # fmt: skip
            self.n_weights += n_columns * n_channels
            self.n_scores += n_rows * n_channels
        self.has_bounds = any(a.bounded for a in self.layouts)

    def scores(self, weights: FloatArray) -> tuple[FloatArray, StackedParts]:
        """Scores of all parts under the flat ``weights``, as a flat array and as views by kind."""
        flat, rows = np.empty(self.n_scores), {}
        for a in self.layouts:
            end = a.first_score + a.n_rows * a.n_channels
            out = rows[a.kind] = flat[a.first_score : end].reshape(a.n_rows, a.n_channels)
            if a.is_sparse:
                out[:] = self._matrices[a.kind] @ np.ascontiguousarray(self.matrix(weights, a))
            else:
                end = a.first_feature + a.n_rows * a.n_columns
                values = self.features[0][a.first_feature : end]
                # A library of matrix products sums in an order that the processor decides, and then
                # steps end elsewhere within the gap (docs/decisions.md).
                inner_products(
                    a.n_rows, a.n_channels, a.n_columns, values,
                    weights[a.first_weight :], out.reshape(-1), ORDERED,
                )  # fmt: skip
        return flat, StackedParts(rows, self.offsets)

    @staticmethod
    def matrix(weights: FloatArray, layout: KindLayout) -> FloatArray:
        """Weights of a kind as a view of shape (n_columns, n_channels)."""
        end = layout.first_weight + layout.n_columns * layout.n_channels
        return weights[layout.first_weight : end].reshape(layout.n_channels, layout.n_columns).T

    @override
    def project(self, sums: FloatArray) -> FloatArray:
        weights = sums.copy()
        for a in self.layouts:
            if a.bounded:
                matrix = self.matrix(weights, a)
                np.maximum(matrix, 0.0, out=matrix)
        return weights

    @override
    def place(self, scores: IntArray) -> Places:
        of_kind, row, channel = self.origins(scores)

        def column(name: str) -> AnyArray:
            return np.array([getattr(a, name) for a in self.layouts])[of_kind]

        lengths = column("n_columns").astype(np.int64)
        first_weight = column("first_weight") + channel * lengths
        first_feature = column("first_feature") + row * lengths
        for index, a in enumerate(self.layouts):
            if a.is_sparse:
                members = np.flatnonzero(of_kind == index)
                at = self._matrices[a.kind].indptr.astype(np.int64)
                first_feature[members] = a.first_feature + at[row[members]]
                lengths[members] = np.diff(at)[row[members]]
        return first_feature, first_weight, lengths, column("bounded"), column("is_sparse")

    def _check_not_negative(self, kind: str, rows: Any) -> None:
        below = rows < 0
        counts = below.sum(axis=1) if sparse.issparse(rows) else below.any(axis=1)
        if counts.any():
            i = int(np.searchsorted(self.offsets[kind], np.argmax(counts > 0), side="right")) - 1
            raise TaskError(
                f"parts(X[{i}]) has a negative feature for kind {kind!r}, whose scores must not be "
                "negative; shift the feature, or give its positive and negative part as two."
            )


class FoundOutputs(NamedTuple):
    """Outputs of one exact pass, one for each example, kinds merged.

    Output i has the entries ``first_entry[i]:first_entry[i + 1]``; ``violations`` are the values
    ``Delta - <W, dPsi>`` at the scores of the pass.
    """

    losses: FloatArray
    violations: FloatArray
    first_entry: IntArray
    entry_score: IntArray
    entry_value: FloatArray


def merge_kinds(separation: Separation, parts: Scores, scores: StackedParts) -> FoundOutputs:
    """Flatten a separation made at ``scores`` of all examples."""
    n = scores.n_examples
    losses = np.asarray(separation.losses, dtype=np.float64)
    owners, entries, values = [], [], []
    for a in parts.layouts:
        difference = separation.differences[a.kind]
        owners.append(np.repeat(np.arange(n), np.diff(separation.indptr[a.kind])))
        entries.append(a.first_score + difference.parts * a.n_channels + difference.channels)
        values.append(difference.values)
    owner, entry, value = (np.concatenate(arrays) for arrays in (owners, entries, values))
    if len(parts.layouts) > 1:
        order = np.argsort(owner, kind="stable")
        owner, entry, value = owner[order], entry[order], value[order]
    violations = separation.violations(scores)
    bad = np.flatnonzero(~np.isfinite(violations))
    if len(bad):
        raise TaskError(
            f"The loss-augmented argmax of X[{bad[0]}] has a loss or joint feature that is "
            "not finite."
        )
    first_entry = starts_of(np.bincount(owner, minlength=n))
    return FoundOutputs(losses, violations, first_entry, entry, value)
