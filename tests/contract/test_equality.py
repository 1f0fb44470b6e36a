"""Equality and copies of nested values."""

import threading

import numpy as np
import pytest

from structboost.contract.parts import SparseFeature, StackedParts, deep_copy, deeply_equal


class Holder:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.array([1.0]), np.array([1]), False),
        (np.array([1, 2]), np.array([1, 3]), False),
        (
            np.array([np.zeros(2), "a"], dtype=object),
            np.array([np.zeros(2), "a"], dtype=object),
            True,
        ),
        ({"a": [1, (2, np.ones(2))]}, {"a": [1, (2, np.ones(2))]}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1], (1,), False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (Holder(np.ones(2)), Holder(np.ones(2)), True),
        (Holder(np.ones(2)), Holder(np.zeros(2)), False),
        (
            SparseFeature(np.ones(1), np.ones(1), np.ones(1)),
            SparseFeature(np.ones(1), np.ones(1), np.zeros(1)),
            False,
        ),
        (StackedParts({"x": np.ones(2)}, {}), StackedParts({"x": np.ones(2)}, {}), True),
        (object(), object(), True),
    ],
)
def test_deep_equality_compares_types_and_nested_values(a, b, equal):
    assert deeply_equal(a, b) is equal
    assert deeply_equal(a, deep_copy(a))


def test_deep_copy_is_none_if_a_value_cannot_be_copied():
    assert deep_copy(threading.Lock()) is None
