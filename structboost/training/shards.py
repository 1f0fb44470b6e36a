"""Training set in shards, runs of blocks of examples with responses of learners and cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, Examples, FloatArray, IntArray
from structboost.contract.calls import LastOutputs, separation
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptListings, KeptTruth, Separation
from structboost.contract.task import Task
from structboost.learners.binning import Thresholds, bin_codes
from structboost.learners.responses import (
    BlockMeasure,
    FeaturesOfRows,
    Responses,
    ResponsesInShard,
    ShardFeatures,
    SparseResponses,
    StoredResponses,
    add_measure,
    block_measure,
)
from structboost.learners.terms import KindTerms
from structboost.runtime.blocks import Blocks, tree_sum

# By kind, of what the shards make the responses of its weak learners.
FeaturesInShards = Mapping[str, ShardFeatures]


@dataclass(frozen=True)
class GivenRows:
    """Features as they are, shape (n_rows, n_features)."""

    features: AnyArray

    def codes(self, bins: Thresholds) -> AnyArray:
        """Bins of the rows."""
        return bin_codes(self.features, bins)

    def rows(self) -> AnyArray:
        """The features."""
        return self.features


@dataclass
class Shard:
    """Rows, responses of the weak learners and cuts of a run of blocks.

    It is plain data, which can be sent to a worker, until :meth:`shard` is called there.  Its state
    follows from that data, the learners added and the cuts made.  Every sum that it returns is over
    its blocks, along their tree (:mod:`structboost.runtime.blocks`).

    Parameters
    ----------
    task : Task
    X : sequence or None
        Inputs; None where the task does not look at them (:attr:`structboost.Task.reads_inputs`).
    Y : sequence
        True outputs.
    example_weights : ndarray, shape (n_examples,)
        Weight of each example in the risk.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First row of each example, by kind, from 0.
    blocks : Blocks
        Blocks of the shard, numbered from 0.
    in_shards : dict of str to ShardFeatures
        Those of the kinds whose responses are made here.
    features : dict of str to FeaturesOfRows
        Features of those kinds.
    first_example : int
        Number of the first example among all, for errors.
    """

    task: Task
    X: Examples | None
    Y: Examples
    example_weights: FloatArray
    offsets: Mapping[str, IntArray]
    blocks: Blocks
    in_shards: FeaturesInShards
    features: Mapping[str, FeaturesOfRows]
    first_example: int = 0

    n_channels: Mapping[str, int] = field(init=False)
    cuts: dict[int, Mapping[str, Sequence[BlockMeasure]]] = field(init=False, default_factory=dict)
    _in_shard: Mapping[str, ResponsesInShard] = field(init=False)
    _responses: dict[str, Responses] = field(init=False)
    _truth: Sequence[KeptTruth] = field(init=False)
    _last: Sequence[LastOutputs] = field(init=False)
    _weighted: Sequence[tuple[int, float]] = field(init=False, default=())
    _duals: dict[str, FloatArray] = field(init=False, default_factory=dict)

    def shard(self) -> Shard:
        """Set up the state, and return the shard itself."""
        self.n_channels = {kind: of_kind.n_channels for kind, of_kind in self.task.kinds.items()}
        self._in_shard = {
            kind: family.in_shard(self.features[kind], self.blocks.rows[kind])
            for kind, family in self.in_shards.items()
        }
        self._responses = {
            kind: self._in_shard.get(kind) or StoredResponses(int(starts[-1]))
            for kind, starts in self.blocks.rows.items()
        }
        listings = KeptListings()
        self._truth = [
            KeptTruth(listings, range(*ends)) for ends in pairwise(self.blocks.examples.tolist())
        ]
        self._last = [LastOutputs() for _ in range(len(self.blocks))]
        return self

    def learn(self, kind: str, learners: Any) -> None:
        """Append weak learners, or their responses where these are not made here."""
        if sparse.issparse(learners):
            self._responses[kind] = SparseResponses.instead_of(self._responses[kind])
        self._responses[kind].add(learners)

    def cut(self, key: int, model: KindTerms, wanted: KindTerms) -> FloatArray:
        """Make the cut ``key`` at a model.

        Returns
        -------
        sums : ndarray, shape (2 + n_wanted,)
            Loss of the cut, risk of the model, and products of the cut with the learners wanted.
        """
        sums = np.zeros((len(self.blocks), 2 + _size(wanted)))
        measures: dict[str, list[BlockMeasure]] = {kind: [] for kind in self.n_channels}
        for b in range(len(self.blocks)):
            first, last = self.blocks.examples[b : b + 2].tolist()
            # First row of each example of the block, from 0.
            offsets = {kind: at[first : last + 1] - at[first] for kind, at in self.offsets.items()}
            scores = StackedParts(self._scores(model, b), offsets)
            X = None if self.X is None else examples_between(self.X, first, last)
            Y = examples_between(self.Y, first, last)
            n_before = self.first_example + first
            separated = separation(self.task, X, Y, scores, n_before, truth=self._truth[b])
            violations = separated.violations(scores)
            self._last[b].check(self.task, separated, violations, scores, n_before)
            slack_weights, sums[b, 0], sums[b, 1] = loss_and_risk(
                separated, violations, self.example_weights[first:last]
            )
            for kind, difference in separated.differences.items():
                measure = block_measure(
                    difference, self.n_channels[kind], separated.indptr[kind], slack_weights
                )
                measures[kind].append(measure)
            self._add_products(measures, b, wanted, sums[b, 2:])
        self.cuts[key] = measures
        return tree_sum(sums)

    def keep_cut(self, key: int, measures: Mapping[str, Sequence[BlockMeasure]]) -> None:
        """Store a cut that was made elsewhere."""
        self.cuts[key] = measures

    def products(self, keys: Sequence[int], wanted: KindTerms) -> FloatArray:
        """Products of cuts with learners, shape (n_cuts * n_wanted,)."""
        n_wanted = _size(wanted)
        sums = np.zeros((len(self.blocks), len(keys) * n_wanted))
        for b in range(len(self.blocks)):
            for of_cut, key in zip(sums[b].reshape(len(keys), n_wanted), keys, strict=True):
                self._add_products(self.cuts[key], b, wanted, of_cut)
        return tree_sum(sums)

    def forget(self, keys: Sequence[int]) -> None:
        """Drop cuts."""
        for key in keys:
            del self.cuts[key]

    def scores(self, model: KindTerms) -> dict[str, FloatArray]:
        """Scores of all rows under a model, by kind, each of shape (n_rows, n_channels)."""
        parts = [self._scores(model, b) for b in range(len(self.blocks))]
        return {kind: np.concatenate([rows[kind] for rows in parts]) for kind in self.n_channels}

    def weigh(self, keys: IntArray, multipliers: FloatArray) -> None:
        """Choose the cuts that the duals are made of."""
        self._weighted = list(zip(keys.tolist(), multipliers.tolist(), strict=True))
        self._duals = {}

    def duals(self, kind: str) -> FloatArray:
        """Signed weight of every (row, channel), a sum of multipliers times measures (mu, (11))."""
        if kind not in self._duals:
            starts = self.blocks.rows[kind]
            out = np.zeros((starts[-1], self.n_channels[kind]))
            for b in range(len(self.blocks)):
                of_block = out[starts[b] : starts[b + 1]]
                for key, weight in self._weighted:
                    add_measure(*self.cuts[key][kind][b], weight, of_block)
            self._duals[kind] = out
        return self._duals[kind]

    def sums(self, kind: str, *arguments: Any) -> FloatArray:
        """Sum the duals as pricing needs, over the responses of this shard."""
        return self._in_shard[kind].sums(self.duals(kind), *arguments)

    def features_sum(self, kind: str, first_row: int) -> int:
        """Hash of the features of a kind, ``first_row`` being the index of its first row."""
        return self._in_shard[kind].features_sum(first_row)

    def _scores(self, model: KindTerms, b: int) -> dict[str, FloatArray]:
        """Scores of the rows of a block."""
        rows = {}
        for kind, terms in model.items():
            start, stop = self.blocks.rows[kind][b : b + 2]
            out = np.zeros((self.n_channels[kind], stop - start))
            self._responses[kind].add_scores(terms, int(start), out)
            rows[kind] = out.T
        return rows

    def _add_products(
        self,
        measures: Mapping[str, Sequence[BlockMeasure]],
        b: int,
        wanted: KindTerms,
        out: FloatArray,
    ) -> None:
        """Add the products of the measures of a block, kind after kind."""
        at = 0
        for kind, terms in wanted.items():
            start, n = int(self.blocks.rows[kind][b]), len(terms.learners)
            of_kind = out[at : at + n]
            self._responses[kind].add_products(terms, measures[kind][b], start, of_kind)
            at += n


def loss_and_risk(
    separated: Separation, violations: FloatArray, example_weights: FloatArray
) -> tuple[FloatArray, float, float]:
    """Weights of the violated outputs, with their loss and risk."""
    # One example counts only where its output is violated: lines 6-9 of Algorithm 2.
    weights = example_weights * (violations > 0)
    risk = float(weights @ np.maximum(violations, 0.0))
    return weights, float(weights @ separated.losses), risk


def _size(wanted: KindTerms) -> int:
    return sum(len(terms.learners) for terms in wanted.values())


def examples_between(examples: Examples, first: int, last: int) -> Sequence[Any]:
    """Examples from ``first`` to ``last`` of a sequence, which may have no slices."""
    if last - first == len(examples):
        return examples
    if isinstance(examples, np.ndarray | list | tuple):
        return examples[first:last]
    return [examples[i] for i in range(first, last)]
