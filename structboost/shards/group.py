"""All shards of a training set, with the operations of a master and of pricing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.engines.base import Call, Engine, Layout, Workers
from structboost.learners.terms import Terms
from structboost.runtime.blocks import Blocks, tree_runs


class ShardGroup:
    """Shards of a run, and the record of calls that restores a lost one.

    Parameters
    ----------
    engine : Engine
    layout : Layout
    sources : sequence
        Source of each shard (:class:`structboost.shards.shard.ShardSource`).
    blocks : Blocks
        Blocks of the whole training set.
    n_channels : dict of str to int
    in_shards : set of str
        Kinds whose responses the shards compute from their features.

    Attributes
    ----------
    n_learners : dict of str to int
        Number of learners of each kind.
    """

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        sources: Sequence[Any],
        blocks: Blocks,
        n_channels: Mapping[str, int],
        in_shards: set[str],
    ) -> None:
        self.blocks = blocks
        self.layout = layout
        self.n_channels = n_channels
        self.in_shards = in_shards
        self.n_learners = dict.fromkeys(n_channels, 0)
        self._learned: list[Call] = []
        self._cuts: dict[int, Call] = {}
        self._n_cuts = 0
        # Calls without a result are sent with the next one that has a result.
        self._ahead: list[Call] = []
        self._weighted: tuple[IntArray, FloatArray] | None = None
        self._workers: Workers = engine.start(sources, layout, self._replay)

    def close(self) -> None:
        """Release the shards."""
        self._workers.close()

    def learn(self, kind: str, learners: Any) -> int:
        """Append weak learners of a kind, and return the index of the first.

        These are LearnersInShards where shards compute the responses, else responses on all parts,
        shape (n_new, n_parts).
        """
        first = self.n_learners[kind]
        if kind in self.in_shards:
            self.n_learners[kind] += learners.n_learners
            call = Call("learn", (kind, learners))
        else:
            self.n_learners[kind] += learners.shape[0]
            call = Call(
                "learn", (kind,), {i: learners[:, rows] for i, rows in enumerate(self._rows(kind))}
            )
        self._learned.append(call)
        self._ahead.append(call)
        return first

    def cut(
        self, model: Mapping[str, Terms], wanted: Mapping[str, Terms]
    ) -> tuple[int, FloatArray]:
        """Make a cut on every shard, and return its index and the sums of :meth:`Shard.cut`."""
        return self._keep(
            Call("cut", (self._n_cuts, model, wanted)), Call("cut", (self._n_cuts, model, {}))
        )

    def keep_cut(
        self, measures: Sequence[Any], wanted: Mapping[str, Terms]
    ) -> tuple[int, FloatArray]:
        """Store a cut by its measures per shard, and return its index and products."""
        of_shards = dict(enumerate(measures))
        return self._keep(
            Call("keep_cut", (self._n_cuts, wanted), of_shards),
            Call("keep_cut", (self._n_cuts, {}), of_shards),
        )

    def products(self, indices: Sequence[int], wanted: Mapping[str, Terms]) -> FloatArray:
        """Return products of cuts and learners, shape (n_cuts, n_wanted)."""
        return self._sum(Call("products", (list(indices), wanted))).reshape(len(indices), -1)

    def forget(self, indices: Sequence[int]) -> None:
        """Drop cuts."""
        if len(indices):
            for index in indices:
                del self._cuts[index]
            self._ahead.append(Call("forget", (list(indices),)))

    def scores(self, model: Mapping[str, Terms]) -> dict[str, FloatArray]:
        """Return the scores of all parts under a model, by kind."""
        of_shards = self._run(Call("scores", (model,)))
        return {
            kind: np.concatenate([rows[kind] for rows in of_shards]) for kind in self.n_channels
        }

    def weigh(self, indices: IntArray, multipliers: FloatArray) -> None:
        """Set the cuts and multipliers of the duals."""
        self._weighted = indices, multipliers
        self._ahead.append(Call("weigh", (indices, multipliers)))

    def duals(self, kind: str) -> FloatArray:
        """Gather the signed weight of every (part, channel) of a kind."""
        return np.concatenate(self._run(Call("duals", (kind,))))

    def sums(self, kind: str, *arguments: Any) -> FloatArray:
        """Return the sums of the duals over all shards that pricing needs."""
        return self._sum(Call("sums", (kind, *arguments)))

    def features_sum(self, kind: str) -> int:
        """Hash the features of all rows of a kind in shards, for any layout."""
        firsts = {i: rows.start for i, rows in enumerate(self._rows(kind))}
        return int(sum(self._run(Call("features_sum", (kind,), firsts))) % (1 << 64))

    def _keep(self, call: Call, again: Call) -> tuple[int, FloatArray]:
        index = self._n_cuts
        self._n_cuts += 1
        sums = self._sum(call)
        self._cuts[index] = again
        return index, sums

    def _sum(self, call: Call) -> FloatArray:
        return self._workers.sum(self._with_ahead(call))

    def _run(self, call: Call) -> list[Any]:
        return self._workers.run(self._with_ahead(call))

    def _with_ahead(self, call: Call) -> list[Call]:
        calls, self._ahead = [*self._ahead, call], []
        return calls

    def _rows(self, kind: str) -> list[slice]:
        starts = self.blocks.rows[kind]
        return [slice(int(starts[first]), int(starts[first + n])) for first, n in self.layout.nodes]

    def _replay(self, i: int) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the calls that restore the state of shard ``i``."""
        calls = [*self._learned, *(self._cuts[index] for index in sorted(self._cuts))]
        if self._weighted is not None and set(self._weighted[0].tolist()) <= set(self._cuts):
            calls.append(Call("weigh", self._weighted))
        return [call.of_shard(i) for call in calls]


def layout_of(blocks: Blocks, engine: Engine) -> Layout:
    """Lay out shards for the workers of an engine."""
    n_blocks, n_workers = len(blocks), engine.n_workers
    largest = n_blocks
    if n_workers > 1:
        largest = max(
            1, 1 << (max(1, n_blocks // (engine.shards_a_worker * n_workers)).bit_length() - 1)
        )
    return Layout(tree_runs(n_blocks, largest, n_workers), n_blocks)
