"""Scores of columns as the linear scores of block-coordinate Frank-Wolfe.

Where each column is one weak learner on one channel, the score of a part on a channel is linear in
the weights of the columns of that channel: its features are their responses on the part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.learners.terms import Terms
from structboost.objectives.slack_oracle import SlackOracle
from structboost.runtime.compiled import compiled
from structboost.solvers.linear_scores import KindLayout, Places, Scores, starts_of


class ColumnScores(Scores):
    """Columns of a master as features of :class:`structboost.solvers.block_frank_wolfe.Scores`.

    All weights are bounded.

    Parameters
    ----------
    oracle : SlackOracle
        Its columns have one term each.

    Attributes
    ----------
    columns : ndarray of int64, shape (n_weights,)
        Index of the column of each weight.
    features : (ndarray of float64, ndarray of int64)
        Features of the scores that :meth:`place` gathered so far, without indices.
    n_weights, n_scores : int
    layouts : list of KindLayout
    """

    has_bounds = True

    def __init__(self, oracle: SlackOracle) -> None:
        self.offsets = oracle.offsets
        self.layouts: list[KindLayout] = []
        self.n_scores = self.n_weights = 0
        self.features = np.zeros(0), np.zeros(0, np.int64)
        columns = []
        # For each kind: terms channel by channel, where channels begin, responses.
        self._kinds: list[tuple[Terms, IntArray, NDArray[Any]]] = []
        for kind, terms in oracle.columns.terms.items():
            n_rows, n_channels = int(self.offsets[kind][-1]), oracle.n_channels[kind]
            layout = KindLayout(
                kind, n_rows, len(terms.columns), n_channels, True, False,
                0, self.n_weights, self.n_scores,
            )  # fmt: skip
            self.layouts.append(layout)
            by_channel = terms.take(np.argsort(terms.channels, kind="stable"))
            starts = np.searchsorted(by_channel.channels, np.arange(n_channels + 1))
            self._kinds.append((by_channel, starts, oracle.responses[kind].rows))
            columns.append(by_channel.columns)
            self.n_weights += len(by_channel.columns)
            self.n_scores += n_rows * n_channels
        self.columns = np.concatenate(columns)
        # Where the features of a score begin, once they are gathered; -1 before.
        self._first_feature = np.full(self.n_scores, -1)
        self._n_gathered = 0

    def flatten(self, scores: StackedParts, places: IntArray, flat: FloatArray) -> None:
        """Fill these ``places`` of the flat array of scores, row after row, kind after kind."""
        of_kind, rows, channels = self.origins(places)
        for index, a in enumerate(self.layouts):
            entries = np.flatnonzero(of_kind == index)
            flat[places[entries]] = scores.rows[a.kind][rows[entries], channels[entries]]

    def by_kind(self, flat: FloatArray) -> dict[str, FloatArray]:
        """Split a flat array of scores by kind."""
        ends = [a.first_score for a in self.layouts[1:]]
        parts = zip(self.layouts, np.split(flat, ends), strict=True)
        return {a.kind: of_kind.reshape(-1, a.n_channels) for a, of_kind in parts}

    @override
    def project(self, sums: FloatArray) -> FloatArray:
        return np.maximum(sums, 0.0)

    @override
    def place(self, scores: IntArray) -> Places:
        of_kind, rows, channels = self.origins(scores)
        lengths, first_weight = np.zeros(len(scores), np.int64), np.zeros(len(scores), np.int64)
        for index, (a, (_, starts, _)) in enumerate(zip(self.layouts, self._kinds, strict=True)):
            entries = np.flatnonzero(of_kind == index)
            lengths[entries] = np.diff(starts)[channels[entries]]
            first_weight[entries] = a.first_weight + starts[channels[entries]]
        new = np.flatnonzero(self._first_feature[scores] < 0)
        if len(new):
            first = self._n_gathered + starts_of(lengths[new])
            self._first_feature[scores[new]] = first[:-1]
            values = self._room_for(int(first[-1]))
            for index, (terms, starts, responses) in enumerate(self._kinds):
                entries = np.flatnonzero(of_kind[new] == index)
                _gather(
                    rows[new[entries]], channels[new[entries]], starts, terms.learners,
                    terms.coefficients, responses, first[entries], values,
                )  # fmt: skip
        everywhere = np.ones(len(scores), np.bool_)
        return self._first_feature[scores], first_weight, lengths, everywhere, ~everywhere

    def _room_for(self, n: int) -> FloatArray:
        """Return the array of features, lengthened to at least ``n`` if need be."""
        values = self.features[0]
        if n > len(values):
            longer = np.empty(max(n, 3 * len(values) // 2))
            longer[: self._n_gathered] = values[: self._n_gathered]
            self.features = longer, self.features[1]
        self._n_gathered = n
        return self.features[0]


@compiled
def _gather(
    rows: IntArray,
    channels: IntArray,
    starts: IntArray,
    learners: IntArray,
    coefficients: FloatArray,
    responses: NDArray[Any],
    first_feature: IntArray,
    values: FloatArray,
) -> None:
    for s in range(len(rows)):
        at = first_feature[s]
        for t in range(starts[channels[s]], starts[channels[s] + 1]):
            values[at] = coefficients[t] * responses[learners[t], rows[s]]
            at += 1
