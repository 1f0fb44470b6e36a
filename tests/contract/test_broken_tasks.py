"""Tests that check_task names the broken property, and the sample (usually 3), of each task."""

import threading

import numpy as np
import pytest

from structboost.contract.check_task import check_task
from structboost.contract.measures import SparseFeature
from structboost.contract.parts import PartKind, StackedParts, stack_parts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.errors import TaskError
from tests.helpers.listed_outputs import Batched, Choose, FirstTwoOnly, Listed, candidates, is_third


class OtherWidth(Choose):
    def parts(self, x):
        return x[:, :2] if is_third(x) else x


class NoFeatures(Choose):
    def parts(self, x):
        return x[:, :0]


class ForgetsOutputs(Choose):
    def outputs(self, x):
        return range(0)


class StrayPart(Choose):
    def joint_feature(self, x, y):
        return [y + 10 * is_third(x)], [0], [1.0]


class StrayChannel(Choose):
    def joint_feature(self, x, y):
        return [y], [int(is_third(x))], [1.0]


class BrokenPart(Choose):
    def joint_feature(self, x, y):
        return [y + 0.5 * is_third(x)], [0], [1.0]


class RaisingJointFeature(Choose):
    def joint_feature(self, x, y):
        if is_third(x):
            raise KeyError("no such box")
        return [y], [0], [1.0]


class Shy(Choose):
    """Task whose argmax never returns 0, and which lists no outputs."""

    outputs = Task.outputs

    def argmax(self, x, scores, y=None):
        return 1 + super().argmax(x[1:], scores[1:], None if y is None else y - 1)


class RandomArgmax(Choose):
    def argmax(self, x, scores, y=None):
        return int(np.random.default_rng().integers(len(x)))


class NoSuchOutput(Choose):
    def argmax(self, x, scores, y=None):
        return len(x)


class ChangesInput(Choose):
    def loss(self, y, y_pred):
        return 0.0

    def parts(self, x):
        if is_third(x):
            x[0, 0] = 7.0
        return x


class BadPredict(Choose):
    def predict(self, x, scores):
        return scores["x"]


class BadStack(Choose):
    def stack(self, X):
        return stack_parts(self.kinds, [x + is_third(x) for x in X])


class BadOffsets(Choose):
    def stack(self, X):
        whole = super().stack(X)
        return StackedParts(whole.rows, {"x": whole.offsets["x"][:-1]})


class NoStack(Choose):
    def stack(self, X):
        return np.concatenate(X)


def changed(found, **changes):
    fields = {"losses": found.losses, "differences": found.differences, "indptr": found.indptr}
    return Separation(**{**fields, **changes})


class LocalRows(Choose):
    """Task with part indices within the example."""

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        m = found.differences["x"]
        first = np.repeat(scores.offsets["x"][:-1], np.diff(found.indptr["x"]))
        return changed(
            found, differences={"x": SparseFeature(m.parts - first, m.channels, m.values)}
        )


class TooFewOutputs(Choose):
    def separate(self, X, Y, scores):
        n = max(1, len(Y) - 1)
        return super().separate(X[:n], Y[:n], scores)


class BadIndptr(Choose):
    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        return changed(found, indptr={"x": found.indptr["x"] + 1})


class BadBatchLoss(Choose):
    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        return changed(found, losses=np.where(np.arange(len(Y)) == 3, np.nan, found.losses))


class BadBatchWeight(Choose):
    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        m = found.differences["x"]
        return changed(found, differences={"x": SparseFeature(m.parts, m.channels + 1, m.values)})


class BatchChangesScores(Choose):
    def separate(self, X, Y, scores):
        scores.rows["x"][0] += 1.0
        return super().separate(X, Y, scores)


class BatchChangesInput(Choose):
    def separate(self, X, Y, scores):
        X[3 % len(X)][0, 0] += len(X) > 1
        return super().separate(X, Y, scores)


