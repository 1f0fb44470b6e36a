"""From weights to cuts: where a cutting-plane master meets the training set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import separation
from structboost.contract.exactness import LastOutputs, probe_argmax
from structboost.contract.measures import SparseFeature
from structboost.contract.parts import StackedParts
from structboost.files.schema import Array, DamagedFileError, Part, Schema, below
from structboost.masters.base import Cut, CutOracle
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.shards.examples import TrainingSet
from structboost.shards.group import ShardGroup
from structboost.shards.shard import loss_and_risk
from structboost.weak.block_measures import BlockMeasure, block_measure
from structboost.weak.terms import Terms

# By kind: terms whose coefficients are multiplied by the weights of their columns.
Model = Mapping[str, Terms]

# What a state calls the fields of a model's terms; their columns are no matter.
_SAVED = {"learners": "learners", "channels": "channels", "weights": "coefficients"}


class ShardedDuals:
    """Signed weight of every (part, channel) of a kind, left where the parts are."""

    def __init__(self, group: ShardGroup, kind: str) -> None:
        self._group = group
        self._kind = kind

    @property
    def shape(self) -> tuple[int, int]:
        """Parts and channels."""
        return int(self._group.blocks.rows[self._kind][-1]), self._group.n_channels[self._kind]

    def sums(self, *arguments: Any) -> FloatArray:
        """Sums over all shards that pricing asks of the responses made there."""
        return self._group.sums(self._kind, *arguments)

    def gathered(self) -> FloatArray:
        """The weights themselves, shape (n_parts, n_channels)."""
        return self._group.duals(self._kind)


class ShardedOracle(CutOracle):
    """Cuts of the risk over the columns so far (1-slack form).

    Parameters
    ----------
    training_set : TrainingSet
        Its X and Y are looked at only where examples are split over blocks: their outputs are
        searched here.
    group : ShardGroup
        Its shards.
    example_weights : ndarray, shape (n_examples,)
        Share of each example in the risk; they sum to 1.
    """

    def __init__(
        self, training_set: TrainingSet, group: ShardGroup, example_weights: FloatArray
    ) -> None:
        super().__init__(group.n_channels, example_weights, training_set.task.exact_argmax)
        X, Y = training_set.X, training_set.Y
        # Examples of a Dask collection are not at hand here.
        if not (hasattr(X, "__dask_graph__") or hasattr(Y, "__dask_graph__")):
            probe_argmax(training_set.task, X, Y, training_set.offsets)
        self.group = group
        self._training_set = training_set
        self._models: dict[int, Model] = {}
        self._last = LastOutputs()

    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind; returns the number of the first."""
        return self.group.learn(kind, responses)

    def cut_at(self, weights: FloatArray) -> tuple[Cut, FloatArray, float]:
        """Cut of the risk at ``weights``, its products with the columns, and the risk itself."""
        raise_if_interrupted()
        self.calls += 1
        return self._cut(self.columns.weighted(weights))

    def risk_at(self, weights: FloatArray) -> float:
        """Risk at ``weights`` without a cut that stays; not counted as a call."""
        cut, _, risk = self._cut(self.columns.weighted(weights))
        self.forget([cut])
        return risk

    def products(
        self,
        cuts: Sequence[Cut],
        terms: Mapping[str, Terms] | None = None,
        n_columns: int | None = None,
    ) -> FloatArray:
        """Products <V, R> with all columns, or with the ``n_columns`` that ``terms`` make."""
        terms = self.columns.terms if terms is None else terms
        n_columns = self.n_columns if n_columns is None else n_columns
        if not cuts or not n_columns:
            return np.zeros((len(cuts), n_columns))
        found = self.group.products([cut.number for cut in cuts], terms)
        return _column_products(found, terms, n_columns)

    def combine(self, cuts: Sequence[Cut], multipliers: FloatArray) -> dict[str, Any]:
        """Signed weight of every (part, channel): the sum of multiplier times measure (mu of (11)).

        :class:`ShardedDuals` of the kinds that are priced by sums over shards, gathered arrays of
        the others.
        """
        used = np.flatnonzero(multipliers > 0)
        numbers = np.array([cut.number for cut in cuts], np.int64)
        self.group.weigh(numbers[used], multipliers[used])
        return {
            kind: ShardedDuals(self.group, kind)
            if kind in self.group.in_shards
            else self.group.duals(kind)
            for kind in self.group.n_channels
        }

    def forget(self, cuts: Sequence[Cut]) -> None:
        """Drop cuts for good."""
        for cut in cuts:
            del self._models[cut.number]
        self.group.forget([cut.number for cut in cuts])

    def state(self, cuts: Sequence[Cut]) -> dict[str, NDArray[Any]]:
        """The models at which cuts were made: by kind the terms, one cut after the other."""
        arrays: dict[str, NDArray[Any]] = {}
        for kind in self.group.n_channels:
            models = [self._models[cut.number][kind] for cut in cuts]
            sizes = [len(model.learners) for model in models]
            arrays[f"models/{kind}/sizes"] = np.array(sizes, np.int64)
            for name, field in _SAVED.items():
                parts = [getattr(model, field) for model in models]
                arrays[f"models/{kind}/{name}"] = np.concatenate(parts) if parts else np.zeros(0)
        return arrays

    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        """What the arrays of a state must be."""
        arrays = {
            "sizes": Array("int64", ("n_models",), low=0, high="n_model_terms"),
            "learners": Array("int64", ("n_model_terms",), low=0, high="n_learners - 1"),
            "channels": Array("int64", ("n_model_terms",), low=0, high="n_channels - 1"),
            "weights": Array("float64", ("n_model_terms",)),
        }
        return {
            f"models/{kind}/": Part(
                arrays, {"n_channels": n_channels, "n_learners": n_learners[kind]}
            )
            for kind, n_channels in self.group.n_channels.items()
        }

    def restored_cuts(
        self, arrays: Mapping[str, NDArray[Any]], n_cuts: int
    ) -> list[tuple[Cut, FloatArray]]:
        """The cuts of a state, made again, each with its products with the columns."""
        models: list[dict[str, Terms]] = [{} for _ in range(n_cuts)]
        for kind in self.group.n_channels:
            own = below(f"models/{kind}/", arrays)
            sizes = own.pop("sizes")
            if len(sizes) != n_cuts or sizes.sum() != len(own["learners"]):
                raise DamagedFileError("its cuts have more or fewer terms than they should")
            ends = np.cumsum(sizes)[:-1]
            parts = (np.split(own[name], ends) for name in _SAVED)
            for model, terms in zip(models, zip(*parts, strict=True), strict=False):
                model[kind] = Terms(np.zeros(len(terms[0]), np.int64), *terms)
        return [self._cut(model)[:2] for model in models]

    def _cut(self, model: Model) -> tuple[Cut, FloatArray, float]:
        wanted = self.columns.terms
        if self.group.blocks.splits_examples:
            loss, risk, measures = self._whole_cut(model)
            number, sums = self.group.keep_cut(measures, wanted)
        else:
            number, sums = self.group.cut(model, wanted)
            loss, risk, sums = float(sums[0]), float(sums[1]), sums[2:]
        self._models[number] = model
        return Cut(number, loss), _column_products(sums[None], wanted, self.n_columns)[0], risk

    def _whole_cut(self, model: Model) -> tuple[float, float, list[dict[str, list[BlockMeasure]]]]:
        """Loss, risk and measures of a cut of split examples, whose scores are gathered first."""
        examples = self._training_set
        scores = StackedParts(self.group.scores(model), examples.offsets)
        found = separation(examples.task, examples.X, examples.Y, scores, truth=self._truth)
        violations = found.violations(scores)
        self._last.check(examples.task, found, violations, scores)
        share, loss, risk = loss_and_risk(found, violations, self.example_weights)
        blocks, n_channels = self.group.blocks, self.group.n_channels
        of_blocks = {
            kind: _split(difference, found.indptr[kind], share, blocks.rows[kind], n_channels[kind])
            for kind, difference in found.differences.items()
        }
        measures = [
            {kind: of_kind[first : first + n] for kind, of_kind in of_blocks.items()}
            for first, n in self.group.layout.nodes
        ]
        return loss, risk, measures


def _column_products(found: FloatArray, terms: Mapping[str, Terms], n_columns: int) -> FloatArray:
    """Products of cuts with columns, from those with their terms."""
    out = np.zeros((n_columns, len(found)))
    at = 0
    for columns, _, _, coefficients in terms.values():
        np.add.at(out, columns, coefficients[:, None] * found[:, at : at + len(columns)].T)
        at += len(columns)
    return np.ascontiguousarray(out.T)


def _split(
    difference: SparseFeature,
    outputs: IntArray,
    weights: FloatArray,
    starts: IntArray,
    n_channels: int,
) -> list[BlockMeasure]:
    """Measures of the blocks that begin at the rows ``starts``."""
    values = difference.values * np.repeat(weights, np.diff(outputs))
    block = np.searchsorted(starts, difference.parts, side="right") - 1
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(len(starts)))
    measures = []
    for b in range(len(starts) - 1):
        own = order[ends[b] : ends[b + 1]]
        entries = SparseFeature(
            difference.parts[own] - starts[b], difference.channels[own], values[own]
        )
        measures.append(block_measure(entries, n_channels, np.array([0, len(own)]), np.ones(1)))
    return measures
