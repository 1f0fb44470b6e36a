"""Shards on the workers of a Dask cluster, and training sets in its collections.

Shards are scattered once.  After that only models are sent, and sums are returned.  Collections are
counted and sampled, but never gathered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.calls import stacked
from structboost.contract.task import Task
from structboost.errors import EngineError, TaskError, count_examples_from
from structboost.learners.binning import SAMPLED_ROWS, Thresholds, bin_thresholds, sampled_rows
from structboost.learners.standardisation import Standardisation
from structboost.runtime.blocks import Blocks
from structboost.runtime.registry import require
from structboost.training.engines import (
    RESUMES,
    Call,
    Engine,
    Failure,
    Host,
    Layout,
    RemoteWorkers,
    Workers,
)
from structboost.training.examples import TrainingSet, kind_of_rows
from structboost.training.shards import FeaturesInShards, GivenRows, Shard
from structboost.validation import first_unusable

require("distributed", "engine='dask' or a Dask collection")
from dask.base import compute
from dask.delayed import Delayed, delayed
from distributed import Client, KilledWorker, get_client

# Exceptions at the loss of a worker; errors of the task come as values.
_LOSSES = (OSError, RuntimeError, CancelledError, KilledWorker)
# Seconds that a run waits for a worker if there is none.
_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class DaskCluster(Engine):
    """Engine on the workers of the current :class:`distributed.Client`, looked up in ``fit``."""

    takes_collections: ClassVar[bool] = True

    @property
    @override
    def n_workers(self) -> int:
        return max(1, len(_addresses(_current_client())))

    @override
    def start(self, sources: Sequence[Any], layout: Layout) -> Workers:
        return _DaskWorkers(_current_client(), sources, layout)


class _DaskWorkers(RemoteWorkers):
    """Dask workers, each of which has a :class:`Host` as an actor."""

    def __init__(self, client: Client, sources: Sequence[Any], layout: Layout) -> None:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_SECONDS)
        except TimeoutError as error:
            raise EngineError(
                f"The cluster has had no worker for {_PATIENCE_SECONDS} seconds; start some."
            ) from error
        addresses = _addresses(client)
        super().__init__(layout, len(addresses))
        # The actors live as long as their futures.
        self._futures = []
        for address, shards in zip(addresses, self.shards_of, strict=False):
            at = {"workers": [address], "allow_other_workers": True}
            sent = [
                client.compute(sources[i], **at)
                if isinstance(sources[i], Delayed)
                else client.scatter(sources[i], workers=[address], hash=False)
                for i in shards
            ]
            host = client.submit(Host, *sent, actor=True, pure=False, **at)
            self._futures.append(host)
        self._hosts = self._results(self._futures)

    @override
    def replies(self, messages: Sequence[Sequence[Call]]) -> list[Any]:
        pairs = zip(self._hosts, messages, strict=True)
        return self._results([host.respond(message) for host, message in pairs])

    def _results(self, futures: Sequence[Any]) -> list[Any]:
        try:
            return [future.result() for future in futures]
        except _LOSSES as error:
            raise EngineError(
                "A worker of the cluster was lost; if its memory was not enough, give it more, or "
                f"use more workers. {RESUMES}"
            ) from error

    @override
    def close(self) -> None:
        self._hosts = self._futures = []


def _addresses(client: Client) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        raise EngineError(
            "engine='dask' needs a client: create one first, as in "
            "client = distributed.Client(address)."
        ) from error


class Partition(NamedTuple):
    """Neighbouring examples, with inputs, outputs, and rows of each example by kind."""

    X: Delayed
    Y: Any
    sizes: Mapping[str, IntArray]


class DaskTrainingSet(TrainingSet):
    """Training set in partitions of a Dask cluster.

    A row of X, or an element of a bag, is an input.  A bag of Y must be partitioned as X is.
    """

    def __init__(self, task: Task, X: Any, Y: Any) -> None:
        self.task, self.X, self.Y = task, X, Y
        partitions = (_bag_partitions if hasattr(X, "to_avro") else _row_partitions)(task, X, Y)
        self._partitions = partitions
        self._first = np.cumsum([0, *(len(next(iter(p.sizes.values()))) for p in partitions)])
        self.offsets = {
            kind: np.cumsum(
                np.concatenate([[0], *(p.sizes[kind] for p in partitions)]), dtype=np.int64
            )
            for kind in task.kinds
        }
        if not self.n_examples:
            raise ValueError("X is empty; give at least one example.")

    @override
    def check_engine(self, engine: Engine) -> None:
        if not engine.takes_collections:
            raise ValueError(
                f"X is a Dask {type(self.X).__name__}, which {type(engine).__name__} cannot train "
                "on; use engine='dask'."
            )

    @override
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        return bin_thresholds(self._sample(kind, exact=exact), exact=exact)

    @override
    def standardisation(self, kind: str, response: tuple[float, float]) -> Standardisation:
        sample = self._sample(kind)
        bad = first_unusable(sample, missing=False)
        if bad is not None:
            raise TaskError(
                "X has NaN features, which weak_learner='linear' cannot take; impute them, or take "
                "'stump'."
            )
        return Standardisation.of(sample, response)

    def _sample(self, kind: str, *, exact: bool | None = False) -> AnyArray:
        """Return the features of all parts of a kind, or of a sample if there are many."""
        starts = self.offsets[kind]
        n_rows = int(starts[-1])
        takes_all = exact or n_rows <= SAMPLED_ROWS
        rows = np.arange(n_rows) if takes_all else sampled_rows(n_rows, SAMPLED_ROWS)
        ends = np.searchsorted(rows, starts[self._first])
        picked = []
        for p, partition in enumerate(self._partitions):
            first, inside = int(self._first[p]), rows[ends[p] : ends[p + 1]]
            if len(inside):
                at = inside - starts[first]
                picked.append(delayed(_pick)(self.task, partition.X, first, kind, at))
        return np.concatenate(compute(*picked))

    @override
    def source(
        self,
        blocks: Blocks,
        first_block: int,
        n_blocks: int,
        weights: FloatArray,
        in_shards: FeaturesInShards,
    ) -> Delayed:
        if blocks.splits_examples:
            raise TaskError(
                "An example of a Dask collection has too many parts to stay in one block; give X "
                "as arrays."
            )
        first, last = (int(blocks.examples[b]) for b in (first_block, first_block + n_blocks))
        pieces = []
        for p, partition in enumerate(self._partitions):
            start, stop = (int(i) for i in self._first[p : p + 2])
            if start < last and first < stop:
                pieces.append(
                    [partition.X, partition.Y, max(first, start) - start, min(last, stop) - start]
                )
        of_shard = blocks.run(first_block, n_blocks)
        source: Delayed = delayed(_source)(
            self.task, pieces, weights[first:last], of_shard, in_shards, first
        )
        return source


def _row_partitions(task: Task, X: Any, Y: Any) -> list[Partition]:
    kind = kind_of_rows(task, f"a Dask {type(X).__name__}")
    X, Y = (
        part.to_dask_array(lengths=True) if hasattr(part, "to_dask_array") else part
        for part in (X, Y)
    )
    if np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    X = X.rechunk({1: -1})
    if hasattr(Y, "__dask_graph__"):
        Y = Y.compute_chunk_sizes() if np.isnan(Y.shape[0]) else Y
    if len(Y) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} examples and Y {len(Y)}; they must be equally many.")
    lengths = X.chunks[0]
    ends = np.cumsum(lengths)
    if hasattr(Y, "__dask_graph__"):
        outputs = list(Y.rechunk((lengths,)).to_delayed())
    else:
        outputs = [np.asarray(Y)[end - n : end] for n, end in zip(lengths, ends, strict=True)]
    inputs = X.to_delayed()[:, 0]
    return [
        Partition(x, y, {kind: np.ones(n, np.int64)})
        for x, y, n in zip(inputs, outputs, lengths, strict=True)
    ]


def _bag_partitions(task: Task, X: Any, Y: Any) -> list[Partition]:
    if not hasattr(Y, "to_avro") or X.npartitions != Y.npartitions:
        raise ValueError("X is a Dask bag, so Y must be a bag with as many partitions.")
    inputs, outputs = X.to_delayed(), Y.to_delayed()
    pairs = enumerate(zip(inputs, outputs, strict=True))
    sizes = compute(*(delayed(_sizes)(task, x, y, p) for p, (x, y) in pairs))
    n_before = 0
    for of_partition in sizes:
        if isinstance(of_partition, Failure):
            error = of_partition.error()
            # The partition does not have the number of examples before it.
            count_examples_from(error, n_before)
            raise error
        n_before += len(next(iter(of_partition.values())))
    return [Partition(*partition) for partition in zip(inputs, outputs, sizes, strict=True)]


def _sizes(
    task: Task, X: Sequence[Any], Y: Sequence[Any], partition: int
) -> dict[str, IntArray] | Failure:
    """Count the rows of each example of a partition, by kind."""
    try:
        X, Y = list(X), list(Y)
        if len(X) != len(Y):
            raise ValueError(
                f"Partition {partition} has {len(X)} inputs and {len(Y)} outputs; they must be "
                "equally many."
            )
        if not X:
            return {kind: np.zeros(0, np.int64) for kind in task.kinds}
        return {kind: np.diff(starts) for kind, starts in stacked(task, X).offsets.items()}
    except Exception as error:
        return Failure.of(error)


def _pick(task: Task, X: Sequence[Any], first: int, kind: str, rows: IntArray) -> AnyArray:
    """Select features of some parts of the partition at example ``first``."""
    return np.asarray(stacked(task, _examples(X), first).rows[kind][rows])


def _source(
    task: Task,
    pieces: Sequence[tuple[Sequence[Any], Sequence[Any], int, int]],
    weights: FloatArray,
    blocks: Blocks,
    in_shards: FeaturesInShards,
    first_example: int,
) -> Shard | Failure:
    X = _join([_examples(x)[first:last] for x, _, first, last in pieces])
    Y = _join([_examples(y)[first:last] for _, y, first, last in pieces])
    try:
        stack = stacked(task, X, first_example)
    except Exception as error:
        return Failure.of(error)
    rows = {kind: GivenRows(stack.rows[kind]) for kind in in_shards}
    inputs = X if task.reads_inputs else None
    return Shard(task, inputs, Y, weights, stack.offsets, blocks, in_shards, rows, first_example)


def _examples(part: Any) -> Any:
    """Return a partition as a sequence that can be sliced."""
    return part if isinstance(part, np.ndarray) else list(part)


def _join(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [example for part in parts for example in part]