class BatchRaises(Choose):
    def separate(self, X, Y, scores):
        raise IndexError("out of luck")


class SlacksWithoutWeights(Choose):
    def separate_slacks(self, X, Y, scores, limit):
        found = self.separate(X, Y, scores)
        return Separation(found.losses, found.differences, found.indptr, slacks=np.arange(len(Y)))


class RepeatedSlacks(Choose):
    def separate_slacks(self, X, Y, scores, limit):
        found = self.separate(X, Y, scores)
        n = len(Y)
        return Separation(
            found.losses, found.differences, found.indptr, np.zeros(n, np.int64), np.full(n, 1 / n)
        )


class LightSlacks(Choose):
    def separate_slacks(self, X, Y, scores, limit):
        found = self.separate(X, Y, scores)
        n = len(Y)
        return Separation(
            found.losses, found.differences, found.indptr, np.arange(n), np.full(n, 0.5 / n)
        )


class Unpicklable(Choose):
    def __init__(self):
        self.lock = threading.Lock()


class Forgetful(Choose):
    """Task that loses its state when pickled."""

    def __init__(self):
        self.factor = 2.0

    def __getstate__(self):
        return {"factor": 3.0}

    def parts(self, x):
        return self.factor * x


class NoKinds(Choose):
    kinds = {}


class WrongKind(Choose):
    kinds = {"x": 1}


class FallingResponse(Choose):
    kinds = {"x": PartKind(response=(1.0, -1.0))}


class RefusesTruth(Choose):
    def is_valid(self, x, y):
        return 0 <= y < len(x) and not (is_third(x) and y == candidates()[1][3])


class LeavesOutputs(Choose):
    """Task whose joint feature accepts invalid outputs."""

    def joint_feature(self, x, y):
        return [y % len(x)], [0], [1.0]

    def argmax(self, x, scores, y=None):
        return super().argmax(x, scores, y) + (len(x) if is_third(x) else 0)

    def is_valid(self, x, y):
        return 0 <= y < len(x)


class ListsTooMany(Choose):
    def outputs(self, x):
        return range(len(x) + is_third(x))

    def is_valid(self, x, y):
        return 0 <= y < len(x)


class RaisingIsValid(Choose):
    def is_valid(self, x, y):
        return {}[y]


class NegativeLossScores(Listed):
    kinds = {"x": PartKind(response=(0.0, 1.0))}

    def loss_scores(self, x, y):
        return super().loss_scores(x, y) - 1.0


class BatchOfWorst(Batched):
    def argmax_batch(self, X, scores, Y=None):
        return [int(np.argmin(scores.example(i)[:, 0])) for i in range(len(X))]


class BatchOfWorstPlain(Choose):
    """Task whose plain outputs, which become predictions, are wrong."""

    def argmax_batch(self, X, scores, Y=None):
        if Y is not None:
            return super().argmax_batch(X, scores, Y)
        return [int(np.argmin(scores.example(i)[:, 0])) for i in range(len(X))]


class BatchOfStrangers(Batched):
    def argmax_batch(self, X, scores, Y=None):
        return [
            y + len(x) * is_third(x)
            for x, y in zip(X, super().argmax_batch(X, scores), strict=True)
        ]


class BatchIgnoresTruths(Choose):
    """Task without loss scores whose batch form does not add the loss."""

    def argmax_batch(self, X, scores, Y=None):
        return super().argmax_batch(X, scores)


class NoArgmax(Choose):
    argmax = Task.argmax
    outputs = Task.outputs


class ListsNothing(Choose):
    argmax = Task.argmax

    def outputs(self, x):
        return []


