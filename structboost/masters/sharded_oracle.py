"""From weights to cuts: where a cutting-plane master meets the training set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.engines.shard_group import ShardGroup
from structboost.masters.kind_columns import Terms
from structboost.shards.measures import BlockMeasure, block_measure
from structboost.shards.responses import LearnerTerms
from structboost.shards.shard import Wanted, violations
from structboost.task import Measure, StackedParts, Task

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Of each kind: the learners with their channels and weights that scores are made of.
Model = Mapping[str, LearnerTerms]

_NO_TERMS: Terms = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Cut(NamedTuple):
    """A cut ``slack >= loss - <measure, scores>``; its measure lies in the shards, under its number."""

    number: int
    loss: float


class ShardedDuals:
    """Signed weight of every (part, channel) of a kind, left where the parts are.

    Parameters
    ----------
    group : ShardGroup
    kind : str
    """

    def __init__(self, group: ShardGroup, kind: str) -> None:
        self._group = group
        self._kind = kind

    @property
    def shape(self) -> tuple[int, int]:
        """Parts and channels."""
        return int(self._group.blocks.rows[self._kind][-1]), self._group.n_channels[self._kind]

    def histograms(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Sums over the bins of the features ``first <= f < last``, and over all parts."""
        return self._group.histograms(self._kind, first, last)


