"""Tests that check_task compares codes and marginals with the argmax."""

import numpy as np
import pytest

from structboost.contract.check_task import check_task
from structboost.contract.listed_outputs import Marginals
from structboost.errors import TaskError
from structboost.tasks import BinaryTask, MulticlassTask
from structboost.tasks.chain import ChainTask


def test_codes_agree_with_the_argmax():
    class Swapped(MulticlassTask):
        def codes(self, Y):
            codes = super().codes(Y)
            return codes._replace(codes=codes.codes[::-1])

    class Negative(MulticlassTask):
        def codes(self, Y):
            codes = super().codes(Y)
            return codes._replace(losses=-codes.losses)

    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.array([0, 1, 2, 0, 1, 2])
    check_task(MulticlassTask(3), X, y)
    check_task(BinaryTask(), X, np.where(y > 0, 1, -1))
    with pytest.raises(TaskError, match=r"codes and separate disagree on X\[0\]"):
        check_task(Swapped(3), X, y)
    with pytest.raises(TaskError, match="losses must be >= 0"):
        check_task(Negative(3), X, y)


class SwappedTokens(ChainTask):
    """Chain whose marginals of many examples are in another order than those of one."""

    def marginals_batch(self, X, scores):
        expected, log_sums = super().marginals_batch(X, scores)
        if len(X) > 1:
            expected["token"] = expected["token"][::-1]
        return Marginals(expected, log_sums)


def test_marginals_of_a_batch_agree_with_those_of_one_example():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 1)) for n in (1, 2, 3)]
    Y = [rng.integers(2, size=len(x)) for x in X]
    with pytest.raises(TaskError, match=r"marginals_batch gives X\[0\] another result"):
        check_task(SwappedTokens(2), X, Y)
