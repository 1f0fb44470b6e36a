"""Oracle that makes the cuts of a cutting-plane master on the shards of an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.calls import LastOutputs, separation
from structboost.contract.parts import SparseFeature, StackedParts
from structboost.files.archive import Array, DamagedFileError, Part, Schema, below
from structboost.learners.responses import BlockMeasure, block_measure
from structboost.learners.terms import KindTerms, Terms
from structboost.objectives.base import Cut, CutOracle
from structboost.runtime.blocks import PYTHON_EXAMPLES, blocks_of, tree_runs
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.runtime.memory import check_memory
from structboost.training.hosts import Layout
from structboost.training.shards import FeaturesInShards, loss_and_risk

if TYPE_CHECKING:
    from structboost.training.engines import Engine
    from structboost.training.examples import TrainingSet

# Terms by kind, whose coefficients are multiplied by the weights of their columns.
Model = KindTerms

# Names in a state of the fields of a model's terms; their columns are not stored.
_SAVED = {"learners": "learners", "channels": "channels", "weights": "coefficients"}


class ShardedDuals:
    """Signed weight of every (part, channel) of a kind, which stays on the shards."""

    def __init__(self, oracle: ShardedOracle, kind: str) -> None:
        self.shape = int(oracle.blocks.rows[kind][-1]), oracle.n_channels[kind]
        self._workers, self._kind = oracle.workers, kind

    def sums(self, *arguments: Any) -> FloatArray:
        """Return the sums over all shards that pricing needs."""
        return self._workers.sum("sums", self._kind, *arguments)

    def gathered(self) -> FloatArray:
        """Return the weights themselves, shape (n_parts, n_channels)."""
        return np.concatenate(self._workers.run("duals", self._kind))


class ShardedOracle(CutOracle):
    """Oracle of the cuts of the risk over the columns so far (1-slack form).

    Parameters
    ----------
    training_set : TrainingSet
        Training set, which is cut into shards.  Where examples are split over blocks, their outputs
        are searched here.
    engine : Engine
        Where the shards are.
    example_weights : ndarray, shape (n_examples,)
        Weight of each example in the risk; the weights sum to 1.
    in_shards : dict of str to ShardFeatures
        The :attr:`structboost.learners.WeakLearnerFamily.shard_features` of the kinds that have
        them, whose responses the shards compute from their features.

    Attributes
    ----------
    workers : Workers
        The shards at work, which the caller closes.
    blocks : Blocks
        Blocks of the whole training set.
    n_channels : dict of str to int
    """

    def __init__(
        self,
        training_set: TrainingSet,
        engine: Engine,
        example_weights: FloatArray,
        in_shards: FeaturesInShards,
    ) -> None:
        task = training_set.task
        self.n_channels = {kind: of_kind.n_channels for kind, of_kind in task.kinds.items()}
        super().__init__(self.n_channels, example_weights, task.exact_argmax)
        most_examples = None if task.separates_in_batches else PYTHON_EXAMPLES
        self.blocks = blocks_of(training_set.offsets, most_examples)
        for kind, n_channels in self.n_channels.items():
            most = np.diff(self.blocks.rows[kind]).max(initial=0)
            check_memory(
                8 * most * n_channels,
                f"The scores of {most} parts on the {n_channels} channels of kind {kind!r}",
                "give the task fewer channels",
            )
        largest = n_blocks = len(self.blocks)
        n_workers = engine.n_workers
        if n_workers > 1:
            # A thread that is ahead takes the next shard.
            n_shards = n_workers * (4 if engine.in_process else 1)
            largest = 1 << (max(1, n_blocks // n_shards).bit_length() - 1)
        nodes = tree_runs(n_blocks, largest, n_workers)
        sources = [
            training_set.source(self.blocks, *node, example_weights, in_shards) for node in nodes
        ]
        self.workers = engine.start(sources, Layout(nodes, n_blocks))
        self._training_set, self._in_shards = training_set, set(in_shards)
        self._n_learners = dict.fromkeys(self.n_channels, 0)
        self._n_cuts = 0
        self._models: dict[int, Model] = {}
        self._last = LastOutputs()

    @override
    def add_responses(self, kind: str, responses: Any) -> int:
        first = self._n_learners[kind]
        if kind in self._in_shards:
            self._n_learners[kind] += len(responses)
            self.workers.tell("learn", kind, responses)
        else:
            self._n_learners[kind] += responses.shape[0]
            of_shards = [responses[:, rows] for rows in self.rows(kind)]
            self.workers.tell("learn", kind, each=of_shards)
        return first

    def rows(self, kind: str) -> list[slice]:
        """Rows of a kind of each shard."""
        starts = self.blocks.rows[kind].tolist()
        return [slice(starts[first], starts[first + n]) for first, n in self.workers.layout.nodes]

    @override
    def cut_at(self, weights: FloatArray) -> tuple[Cut, FloatArray, float]:
        raise_if_interrupted()
        self.calls += 1
        return self._cut(self.columns.weighted(weights))

    @override
    def risk_at(self, weights: FloatArray) -> float:
        cut, _, risk = self._cut(self.columns.weighted(weights))
        self.forget([cut])
        return risk

    @override
    def products(self, cuts: Sequence[Cut], terms: KindTerms, n_columns: int) -> FloatArray:
        if not cuts or not n_columns:
            return np.zeros((len(cuts), n_columns))
        sums = self.workers.sum("products", [cut.key for cut in cuts], terms)
        return _column_products(sums.reshape(len(cuts), -1), terms, n_columns)

    @override
    def combine(self, cuts: Sequence[Cut], multipliers: FloatArray) -> dict[str, Any]:
        """Sum multiplier times measure for every (part, channel), mu of (11).

        :class:`ShardedDuals` of the kinds that are priced by sums over shards, gathered arrays of
        the others.
        """
        used = np.flatnonzero(multipliers > 0)
        indices = np.array([cut.key for cut in cuts], np.int64)
        self.workers.tell("weigh", indices[used], multipliers[used])
        duals: dict[str, Any] = {kind: ShardedDuals(self, kind) for kind in self.n_channels}
        for kind in duals.keys() - self._in_shards:
            duals[kind] = duals[kind].gathered()
        return duals

    @override
    def forget(self, cuts: Sequence[Cut]) -> None:
        for cut in cuts:
            del self._models[cut.key]
        if cuts:
            self.workers.tell("forget", [cut.key for cut in cuts])

    @override
    def state(self, cuts: Sequence[Cut]) -> dict[str, AnyArray]:
        arrays: dict[str, AnyArray] = {}
        for kind in self.n_channels:
            models = [self._models[cut.key][kind] for cut in cuts]
            sizes = [len(model.learners) for model in models]
            arrays[f"models/{kind}/sizes"] = np.array(sizes, np.int64)
            for name, field in _SAVED.items():
                parts = [getattr(model, field) for model in models]
                arrays[f"models/{kind}/{name}"] = np.concatenate(parts) if parts else np.zeros(0)
        return arrays

    @override
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
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
            for kind, n_channels in self.n_channels.items()
        }

    @override
    def restored_cuts(self, arrays: Mapping[str, AnyArray], n_cuts: int) -> list[Cut]:
        models: list[dict[str, Terms]] = [{} for _ in range(n_cuts)]
        for kind in self.n_channels:
            of_kind = below(f"models/{kind}/", arrays)
            sizes = of_kind.pop("sizes")
            if len(sizes) != n_cuts or sizes.sum() != len(of_kind["learners"]):
                raise DamagedFileError("its cuts have more or fewer terms than they should")
            ends = np.cumsum(sizes)[:-1]
            parts = (np.split(of_kind[name], ends) for name in _SAVED)
            for model, terms in zip(models, zip(*parts, strict=True), strict=False):
                model[kind] = Terms(np.zeros(len(terms[0]), np.int64), *terms)
        return [self._cut(model)[0] for model in models]

    def _cut(self, model: Model) -> tuple[Cut, FloatArray, float]:
        wanted, key = self.columns.terms, self._n_cuts
        self._n_cuts += 1
        if self.blocks.splits_examples:
            loss, risk, measures = self._whole_cut(model)
            self.workers.tell("keep_cut", key, each=measures)
            sums = self.workers.sum("products", [key], wanted)
        else:
            sums = self.workers.sum("cut", key, model, wanted)
            loss, risk, sums = float(sums[0]), float(sums[1]), sums[2:]
        self._models[key] = model
        return Cut(key, loss), _column_products(sums[None], wanted, self.n_columns)[0], risk

    def _whole_cut(self, model: Model) -> tuple[float, float, list[dict[str, list[BlockMeasure]]]]:
        """Compute loss, risk and measures of a cut of split examples, from gathered scores."""
        examples = self._training_set
        of_shards = self.workers.run("scores", model)
        rows = {
            kind: np.concatenate([part[kind] for part in of_shards]) for kind in self.n_channels
        }
        scores = StackedParts(rows, examples.offsets)
        separated = separation(examples.task, examples.X, examples.Y, scores, truth=self._truth)
        violations = separated.violations(scores)
        self._last.check(examples.task, separated, violations, scores)
        weights, loss, risk = loss_and_risk(separated, violations, self.example_weights)
        of_blocks = {}
        for kind, difference in separated.differences.items():
            of_outputs = np.repeat(weights, np.diff(separated.indptr[kind]))
            weighted = difference._replace(values=difference.values * of_outputs)
            of_blocks[kind] = _split(weighted, self.blocks.rows[kind], self.n_channels[kind])
        measures = [
            {kind: of_kind[first : first + n] for kind, of_kind in of_blocks.items()}
            for first, n in self.workers.layout.nodes
        ]
        return loss, risk, measures


def _column_products(products: FloatArray, terms: KindTerms, n_columns: int) -> FloatArray:
    """Compute products of cuts with columns from the products with their terms."""
    out = np.zeros((n_columns, len(products)))
    at = 0
    for columns, _, _, coefficients in terms.values():
        np.add.at(out, columns, coefficients[:, None] * products[:, at : at + len(columns)].T)
        at += len(columns)
    return np.ascontiguousarray(out.T)


def _split(weighted: SparseFeature, starts: IntArray, n_channels: int) -> list[BlockMeasure]:
    """Return the measures of the blocks that begin at the rows ``starts``."""
    block = np.searchsorted(starts, weighted.parts, side="right") - 1
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(1, len(starts) - 1))
    measures = []
    for b, inside in enumerate(np.split(order, ends)):
        entries = weighted.take(inside)
        entries = entries._replace(parts=entries.parts - starts[b])
        measures.append(block_measure(entries, n_channels, np.array([0, len(inside)]), np.ones(1)))
    return measures
