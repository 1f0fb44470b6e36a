"""What a shard is made of."""

from collections.abc import Sequence

import dask
import numpy as np
import pytest
from dask import array

from structboost import MulticlassTask
from structboost.runtime import blocks
from structboost.training import Engine
from structboost.training.loop import training_set
from structboost.training.oracle import ShardedOracle
from structboost.training.shards import examples_between


class OneByOne(Sequence):
    """A sequence that knows no slices."""

    def __init__(self, examples):
        self.examples = examples

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[int(i)]


@pytest.mark.parametrize("kind", [list, tuple, np.array, OneByOne])
def test_examples_between_are_those_wherever_they_begin(kind):
    examples = list(range(10, 16))
    for first in range(len(examples)):
        for last in range(first, len(examples) + 1):
            found = examples_between(kind(examples), first, last)
            assert list(found) == examples[first:last]


class Sources(Engine):
    """An engine that keeps what shards would be made of."""

    def start(self, sources, layout):
        self.sources = sources


@pytest.mark.parametrize("of_dask", [False, True])
def test_a_shard_is_made_of_its_own_examples_and_rows_from_0(of_dask, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 16)
    X, y = np.arange(150.0)[:, None], np.arange(150) % 3
    weights = np.arange(150) / np.arange(150).sum()
    engine, given = Sources("threads", 4), (X, y)
    if of_dask:
        given = array.from_array(X, chunks=(60, 1)), array.from_array(y, chunks=60)
    ShardedOracle(training_set(MulticlassTask(3), *given), engine, weights, {})
    sources = dask.compute(*engine.sources) if of_dask else engine.sources
    assert len(sources) > 2
    at = 0
    for source in sources:
        n = len(source.example_weights)
        assert np.array_equal(source.Y, y[at : at + n])
        assert np.array_equal(source.example_weights, weights[at : at + n])
        assert np.array_equal(source.offsets["x"], np.arange(n + 1))
        assert source.blocks.examples[-1] == source.blocks.rows["x"][-1] == n
        at += n
    assert at == 150
