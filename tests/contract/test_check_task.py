"""Tests that sound tasks pass check_task, and of what it tries."""

import pickle
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.sparse import csr_array

from structboost import PartKind, StructBoost, Task, check_task
from structboost.contract.calls import predictions, separation
from structboost.contract.parts import Marginals, StackedParts, deeply_equal
from structboost.contract.separation import KeptTruth
from structboost.tasks import BinaryTask, MulticlassTask, RankingTask
from structboost.tasks.chain import ChainTask
from tests.contract.test_lying_tasks import Tags, wrong
from tests.helpers.listed_outputs import (
    Batched,
    Choose,
    FirstTwoOnly,
    Listed,
    Pairs,
    candidates,
    pairs,
)
from tests.helpers.refusals import refused


@pytest.mark.slow
def test_sound_tasks_pass():
    check_task(Choose(), *candidates())
    check_task(Pairs(), *pairs())
    check_task(Listed(), *candidates())
    check_task(Batched(), *candidates())


@given(st.integers(0, 9999), st.floats(0.001, 30.0))
def test_separation_is_the_same_with_loss_in_argmax_or_in_scores(seed, scale):
    X, Y = candidates(seed=seed)
    stack = Choose().stack(X)
    scores = StackedParts(
        {"x": scale * default_rng(seed).normal(size=(len(stack.rows["x"]), 1))}, stack.offsets
    )
    expected = separation(Choose(), X, Y, scores)
    for task in (Listed(), Batched()):
        assert deeply_equal(separation(task, X, Y, scores), expected)
    plain = [Choose().argmax(x, scores.example(i)) for i, x in enumerate(X)]
    assert predictions(Batched(), X, scores) == predictions(Listed(), X, scores) == plain


def test_a_cached_truth_is_computed_once_and_changes_nothing():
    class Counts(Pairs):
        asked = 0

        def joint_feature(self, x, y):
            self.asked += 1
            return super().joint_feature(x, y)

    X, Y = pairs()
    task, truth = Counts(), pickle.loads(pickle.dumps(KeptTruth(counts_passes=False)))
    stack = task.stack(X)
    for seed in range(3):
        rng = default_rng(seed)
        rows = {kind: np.abs(rng.normal(size=(len(r), 1))) for kind, r in stack.rows.items()}
        scores = StackedParts(rows, stack.offsets)
        before = task.asked
        found = separation(task, X, Y, scores, truth=truth)
        assert task.asked - before == len(X) * (1 + (seed == 0))
        assert deeply_equal(found, separation(task, X, Y, scores))


def test_rows_of_a_sparse_table_are_examples():
    check_task(MulticlassTask(3), csr_array(np.eye(3)), [0, 1, 2])


@pytest.mark.slow
def test_of_more_than_200_examples_a_sample_is_tried():
    rng = default_rng(0)
    check_task(MulticlassTask(3), rng.normal(size=(230, 2)), rng.integers(0, 3, 230))


class NeedsInputs(Choose):
    """Task whose argmax needs inputs though it declares none."""

    reads_inputs = False


class PeeksAtInputs(BinaryTask):
    """Task whose result depends on whether there are inputs."""

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        return found if X is not None else replace(found, losses=0.5 * found.losses)


def test_tasks_that_read_no_inputs_accept_none():
    refused(
        r"separate\(None, Y, scores\) differs .* reads_inputs",
        check_task,
        PeeksAtInputs(),
        default_rng(0).normal(size=(20, 2)),
        np.tile([1, -1], 10),
    )
    refused(r"argmax raised TypeError for X\[0\]", check_task, NeedsInputs(), *candidates())


def test_true_outputs_and_listed_outputs_are_tried():
    class Last(FirstTwoOnly):
        outputs = None

    X = [np.ones((3, 1))]
    refused(r"output 2 of outputs\(X\[0\]\) has", check_task, FirstTwoOnly(), X, [0])
    refused(r"the true output has", check_task, Last(), X, [2])
    refused(r"output 0 of outputs\[0\] has", check_task, Last(), X, [0], outputs=[[2]])


