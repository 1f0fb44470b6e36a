"""Shards on the workers of a Dask cluster, and training sets in its arrays.

Shards are scattered once.  After that only models are sent, and sums are returned.  Arrays are
sampled, but never gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import numpy as np

from structboost._typing import AnyArray, Examples, FloatArray, Range, override
from structboost.contract.calls import stacked
from structboost.contract.task import Task
from structboost.errors import EngineError, TaskError
from structboost.learners.binning import SAMPLED_ROWS, Thresholds, bin_thresholds, sampled_rows
from structboost.learners.standardisation import Standardisation
from structboost.runtime.blocks import Blocks
from structboost.runtime.registry import require
from structboost.training.examples import TrainingSet, kind_of_rows
from structboost.training.hosts import Call, Failure, Host, Layout, RemoteWorkers, telling_of_losses
from structboost.training.shards import FeaturesInShards, GivenRows, Shard
from structboost.validation import check_examples, first_unusable

require("distributed", "engine='dask' or a Dask collection")
from dask.delayed import Delayed, delayed
from distributed import Client, KilledWorker, get_client

# Exceptions at the loss of a worker; errors of the task come as values.
_telling_of_losses = partial(
    telling_of_losses,
    (OSError, RuntimeError, CancelledError, KilledWorker),
    "A worker of the cluster, its scheduler or the client was lost; if memory was not enough, give "
    "more, or use more workers.",
)
# Seconds that a run waits for a worker if there is none.
_PATIENCE_SECONDS = 60


class DaskWorkers(RemoteWorkers):
    """Workers of the current client, each of which has a :class:`Host` as an actor."""

    def __init__(self, sources: Sequence[Any], layout: Layout) -> None:
        client = _current_client()
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_SECONDS)
        except TimeoutError as error:
            raise EngineError(
                f"The cluster has had no worker for {_PATIENCE_SECONDS} seconds; start some."
            ) from error
        addresses = current_addresses()
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
        with _telling_of_losses():
            self._hosts: list[Any] = [future.result() for future in self._futures]

    @override
    def replies(self, messages: Sequence[Sequence[Call]]) -> list[Any]:
        pairs = zip(self._hosts, messages, strict=True)
        with _telling_of_losses():
            sent = [host.respond(message) for host, message in pairs]
            return [future.result() for future in sent]

    @override
    def close(self) -> None:
        self._hosts, self._futures = [], []


def current_addresses() -> list[str]:
    """Addresses of the workers of the current client."""
    return sorted(_current_client().scheduler_info(n_workers=-1)["workers"])


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        raise EngineError(
            "engine='dask' needs a client: create one first, as in "
            "client = distributed.Client(address)."
        ) from error


class DaskTrainingSet(TrainingSet):
    """Training set of a Dask array in the chunks of a cluster, with one row per example."""

    def __init__(self, task: Task, X: Any, Y: Any) -> None:
        kind = kind_of_rows(task, f"a Dask {type(X).__name__}")
        if not hasattr(X, "rechunk"):
            raise TypeError(
                f"X is a Dask {type(X).__name__}; give an array, such as "
                "X.to_dask_array(lengths=True) of a data frame."
            )
        X, Y = (
            part.compute_chunk_sizes() if np.isnan(np.shape(part)[0]) else part for part in (X, Y)
        )
        check_examples(X, Y)
        self.task, self.X, self.Y = task, X.rechunk({1: -1}), Y
        self.offsets = {kind: np.arange(len(X) + 1)}
        # Rows of the last sample, and their checksums, with which shards compare.
        self._seen = np.zeros((2, 0), np.uint64)

    @override
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        return bin_thresholds(self._sample(takes_all=bool(exact)), exact=exact)

    @override
    def standardisation(self, kind: str, response: Range) -> Standardisation:
        sample = self._sample()
        if first_unusable(sample, missing=False) is not None:
            raise TaskError(
                "X has NaN features, which weak_learner='linear' cannot take; impute them, or take "
                "'stump'."
            )
        return Standardisation.of(sample, response)

    def _sample(self, *, takes_all: bool = False) -> AnyArray:
        """Return all rows, or a sample if there are many."""
        rows, at = self.X, np.arange(self.n_examples)
        if not takes_all and self.n_examples > SAMPLED_ROWS:
            at = sampled_rows(self.n_examples, SAMPLED_ROWS)
            rows = rows[at]
        (features,) = stacked(self.task, rows.compute()).rows.values()
        self._seen = np.array((at, _checksums(features)), np.uint64)
        return features

    @override
    def source(
        self,
        blocks: Blocks,
        first_block: int,
        n_blocks: int,
        weights: FloatArray,
        in_shards: FeaturesInShards,
    ) -> Delayed:
        first, last = blocks.examples[[first_block, first_block + n_blocks]].tolist()
        of_shard, y = blocks.run(first_block, n_blocks), self.Y[first:last]
        # Rows of several chunks are one chunk where the shard is made.
        (rows,) = self.X[first:last].rechunk(-1).to_delayed().ravel()
        if hasattr(y, "__dask_graph__"):
            (y,) = y.rechunk(-1).to_delayed().ravel()
        seen = self._seen[:, slice(*np.searchsorted(self._seen[0], (first, last)))]
        source: Delayed = delayed(_source)(
            self.task, rows, y, weights[first:last], of_shard, in_shards, first, seen
        )
        return source


def _source(
    task: Task,
    X: Any,
    Y: Examples,
    weights: FloatArray,
    blocks: Blocks,
    in_shards: FeaturesInShards,
    first_example: int,
    seen: AnyArray,
) -> Shard | Failure:
    try:
        stack = stacked(task, X, first_example)
        (features,) = stack.rows.values()
        at, sums = seen
        changed = at[_checksums(features[at - first_example]) != sums]
        if len(changed):
            raise TaskError(
                f"X has other values in row {changed[0]} than when it was sampled, so they change "
                "whenever Dask computes them; give X.persist(), or a fixed seed."
            )
    except Exception as error:
        return Failure.of(error)
    rows = {kind: GivenRows(stack.rows[kind]) for kind in in_shards}
    return Shard(task, None, Y, weights, stack.offsets, blocks, in_shards, rows, first_example)


def _checksums(rows: AnyArray) -> AnyArray:
    """Sum the bits of the numbers of each row, in double precision, without rounding."""
    return np.asarray(np.ascontiguousarray(rows, np.float64).view(np.uint64).sum(axis=1))