class ShardedOracle:
    """Cuts of the risk over the columns so far (1-slack form).

    Parameters
    ----------
    group : ShardGroup
    task : Task
    X, Y : sequence
        Looked at only where examples are split over blocks: their outputs are searched here.
    offsets : dict of str to ndarray
        First row of each example, by kind.
    example_weights : ndarray, shape (n_examples,)
        Share of each example in the risk; they sum to 1.
    """

    def __init__(
        self,
        group: ShardGroup,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        offsets: Mapping[str, IntArray],
        example_weights: FloatArray,
    ) -> None:
        self.group = group
        self.example_weights = example_weights
        self.n_columns = 0
        self.calls = 0
        self._task, self._X, self._Y, self._offsets = task, X, Y, offsets
        self._models: dict[int, Model] = {}
        self._terms: dict[str, Terms] = dict.fromkeys(group.n_channels, _NO_TERMS)

    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind; returns the number of the first."""
        return self.group.learn(kind, responses)

    def cut_at(self, weights: FloatArray) -> tuple[Cut, FloatArray, float]:
        """Cut of the risk at ``weights``, its products with the columns, and the risk itself."""
        self.calls += 1
        return self._cut({kind: _weighted(terms, weights) for kind, terms in self._terms.items()})

    def cut_again(self, model: Model) -> tuple[Cut, FloatArray]:
        """Cut at a model of before, and its products with the columns."""
        cut, products, _ = self._cut(model)
        return cut, products

    def products(
        self, cuts: Sequence[Cut], terms: Mapping[str, Terms] | None = None, n_columns: int | None = None
    ) -> FloatArray:
        """Matrix <V, R> of the cuts with all columns, or with the ``n_columns`` that ``terms`` make."""
        terms = self._terms if terms is None else terms
        n_columns = self.n_columns if n_columns is None else n_columns
        if not cuts or not n_columns:
            return np.zeros((len(cuts), n_columns))
        found = self.group.products([cut.number for cut in cuts], _wanted(terms))
        return _column_products(found, terms, n_columns)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns; ``terms`` number them from 0."""
        for kind, (columns, learners, channels, coefficients) in terms.items():
            new = columns + self.n_columns, learners, channels, coefficients
            old = self._terms[kind]
            self._terms[kind] = tuple(np.concatenate(pair) for pair in zip(old, new, strict=True))  # type: ignore[assignment]
        self.n_columns += n_new

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept`` and renumber the others."""
        number = (np.cumsum(kept) - 1).astype(np.int64)
        for kind, (columns, learners, channels, coefficients) in self._terms.items():
            stays = kept[columns]
            self._terms[kind] = number[columns[stays]], learners[stays], channels[stays], coefficients[stays]
        self.n_columns = int(kept.sum())

    def combine(self, cuts: Sequence[Cut], multipliers: FloatArray) -> dict[str, Any]:
        """Signed weight of every (part, channel): the sum of multiplier times measure (mu of (11)).

        :class:`ShardedDuals` of the kinds that are priced by histograms, gathered arrays of the others.
        """
        used = np.flatnonzero(multipliers > 0)
        numbers = np.array([cut.number for cut in cuts], np.int64)
        self.group.weigh(numbers[used], multipliers[used])
        return {
            kind: ShardedDuals(self.group, kind) if kind in self.group.binned else self.group.duals(kind)
            for kind in self.group.n_channels
        }

    def forget(self, cuts: Sequence[Cut]) -> None:
        """Drop cuts for good."""
        for cut in cuts:
            del self._models[cut.number]
        self.group.forget([cut.number for cut in cuts])

    def recipes(self, cuts: Sequence[Cut]) -> dict[str, NDArray[Any]]:
        """The models at which cuts were made, as arrays: by kind the terms, one cut after the other."""
        arrays: dict[str, NDArray[Any]] = {}
        for kind in self.group.n_channels:
            models = [self._models[cut.number][kind] for cut in cuts]
            arrays[f"models/{kind}/sizes"] = np.array([len(model.learners) for model in models], np.int64)
            for field in LearnerTerms._fields:
                parts = [getattr(model, field) for model in models]
                arrays[f"models/{kind}/{field}"] = np.concatenate(parts) if parts else np.zeros(0)
        return arrays

    def models(self, arrays: Mapping[str, NDArray[Any]]) -> list[Model]:
        """The models of :meth:`recipes`."""
        by_kind = {}
        for kind in self.group.n_channels:
            ends = np.cumsum(arrays[f"models/{kind}/sizes"])[:-1]
            fields = [np.split(arrays[f"models/{kind}/{field}"], ends) for field in LearnerTerms._fields]
            by_kind[kind] = [LearnerTerms(*terms) for terms in zip(*fields, strict=True)]
        return [dict(zip(by_kind, terms, strict=True)) for terms in zip(*by_kind.values(), strict=True)]

    def _cut(self, model: Model) -> tuple[Cut, FloatArray, float]:
        wanted = _wanted(self._terms)
        if self.group.blocks.splits_examples:
            loss, risk, measures = self._whole_cut(model)
            number, sums = self.group.keep_cut(measures, wanted)
        else:
            number, sums = self.group.cut(model, wanted)
            loss, risk, sums = float(sums[0]), float(sums[1]), sums[2:]
        self._models[number] = model
        return Cut(number, loss), _column_products(sums[None], self._terms, self.n_columns)[0], risk

    def _whole_cut(self, model: Model) -> tuple[float, float, list[dict[str, list[BlockMeasure]]]]:
        """Loss, risk and measures of a cut of examples that are split: their scores are gathered first."""
        scores = StackedParts(self.group.scores(model), self._offsets)
        found = self._task.separate(self._X, self._Y, scores)
        violation = violations(found, scores)
        share = np.where(violation > 0, self.example_weights, 0.0)
        blocks = self.group.blocks
        of_blocks = {
            kind: _split(difference, found.indptr[kind], share, blocks.rows[kind], self.group.n_channels[kind])
            for kind, difference in found.differences.items()
        }
        measures = [
            {kind: of_kind[first : first + n] for kind, of_kind in of_blocks.items()}
            for first, n in self.group.layout.nodes
        ]
        return float(share @ found.losses), float(share @ np.maximum(violation, 0.0)), measures


def _weighted(terms: Terms, weights: FloatArray) -> LearnerTerms:
    """Terms that count under the weights of the columns."""
    columns, learners, channels, coefficients = terms
    of_terms = weights[columns] * coefficients
    used = np.flatnonzero(of_terms)
    return LearnerTerms(learners[used], channels[used], of_terms[used])


def _wanted(terms: Mapping[str, Terms]) -> Wanted:
    return {kind: (learners, channels) for kind, (_, learners, channels, _) in terms.items()}


def _column_products(found: FloatArray, terms: Mapping[str, Terms], n_columns: int) -> FloatArray:
    """Products of cuts with columns, from those with their terms."""
    out = np.zeros((n_columns, len(found)))
    at = 0
    for columns, _, _, coefficients in terms.values():
        np.add.at(out, columns, coefficients[:, None] * found[:, at : at + len(columns)].T)
        at += len(columns)
    return np.ascontiguousarray(out.T)


def _split(
    difference: Measure, outputs: IntArray, weights: FloatArray, starts: IntArray, n_channels: int
) -> list[BlockMeasure]:
    """Measures of the blocks that begin at the rows ``starts``."""
    values = difference.values * np.repeat(weights, np.diff(outputs))
    block = np.searchsorted(starts, difference.parts, side="right") - 1
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(len(starts)))
    measures = []
    for b in range(len(starts) - 1):
        own = order[ends[b] : ends[b + 1]]
        entries = Measure(difference.parts[own] - starts[b], difference.channels[own], values[own])
        measures.append(block_measure(entries, n_channels, np.array([0, len(own)]), np.ones(1)))
    return measures