def test_outputs_of_the_argmax_at_other_scores_are_tried():
    class Moody(Choose):
        """Search the first half or the second, for large or small scores."""

        outputs = None

        def argmax(self, x, scores, y=None):
            start = 0 if np.abs(scores).max() > 5 else 2
            return start + int(np.argmax(scores[start : start + 2, 0]))

    X = [np.ones((4, 1)) for _ in range(5)]
    refused("another output has", check_task, Moody(), X, [1] * 5)


class ShyOfThree(Choose):
    """Task whose argmax never returns 0 for three parts."""

    outputs = None

    def argmax(self, x, scores, y=None):
        shy = len(x) == 3
        return shy + super().argmax(x[shy:], scores[shy:], None if y is None else y - shy)


class DeclaredShy(ShyOfThree):
    def is_valid(self, x, y):
        return 0 <= y < len(x)


def test_is_valid_decides_which_outputs_of_other_examples_are_tried():
    # Only X[0], of two parts, has the output 0: only is_valid says that X[1] has it as well.
    X, Y = [np.ones((2, 1))] + [np.ones((3, 1))] * 5, [0, 1, 1, 1, 1, 1]
    check_task(ShyOfThree(), X, Y)
    refused(r"X\[1\].* is not exact: .*the output Y\[0\] has", check_task, DeclaredShy(), X, Y)
    refused(
        r"is_valid\(X\[1\], y\) is False for output 1 of outp",
        check_task,
        DeclaredShy(),
        X,
        Y,
        outputs=[[], [1, 3], *[[]] * 4],
    )


class AddsMean(Tags):
    """Task whose argmax averages wrong tags, which the loss counts."""

    def argmax(self, x, scores, y=None):
        return (scores if y is None else scores + wrong(y) / len(x)).argmax(axis=1)


class LosesMean(Tags):
    def loss(self, y, y_pred):
        return super().loss(y, y_pred) / len(y)


class Means(AddsMean, LosesMean):
    """Right task, which averages wrong tags in both."""


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", [2, 3, 5])
@pytest.mark.parametrize("n_examples", [1, 3])
def test_a_loss_that_the_argmax_scales_differently_raises_an_error(n_parts, n_examples):
    for seed in range(3):
        rng = default_rng(seed)
        X = [rng.normal(size=(n_parts, 2)) for _ in range(n_examples)]
        Y = [rng.integers(0, 3, n_parts) for _ in range(n_examples)]
        if seed == 0:
            check_task(Tags(), X, Y)
            check_task(Means(), X, Y)
        for broken in (AddsMean(), LosesMean()):
            refused(
                r"X\[\d\] is not exact: .*add the loss as it is",
                check_task,
                broken,
                X,
                Y,
                random_state=seed,
            )


def test_inexact_argmax_may_be_beaten():
    class Declared(FirstTwoOnly):
        exact_argmax = False

        def __reduce__(self):
            return (FirstTwoOnly, ())

    X, _ = candidates()
    check_task(Declared(), X, [0] * len(X))


def test_a_task_of_several_kinds_passes():
    class NoEdges(Pairs):
        def parts(self, x):
            return {"node": x[:2]}

    class NotADict(Pairs):
        def joint_feature(self, x, y):
            return np.array(y, float)[:, None]

    refused(r"parts\(X\[0\]\) has no entry for kind 'edge'", check_task, NoEdges(), *pairs())
    refused(r"joint_feature\(X\[0\]\) must return a dict", check_task, NotADict(), *pairs())


def test_examples_that_do_not_fit_a_check_are_refused():
    X, Y = candidates()
    for task, inputs, truths, outputs, message in (
        (Choose(), X, Y[:-1], None, "X has 12 examples and Y 11"),
        (Choose(), [], [], None, "X is empty"),
        (Choose(), X, Y, [[0]], "outputs has 1 entries for 12 examples"),
        ("Choose", X, Y, None, "subclass of Task"),
    ):
        refused(message, check_task, task, inputs, truths, outputs)