def test_a_kind_of_parts_without_channels_is_refused():
    with pytest.raises(ValueError, match="n_channels is 0"):
        PartKind(n_channels=0)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (OtherWidth, r"parts\(X\[3\]\) gave shape .* expected \(n_parts, 3\)"),
        (NoFeatures, r"parts\(X\[0\]\) has no features for kind 'x'; give at least one"),
        (ForgetsOutputs, r"outputs\(X\[0\]\) does not list the true output Y\[0\]"),
        (StrayPart, r"joint_feature\(X\[3\], Y\[3\]\) names a part outside"),
        (StrayChannel, r"joint_feature\(X\[3\], Y\[3\]\) names a channel outside"),
        (BrokenPart, r"parts, of joint_feature\(X\[3\], Y\[3\]\) is .* give whole numbers"),
        (RaisingJointFeature, r"joint_feature raised KeyError for X\[3\]: 'no such box'"),
        (FirstTwoOnly, r"argmax\(X\[\d+\], scores\) is not exact"),
        (Shy, r"is not exact: .*output Y?.*has"),
        (RandomArgmax, r"argmax\(X\[\d+\], scores\) is not deterministic"),
        (NoSuchOutput, r"joint_feature\(X\[0\], y\) names a part outside"),
        (ChangesInput, r"parts changed X\[3\] in place"),
        (BadPredict, r"predict raised IndexError for X\[0\]"),
        (BadStack, r"stack\(X\) differs from parts\(X\[3\]\)"),
        (BadOffsets, r"stack\(X\).offsets\['x'\] must be"),
        (NoStack, r"stack\(X\) returned ndarray"),
        (
            LocalRows,
            r"separate gave the output of X\[\d+\] weight on row \d+ of kind 'x', no part",
        ),
        (TooFewOutputs, r"separate gave 11 outputs for 12 examples"),
        (BadIndptr, r"separate: indptr of 'x' must rise from 0"),
        (BadBatchLoss, r"argmax of X\[3\] has a loss.*separate gave it the loss nan"),
        (BadBatchWeight, r"separate names a channel outside 0..0 of 'x'"),
        (BatchChangesScores, r"separate changed the scores of X\[0\] in place"),
        (BatchChangesInput, r"a batch form changed X\[3\] in place"),
        (BatchRaises, r"separate raised IndexError for X\[0\]: out of luck"),
        (
            SlacksWithoutWeights,
            r"separate_slacks must give each of its slacks a weight",
        ),
        (
            RepeatedSlacks,
            r"separate_slacks must give each of its outputs another slack index",
        ),
        (LightSlacks, r"separate_slacks with a limit of \d+ has the risk"),
        (Unpicklable, r"task cannot be pickled"),
        (Forgetful, r"other results for X\[0\] after pickling"),
        (
            RefusesTruth,
            r"is_valid\(X\[3\], y\) is False for the true output Y\[3\]; it must be True",
        ),
        (
            LeavesOutputs,
            r"is_valid\(X\[3\], y\) is False for an output of the argmax",
        ),
        (ListsTooMany, r"is_valid\(X\[3\], y\) is False for output \d of outputs\(X\[3\]\)"),
        (RaisingIsValid, r"is_valid raised KeyError for X\[0\]"),
        (NegativeLossScores, r"loss_scores\(X\[0\], Y\[0\]\) is negative for kind 'x'"),
        (BatchOfWorst, r"\w+: the argmax of X\[\d+\] is not exact"),
        (BatchOfWorstPlain, r"argmax_batch: the argmax of X\[\d+\] is not exact"),
        (BatchOfStrangers, r"joint_feature\(X\[3\], y\) names a part outside"),
        (BatchIgnoresTruths, r"\w+: the argmax of X\[\d+\] is not exact"),
        (NoArgmax, r"NoArgmax defines neither argmax\(x, scores\) nor outputs\(x\)"),
        (ListsNothing, r"outputs\(x\) is empty; give at least one output"),
        (NoKinds, r"task.kinds is {}"),
        (WrongKind, r"task.kinds\['x'\] is 1"),
        (FallingResponse, r"task.kinds\['x'\].response is \(1.0, -1.0\)"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_property_is_named(task, message):
    with pytest.raises(TaskError, match=message):
        check_task(task(), *candidates())
