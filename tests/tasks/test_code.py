"""Tasks with a code: the best classes of all rows, and where their codes differ."""

import numpy as np
import pytest

from structboost.contract.parts import StackedParts
from structboost.tasks.classes import BinaryTask, CodeTask

CODES = {
    "a channel per class": np.eye(4),
    "one channel, two signs": [[1], [-1]],
    "one channel each, some shared": [[1, 0], [-1, 0], [0, 1], [1, 0]],
    "none, one and many": [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, -1, 1]],
    "dense": [[1, -1, 1], [1, 1, -1], [-1, 1, 1]],
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_differences_are_the_code_of_the_class_less_that_of_its_rival(code):
    code = np.array(code, np.int8)
    rng = np.random.default_rng(0)
    losses = rng.integers(1, 3, (len(code), len(code))) * (1.0 - np.eye(len(code)))
    task = CodeTask(code, losses)
    # Few values, so that there are ties.
    scores = rng.integers(-2, 3, (300, code.shape[1])).astype(float)
    Y = rng.integers(len(code), size=300)
    found = task.separate([], Y, StackedParts({"x": scores}, {"x": np.arange(301)}))

    by_class = scores @ code.T + losses[Y]
    best = by_class.max(axis=1)
    is_best = by_class == best[:, None]
    others = is_best & (np.arange(len(code)) != Y[:, None])
    # A tie with the truth goes to the first other class.
    rivals = np.where(others.any(axis=1), others.argmax(axis=1), Y)
    np.testing.assert_array_equal(found.losses, losses[Y, rivals])
    dense = np.zeros(scores.shape)
    rows, channels, values = found.differences["x"]
    np.add.at(dense, (rows, channels), values)
    np.testing.assert_array_equal(dense, code[Y].astype(float) - code[rivals])
    # In order, each once, none of them zero.
    assert (np.diff(rows * code.shape[1] + channels) > 0).all()
    assert values.all()
    np.testing.assert_array_equal(np.bincount(rows, minlength=300), np.diff(found.indptr["x"]))
    assert (others.any(axis=1) & is_best[np.arange(300), Y]).any()


@pytest.mark.parametrize("y", [-1, 1])
def test_a_tie_of_two_labels_goes_to_the_wrong_one_in_training(y):
    assert BinaryTask().argmax(None, np.array([[float(y)]]), y) == -y
    assert BinaryTask().argmax(None, np.zeros((1, 1))) == 1