class PlainBinary(BinaryTask):
    """Task that declares to read no inputs, with the default batch form."""

    separate = None


@pytest.mark.slow
def test_methods_of_one_example_accept_no_inputs():
    X, y = default_rng(0).normal(size=(20, 2)), np.tile([1, -1], 10)
    check_task(PlainBinary(), X, y)
    one, other = (StructBoost(task, C=10.0).fit(X, y) for task in (PlainBinary(), BinaryTask()))
    assert one.objective_ == pytest.approx(other.objective_, rel=0.02)


class SwappedTokens(ChainTask):
    """Chain whose marginals of many examples are in another order than those of one."""

    def marginals_batch(self, X, scores):
        expected, log_sums = super().marginals_batch(X, scores)
        if len(X) > 1:
            expected["token"] = expected["token"][::-1]
        return Marginals(expected, log_sums)


def test_marginals_of_a_batch_agree_with_those_of_one_example():
    rng = default_rng(0)
    X = [rng.normal(size=(n, 1)) for n in (1, 2, 3)]
    Y = [rng.integers(2, size=len(x)) for x in X]
    refused(r"marginals_batch gives X\[0\] another result", check_task, SwappedTokens(2), X, Y)


class Alignment(Task):
    """Monotone path from corner to corner of a table, whose outputs check_task does not see."""

    kinds: ClassVar = {"x": PartKind(1)}
    n_forgotten = 0

    def parts(self, x):
        return x.reshape(-1, x.shape[-1])

    def joint_feature(self, x, y):
        return np.array(y, int), np.zeros(len(y), int), np.ones(len(y))

    def loss(self, y, y_pred):
        return float(len(set(map(int, y)) ^ set(map(int, y_pred))))

    def listed(self, x):
        n, m = x.shape[:2]

        def paths(i, j):
            if (i, j) == (n - 1, m - 1):
                yield [i * m + j]
            for di, dj in ((1, 1), (1, 0), (0, 1)):
                if i + di < n and j + dj < m:
                    for rest in paths(i + di, j + dj):
                        yield [i * m + j, *rest]

        return list(paths(0, 0))

    def argmax(self, x, scores, y=None):
        def value(z):
            score = scores[np.array(z, int), 0].sum()
            return score + (0.0 if y is None else self.loss(y, z))

        outputs = self.listed(x)
        return max(outputs[: len(outputs) - self.n_forgotten] or outputs, key=value)


class ForgetsLast(Alignment):
    n_forgotten = 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_task_whose_inputs_have_other_outputs_is_right_until_it_forgets_one():
    rng = default_rng(0)
    X = [rng.normal(size=(*shape, 1)) for shape in [(2, 3), (3, 2), (1, 6), (6, 1)] * 3]
    outputs = [Alignment().listed(x) for x in X]
    Y = [of_input[rng.integers(len(of_input))] for of_input in outputs]
    check_task(Alignment(), X, Y)
    trainer = StructBoost(Alignment(), C=10.0, tol=0.1, max_rounds=20).fit(X, Y)
    assert trainer.history_[-1]["certified"]
    last = [of_input[-1] for of_input in outputs]
    refused(r"is not exact: .* the true output has", check_task, ForgetsLast(), X, last)


def test_codes_agree_with_the_argmax():
    class Swapped(MulticlassTask):
        def codes(self, Y):
            codes = super().codes(Y)
            return codes._replace(codes=codes.codes[::-1])

    class Negative(MulticlassTask):
        def codes(self, Y):
            codes = super().codes(Y)
            return codes._replace(losses=-codes.losses)

    X, y = default_rng(0).normal(size=(6, 2)), np.array([0, 1, 2, 0, 1, 2])
    check_task(MulticlassTask(3), X, y)
    check_task(BinaryTask(), X, np.where(y > 0, 1, -1))
    for loss in ("pairs", "ndcg"):
        check_task(RankingTask(loss), [X, X[1:]], [y, y[1:]])
    refused(r"codes and separate disagree on X\[0\]", check_task, Swapped(3), X, y)
    refused("losses must be >= 0", check_task, Negative(3), X, y)
