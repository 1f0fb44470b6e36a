"""What a shard is made of."""

from collections.abc import Sequence

import numpy as np
import pytest

from structboost.shards.shard import examples_between


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
