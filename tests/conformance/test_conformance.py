"""check_task: every broken property is caught, and the message names the sample and the
property."""

import itertools
import pickle
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import StructBoost
from structboost.conformance import sampled_outputs
from structboost.conformance.check_task import check_task
from structboost.conformance.equality import deep_copy, deeply_equal
from structboost.conformance.sampled_outputs import mixture
from structboost.contract.calls import predictions, separation
from structboost.contract.parts import stack_parts
from structboost.exceptions import SampledOutputsWarning, TaskError
from structboost.task import KeptTruth, Marginals, Measure, PartKind, Separation, StackedParts, Task
from structboost.tasks import BinaryTask, MulticlassTask, RankingTask
from structboost.tasks.chain import ChainTask
from structboost.tasks.ranking import PairOrder
from structboost.tasks.superpixel_crf import SuperpixelCRFTask, SuperpixelGraph, TrueLabels
from tests.helpers import choose


class Choose(choose.Choose):
    """With all outputs listed."""

    def outputs(self, x):
        return range(len(x))


class Pairs(Task):
    """Two binary labels that like to agree: two kinds of parts, the second with scores >= 0."""

    kinds = {"node": PartKind(), "edge": PartKind(response=(0.0, 1.0))}

    def parts(self, x):
        return {"node": x[:2], "edge": np.abs(x[2:])}

    def joint_feature(self, x, y):
        return {
            "node": np.array(y, dtype=float)[:, None],
            "edge": np.array([[-float(y[0] != y[1])]]),
        }

    def loss(self, y, y_pred):
        return float(y[0] != y_pred[0]) + float(y[1] != y_pred[1])

    def outputs(self, x):
        return list(itertools.product((0, 1), repeat=2))

    def argmax(self, x, scores, y=None):
        def value(z):
            score = np.dot(scores["node"][:, 0], z) - scores["edge"][0, 0] * (z[0] != z[1])
            return score + (0 if y is None else self.loss(y, z))

        return max(self.outputs(x), key=value)


def candidates(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(n)]
    return X, [int(rng.integers(len(x))) for x in X]


def pairs(n=10):
    rng = np.random.default_rng(1)
    return [rng.normal(size=(3, 2)) for _ in range(n)], [
        tuple(rng.integers(0, 2, 2).tolist()) for _ in range(n)
    ]


def test_sound_tasks_pass():
    check_task(Choose(), *candidates())
    check_task(Pairs(), *pairs())
    check_task(Listed(), *candidates())
    check_task(Batched(), *candidates())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.floats(0.001, 30.0))
def test_whoever_adds_the_loss_the_separation_is_the_same(seed, scale):
    X, Y = candidates(seed=seed)
    rng = np.random.default_rng(seed)
    stack = Choose().stack(X)
    scores = StackedParts({"x": scale * rng.normal(size=(len(stack.rows["x"]), 1))}, stack.offsets)
    expected = Choose().separate(X, Y, scores)
    for task in (Listed(), Batched()):
        assert deeply_equal(task.separate(X, Y, scores), expected)
    plain = [Choose().argmax(x, scores.example(i)) for i, x in enumerate(X)]
    assert predictions(Batched(), X, scores) == predictions(Listed(), X, scores) == plain


def test_a_kept_truth_is_asked_for_once_and_changes_nothing():
    class Counts(Pairs):
        asked = 0

        def joint_feature(self, x, y):
            self.asked += 1
            return super().joint_feature(x, y)

    X, Y = pairs()
    task, truth = Counts(), pickle.loads(pickle.dumps(KeptTruth()))
    stack = task.stack(X)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = {kind: np.abs(rng.normal(size=(len(r), 1))) for kind, r in stack.rows.items()}
        scores = StackedParts(rows, stack.offsets)
        before = task.asked
        found = separation(task, X, Y, scores, truth=truth)
        assert task.asked - before == len(X) * (1 + (seed == 0))
        assert deeply_equal(found, task.separate(X, Y, scores))


def test_built_in_tasks_pass():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    check_task(BinaryTask(), X, rng.choice([-1, 1], 40))
    check_task(MulticlassTask(4), X, rng.integers(0, 4, 40))
    queries = [rng.normal(size=(n, 2)) for n in (6, 6, 9, 1, 4)]
    outputs = [rng.integers(0, 3, len(q)) for q in queries]
    check_task(RankingTask(), queries, outputs, comparable_outputs=False)


def test_ranking_beats_every_set_of_swapped_pairs():
    x, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    better_worse = [(1, 0), (1, 2), (3, 0), (3, 2)]
    orders = []
    for swapped in itertools.product((0, 1), repeat=4):
        counts = np.zeros(4)
        for (i, j), swap in zip(better_worse, swapped, strict=True):
            counts[i] += (1 - 2 * swap) / 8
            counts[j] -= (1 - 2 * swap) / 8
        orders.append(PairOrder(counts, sum(swapped) / 4))
    check_task(RankingTask(), [x], [y], outputs=[orders], comparable_outputs=False)


def test_beyond_200_examples_a_part_is_tried():
    rng = np.random.default_rng(0)
    check_task(MulticlassTask(3), rng.normal(size=(230, 2)), rng.integers(0, 3, 230))


# -- broken tasks: each breaks one property, at sample 3 where it can ------------------------------


def is_third(x):
    """Whether ``x`` is input 3 of :func:`candidates`."""
    return np.array_equal(x, candidates()[0][3])


class OtherWidth(Choose):
    def parts(self, x):
        return x[:, :2] if is_third(x) else x


class FlatParts(Choose):
    def parts(self, x):
        return x[:, 0] if is_third(x) else x


class NotFinite(Choose):
    def parts(self, x):
        return x * np.inf if is_third(x) else x


class RandomParts(Choose):
    def parts(self, x):
        return x + np.random.default_rng().normal() if is_third(x) else x


class StrayPart(Choose):
    def joint_feature(self, x, y):
        return [y + 10 * is_third(x)], [0], [1.0]


class StrayChannel(Choose):
    def joint_feature(self, x, y):
        return [y], [int(is_third(x))], [1.0]


class BrokenPart(Choose):
    def joint_feature(self, x, y):
        return [y + 0.5 * is_third(x)], [0], [1.0]


class NanWeight(Choose):
    def joint_feature(self, x, y):
        return [y], [0], [np.nan if is_third(x) else 1.0]


class WrongShape(Choose):
    def joint_feature(self, x, y):
        return np.zeros((len(x) + 1, 1))


class RandomJointFeature(Choose):
    def joint_feature(self, x, y):
        return [y], [0], [np.random.default_rng().normal()]


class RaisingJointFeature(Choose):
    def joint_feature(self, x, y):
        if is_third(x):
            raise KeyError("no such box")
        return [y], [0], [1.0]


class LossOfTruth(Choose):
    def loss(self, y, y_pred):
        return 1.0


class NegativeLoss(Choose):
    def loss(self, y, y_pred):
        return float(y) - float(y_pred)


class NanLoss(Choose):
    def loss(self, y, y_pred):
        return 0.0 if y == y_pred else np.nan


class Augments(Choose):
    """Forgets the loss."""

    def argmax(self, x, scores, y=None):
        return int(np.argmax(scores))


class FirstTwoOnly(Choose):
    def argmax(self, x, scores, y=None):
        return super().argmax(x[:2], scores[:2], y)


class WrongSign(Choose):
    def argmax(self, x, scores, y=None):
        return super().argmax(x, -scores, y)


class Shy(Choose):
    """Never says 0, and enumerates nothing: only true outputs of others can tell."""

    outputs = Task.outputs

    def argmax(self, x, scores, y=None):
        return 1 + super().argmax(x[1:], scores[1:], None if y is None else y - 1)


class RandomArgmax(Choose):
    def argmax(self, x, scores, y=None):
        return int(np.random.default_rng().integers(len(x)))


class NoSuchOutput(Choose):
    def argmax(self, x, scores, y=None):
        return len(x)


class ChangesScores(Choose):
    def argmax(self, x, scores, y=None):
        if y is not None:
            scores[:, 0] += abs(np.arange(len(x)) - y)
        return int(np.argmax(scores[:, 0]))


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


class BatchOfTruths(Choose):
    """A batch form that never finds a violated output."""

    def separate(self, X, Y, scores):
        nothing = Measure(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        return Separation(np.zeros(len(Y)), {"x": nothing}, {"x": np.zeros(len(Y) + 1, np.int64)})


def changed(found, **changes):
    fields = {"losses": found.losses, "differences": found.differences, "indptr": found.indptr}
    return Separation(**{**fields, **changes})


class LocalRows(Choose):
    """Numbers parts within the example."""

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        m = found.differences["x"]
        first = np.repeat(scores.offsets["x"][:-1], np.diff(found.indptr["x"]))
        return changed(found, differences={"x": Measure(m.parts - first, m.channels, m.values)})


class TooFewOutputs(Choose):
    def separate(self, X, Y, scores):
        found = super().separate(X[:-1], Y[:-1], scores)
        return found


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
        return changed(found, differences={"x": Measure(m.parts, m.channels + 1, m.values)})


class BatchChangesScores(Choose):
    def separate(self, X, Y, scores):
        scores.rows["x"][0] += 1.0
        return super().separate(X, Y, scores)


class BatchChangesInput(Choose):
    def separate(self, X, Y, scores):
        X[3][0, 0] = 9.0
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
    """Loses its state when pickled."""

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


class NoChannels(Choose):
    kinds = {"x": PartKind(n_channels=0)}


class FallingResponse(Choose):
    kinds = {"x": PartKind(response=(1.0, -1.0))}


class RefusesTruth(Choose):
    def is_valid(self, x, y):
        return 0 <= y < len(x) and not (is_third(x) and y == candidates()[1][3])


class LeavesOutputs(Choose):
    """Its joint feature takes what is no output."""

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


class NeedsInputs(Choose):
    """Its argmax is called on the inputs."""

    reads_inputs = False


class PeeksAtInputs(BinaryTask):
    """Its answer depends on whether there are inputs."""

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        return found if X is not None else replace(found, losses=0.5 * found.losses)


class Listed(Choose):
    """Its outputs are listed, its loss is one of parts: it needs no argmax."""

    argmax = Task.argmax

    def loss_scores(self, x, y):
        return abs(np.arange(len(x)) - y)[:, None]


class Batched(Listed):
    """The argmax of many examples at once."""

    def argmax(self, x, scores):
        return int(np.argmax(scores[:, 0]))

    def argmax_batch(self, X, scores, Y=None):
        assert Y is None
        flat, ends = scores.rows["x"][:, 0], scores.offsets["x"]
        return [int(np.argmax(flat[a:b])) for a, b in itertools.pairwise(ends)]


class DoublesLoss(Listed):
    def loss_scores(self, x, y):
        return 2 * super().loss_scores(x, y)


class ForgetsOneLoss(Listed):
    def loss_scores(self, x, y):
        return super().loss_scores(x, y) * (np.arange(len(x)) < 2)[:, None]


class FlatLossScores(Listed):
    def loss_scores(self, x, y):
        return super().loss_scores(x, y)[:, 0]


class NanLossScores(Listed):
    def loss_scores(self, x, y):
        return np.full((len(x), 1), np.nan)


class NegativeLossScores(Listed):
    kinds = {"x": PartKind(response=(0.0, 1.0))}

    def loss_scores(self, x, y):
        return super().loss_scores(x, y) - 1.0


class BatchOfWorst(Batched):
    def argmax_batch(self, X, scores, Y=None):
        return [int(np.argmin(scores.example(i)[:, 0])) for i in range(len(X))]


class BatchOfWorstPlain(Choose):
    """Only the plain outputs are wrong: those that predictions are made of."""

    def argmax_batch(self, X, scores, Y=None):
        if Y is not None:
            return super().argmax_batch(X, scores, Y)
        return [int(np.argmin(scores.example(i)[:, 0])) for i in range(len(X))]


class BatchOfAllTheSame(Batched):
    def argmax_batch(self, X, scores, Y=None):
        return [0] * len(X)


class BatchOfTooFew(Batched):
    def argmax_batch(self, X, scores, Y=None):
        return super().argmax_batch(X, scores)[1:]


class BatchOfStrangers(Batched):
    def argmax_batch(self, X, scores, Y=None):
        return [
            y + len(x) * is_third(x)
            for x, y in zip(X, super().argmax_batch(X, scores), strict=True)
        ]


class BatchIgnoresTruths(Choose):
    """Without loss scores the batch form gets the truths, and must add the loss."""

    def argmax_batch(self, X, scores, Y=None):
        return super().argmax_batch(X, scores)


class NoArgmax(Choose):
    argmax = Task.argmax
    outputs = Task.outputs


class ListsNothing(Choose):
    argmax = Task.argmax

    def outputs(self, x):
        return []


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (OtherWidth, r"parts\(X\[3\]\) gave shape .* expected \(n_parts, 3\)"),
        (FlatParts, r"parts\(X\[3\]\) gave shape"),
        (NotFinite, r"parts\(X\[3\]\) has NaN or infinite"),
        (RandomParts, r"parts\(X\[3\]\) is not deterministic"),
        (StrayPart, r"joint_feature\(X\[3\], y\) names a part outside"),
        (StrayChannel, r"joint_feature\(X\[3\], y\) names a channel outside"),
        (
            BrokenPart,
            r"joint_feature\(X\[3\], y\) names a part or channel that is not a whole number",
        ),
        (NanWeight, r"joint_feature\(X\[3\], y\) has NaN"),
        (WrongShape, r"joint_feature\(X\[0\], y\) gave shape"),
        (RandomJointFeature, r"joint_feature\(X\[0\], Y\[0\]\) is not deterministic"),
        (RaisingJointFeature, r"joint_feature raised KeyError for X\[3\]: 'no such box'"),
        (LossOfTruth, r"loss\(Y\[0\], Y\[0\]\) is 1; the loss of the true output must be 0"),
        (NegativeLoss, r"loss\(Y\[\d+\], y_pred\) is -.* >= 0"),
        (NanLoss, r"loss\(Y\[\d+\], y_pred\) is nan"),
        (
            Augments,
            r"argmax\(X\[\d+\], scores, Y\[\d+\]\) is beaten: its output has loss plus score",
        ),
        (FirstTwoOnly, r"argmax\(X\[\d+\], scores\) is beaten"),
        (WrongSign, r"argmax\(X\[\d+\], scores\) is beaten"),
        (Shy, r"is beaten: .*output Y\[\d+\] has"),
        (RandomArgmax, r"argmax\(X\[\d+\], scores\) is not deterministic"),
        (NoSuchOutput, r"joint_feature\(X\[0\], y\) names a part outside"),
        (ChangesScores, r"argmax changed its argument 'scores' in place for X\[0\]"),
        (ChangesInput, r"parts changed its argument 'x' in place for X\[3\]"),
        (BadPredict, r"predict raised IndexError for X\[0\]"),
        (BadStack, r"stack\(X\) differs from parts\(X\[3\]\)"),
        (BadOffsets, r"stack\(X\).offsets\['x'\] must rise from 0"),
        (NoStack, r"stack\(X\) returned ndarray"),
        (BatchOfTruths, r"separate and argmax disagree on X\[\d+\]"),
        (
            LocalRows,
            r"separate gave the output of X\[\d+\] weight on row \d+ of kind 'x', which is "
            r"not a part",
        ),
        (TooFewOutputs, r"separate gave 11 outputs for 12 examples"),
        (BadIndptr, r"separate: indptr of kind 'x' must rise from 0"),
        (BadBatchLoss, r"separate gave output 3 the loss nan"),
        (BadBatchWeight, r"separate: output 0 has a part or channel of kind 'x' out of range"),
        (BatchChangesScores, r"separate changed the scores in place"),
        (BatchChangesInput, r"separate changed X\[3\] in place"),
        (BatchRaises, r"separate raised IndexError: out of luck"),
        (
            SlacksWithoutWeights,
            r"separate_slacks must give each of its 12 numbered slacks a weight",
        ),
        (
            RepeatedSlacks,
            r"separate_slacks must give each of its 12 outputs a slack number of its own",
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
            r"is_valid\(X\[3\], y\) is False for the output of argmax\(X\[3\], scores\)",
        ),
        (ListsTooMany, r"is_valid\(X\[3\], y\) is False for output \d of task.outputs\(X\[3\]\)"),
        (RaisingIsValid, r"is_valid raised KeyError for X\[0\]"),
        (DoublesLoss, r"loss_scores and loss disagree on X\[\d+\]: .* has the loss"),
        (ForgetsOneLoss, r"loss_scores and loss disagree on X\[\d+\]"),
        (
            FlatLossScores,
            r"loss_scores\(X\[0\], Y\[0\]\) for kind 'x' must be .* has shape \(\d,\)",
        ),
        (NanLossScores, r"loss_scores\(X\[0\], Y\[0\]\) for kind 'x' must be finite"),
        (NegativeLossScores, r"loss_scores\(X\[0\], Y\[0\]\) is negative for kind 'x'"),
        (BatchOfWorst, r"argmax_batch and argmax disagree on X\[\d+\]"),
        (BatchOfWorstPlain, r"argmax_batch and argmax disagree on .*: the output has the score"),
        (BatchOfAllTheSame, r"argmax_batch and argmax disagree on X\[\d+\]"),
        (BatchOfTooFew, r"argmax_batch gave 11 outputs for 12 examples"),
        (BatchOfStrangers, r"joint_feature\(X\[3\], y\) names a part outside"),
        (BatchIgnoresTruths, r"argmax_batch and argmax disagree on X\[\d+\]"),
        (NoArgmax, r"NoArgmax defines neither argmax\(x, scores\) nor outputs\(x\)"),
        (ListsNothing, r"outputs\(x\) is empty; give at least one output"),
        (NoKinds, r"task.kinds is {}"),
        (WrongKind, r"task.kinds\['x'\] is 1"),
        (NoChannels, r"task.kinds\['x'\].n_channels is 0"),
        (FallingResponse, r"task.kinds\['x'\].response is \(1.0, -1.0\)"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_property_is_named(task, message):
    with pytest.raises(TaskError, match=message):
        check_task(task(), *candidates())


def test_tasks_that_need_no_inputs_do_without():
    rng = np.random.default_rng(0)
    with pytest.raises(TaskError, match=r"separate\(None, Y, scores\) differs .* reads_inputs"):
        check_task(PeeksAtInputs(), rng.normal(size=(20, 2)), np.tile([1, -1], 10))
    with pytest.raises(TaskError, match=r"separate raised TypeError"):
        check_task(NeedsInputs(), *candidates())


def test_true_output_and_given_outputs_are_tried():
    class Last(FirstTwoOnly):
        outputs = Task.outputs

    X = [np.ones((3, 1))]
    with pytest.raises(TaskError, match=r"output 2 of task.outputs\(X\[0\]\) has"):
        check_task(FirstTwoOnly(), X, [0])
    with pytest.raises(TaskError, match=r"the true output Y\[0\] has"):
        check_task(Last(), X, [2])
    with pytest.raises(TaskError, match=r"outputs\[0\]\[0\] has"):
        check_task(Last(), X, [0], outputs=[[2]])


def test_own_outputs_at_other_scores_are_tried():
    class Moody(Choose):
        """Looks at the first half or at the second, as the scores are large or small."""

        outputs = Task.outputs

        def argmax(self, x, scores, y=None):
            start = 0 if np.abs(scores).max() > 5 else 2
            return start + int(np.argmax(scores[start : start + 2, 0]))

    X = [np.ones((4, 1)) for _ in range(5)]
    with pytest.raises(TaskError, match="its own output at other scores"):
        check_task(Moody(), X, [1] * 5)


class Neighbours(Choose):
    """Choose a candidate that the last one does not forbid; nothing but ``is_valid`` says which."""

    outputs = Task.outputs

    def argmax(self, x, scores, y=None):
        value = scores[:, 0] + (0 if y is None else abs(np.arange(len(x)) - y))
        value[int(x[-1, 0])] = -np.inf
        return int(np.argmax(value))


class DeclaredNeighbours(Neighbours):
    def is_valid(self, x, y):
        return 0 <= y < len(x) and y != int(x[-1, 0])


class ShyOfThree(Choose):
    """Never says 0 where there are three parts."""

    outputs = Task.outputs

    def argmax(self, x, scores, y=None):
        shy = len(x) == 3
        return shy + super().argmax(x[shy:], scores[shy:], None if y is None else y - shy)


class DeclaredShy(ShyOfThree):
    def is_valid(self, x, y):
        return 0 <= y < len(x)


def test_is_valid_keeps_outputs_of_other_examples_out_and_lets_more_in():
    X = [np.full((3 + i % 2, 1), i % 3) for i in range(12)]
    Y = [(i + 1) % 3 for i in range(12)]
    with pytest.raises(TaskError, match=r"is beaten: .*the output Y\[\d+\] has"):
        check_task(Neighbours(), X, Y)
    check_task(DeclaredNeighbours(), X, Y)
    with pytest.raises(TaskError, match=r"is_valid\(X\[0\], y\) is False for outputs\[0\]\[1\]"):
        check_task(DeclaredNeighbours(), X[:1], Y[:1], outputs=[[1, 0]])

    # Only X[0], of two parts, has the output 0: only is_valid says that X[1] has it as well.
    X, Y = [np.ones((2, 1))] + [np.ones((3, 1))] * 5, [0, 1, 1, 1, 1, 1]
    check_task(ShyOfThree(), X, Y)
    with pytest.raises(
        TaskError, match=r"argmax\(X\[1\], scores\) is beaten: .*the output Y\[0\] has"
    ):
        check_task(DeclaredShy(), X, Y)


# -- the scale of the loss ---------------------------------------------------------------------


class Tags(Task):
    """A tag for every part; ``counted`` and ``added``: whether loss and argmax count wrong tags or
    average them."""

    kinds = {"x": PartKind(3)}
    counted = added = True

    def parts(self, x):
        return x

    def joint_feature(self, x, y):
        return np.arange(len(y)), y, np.ones(len(y))

    def loss(self, y, y_pred):
        wrong = float(np.sum(y != y_pred))
        return wrong if self.counted else wrong / len(y)

    def argmax(self, x, scores, y=None):
        if y is not None:
            scores = scores + (np.arange(3) != y[:, None]) * (1.0 if self.added else 1.0 / len(x))
        return scores.argmax(axis=1)


class CountedAndAveraged(Tags):
    added = False


class AveragedAndCounted(Tags):
    counted = False


class Averaged(Tags):
    counted = added = False


@pytest.mark.parametrize("n_parts", [2, 3, 5])
@pytest.mark.parametrize("n_examples", [1, 3])
def test_a_loss_that_the_argmax_scales_otherwise_is_found(n_parts, n_examples):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = [rng.normal(size=(n_parts, 2)) for _ in range(n_examples)]
        Y = [rng.integers(0, 3, n_parts) for _ in range(n_examples)]
        if seed == 0:
            check_task(Tags(), X, Y)
            check_task(Averaged(), X, Y)
        for broken in (CountedAndAveraged(), AveragedAndCounted()):
            with pytest.raises(
                TaskError, match=r"scores, Y\[\d\]\) is beaten: .*add the loss as it is"
            ):
                check_task(broken, X, Y, random_state=seed)


# -- outputs too many to try --------------------------------------------------------------------


def grids(n=2, side=6):
    """Graphs of ``side**2`` superpixels, and their truth."""
    rng = np.random.default_rng(0)
    number = np.arange(side**2).reshape(side, side)
    across, down = (
        np.stack(pair, axis=-1)
        for pair in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:]))
    )
    edges = np.concatenate((across.reshape(-1, 2), down.reshape(-1, 2)))
    X = [
        SuperpixelGraph(rng.normal(size=(side**2, 2, 2)), edges, rng.random((len(edges), 1)))
        for _ in range(n)
    ]
    return X, [TrueLabels(rng.integers(0, 2, side**2), rng.random(side**2)) for _ in range(n)]


class TiesTwo(SuperpixelCRFTask):
    """Its argmax gives the first two superpixels one label: the outputs that beat it come late in
    an enumeration."""

    def argmax(self, x, scores, y=None):
        energies = scores.reshape(-1, 2).copy()
        if y is not None:
            energies[np.arange(len(energies)), y.labels] += y.areas
        energies[:2] = energies[:2].sum(axis=0)
        return energies.argmin(axis=1)

    separate = Task.separate


class TiesTwoSilently(TiesTwo):
    is_valid = Task.is_valid


def test_outputs_too_many_to_list_are_sampled_and_it_is_said():
    X, Y = grids()
    with pytest.warns(
        SampledOutputsWarning,
        match=r"For 2 of 2 examples, the first of which is X\[0\], .* max_outputs",
    ) as said:
        check_task(SuperpixelCRFTask(2), X, Y, max_outputs=40)
    assert len(said) == 1
    assert said[0].filename == __file__
    with pytest.raises(TaskError, match=r"is beaten: .*the valid output array\("):
        check_task(TiesTwo(2, pairwise=False), X, Y, max_outputs=2000)
    # Without is_valid there are no mixtures: the first outputs alone do not find it.
    with pytest.warns(SampledOutputsWarning):
        check_task(TiesTwoSilently(2, pairwise=False), X, Y, max_outputs=2000)


class Endless(Choose):
    """Lists its outputs again and again, and keeps count in a list of its own."""

    def __init__(self, listed):
        self.listed = listed

    def outputs(self, x):
        for k in itertools.count():
            self.listed.append(k)
            yield k % len(x)

    def __reduce__(self):
        return (Choose, ())


def test_no_more_outputs_are_listed_than_asked_for():
    listed = []

    X, Y = candidates(3)
    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Endless(listed), X, Y, max_outputs=7)
    assert listed == [*range(8)] * 3
    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Choose(), X, Y, outputs=[itertools.repeat(0)] * 3, max_outputs=7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_task(Choose(), X, Y, max_outputs=max(map(len, X)))
    for name in ("max_outputs", "max_seconds"):
        with pytest.raises(ValueError, match=f"{name} is 0"):
            check_task(Choose(), X, Y, **{name: 0})


def test_listing_ends_when_its_time_is_up(monkeypatch):
    seconds = itertools.count()
    monkeypatch.setattr(sampled_outputs.time, "monotonic", lambda: float(next(seconds)))
    listed = []

    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Endless(listed), *candidates(3), max_outputs=10**6, max_seconds=60.0)
    # A look at the clock takes a second here: half of each example's 20 seconds or more go into the
    # listing.
    assert 3 * 9 <= len(listed) <= 60


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(6, np.int64), np.ones(6, np.int64)),
        (np.zeros((4, 2)), np.ones((4, 2))),
        ([0] * 5, [1] * 5),
        ((0,) * 5, (1,) * 5),
    ],
)
def test_mixtures_are_alike_and_often_differ_in_one_entry(first, second):
    rng = np.random.default_rng(0)
    before = deep_copy(first), deep_copy(second)
    changes = []
    for _ in range(60):
        mixed = mixture(first, second, rng)
        assert type(mixed) is type(first)
        assert np.shape(mixed) == np.shape(first)
        changed = np.not_equal(mixed, first).reshape(len(first), -1)
        assert (changed.all(axis=1) == changed.any(axis=1)).all()
        changes.append(int(changed.any(axis=1).sum()))
    assert changes.count(1) >= 20
    assert max(changes) >= len(first) - 1
    assert min(changes) >= 1
    assert deeply_equal(before, (first, second))


def test_what_has_no_entries_alike_is_not_mixed():
    rng = np.random.default_rng(0)
    order = PairOrder(np.zeros(2), 0.0)
    for first, second in (
        (1, 2), ("ab", "cd"), ([1], [1, 2]), ([], []), ([1], (1,)), (order, order), (np.array(1),
        np.array(2)),
        (np.zeros(2), np.zeros(2, np.int64)), (np.zeros(2), np.zeros(3)), ({1: 2}, {1: 3}),
    ):  # fmt: skip
        assert mixture(first, second, rng) is None


def test_inexact_argmax_may_be_beaten():
    class Declared(FirstTwoOnly):
        exact_argmax = False

        def __reduce__(self):
            return (FirstTwoOnly, ())

    X, _ = candidates()
    check_task(Declared(), X, [0] * len(X))


def test_several_kinds():
    class NoEdges(Pairs):
        def parts(self, x):
            return {"node": x[:2]}

    class NotADict(Pairs):
        def joint_feature(self, x, y):
            return np.array(y, dtype=float)[:, None]

    with pytest.raises(TaskError, match=r"parts\(X\[0\]\) has no entry for kind 'edge'"):
        check_task(NoEdges(), *pairs())
    with pytest.raises(TaskError, match=r"joint_feature\(X\[0\]\) must return a dict"):
        check_task(NotADict(), *pairs())


def test_arguments():
    X, Y = candidates()
    with pytest.raises(TaskError, match="X has 12 examples and Y 11"):
        check_task(Choose(), X, Y[:-1])
    with pytest.raises(TaskError, match="X is empty"):
        check_task(Choose(), [], [])
    with pytest.raises(TaskError, match="outputs has 1 entries for 12 examples"):
        check_task(Choose(), X, Y, outputs=[[0]])
    with pytest.raises(TaskError, match="subclass of Task"):
        check_task("Choose", X, Y)


# -- equality of nested values -----------------------------------------------------------------


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
            Measure(np.ones(1), np.ones(1), np.ones(1)),
            Measure(np.ones(1), np.ones(1), np.zeros(1)),
            False,
        ),
        (StackedParts({"x": np.ones(2)}, {}), StackedParts({"x": np.ones(2)}, {}), True),
        (object(), object(), True),
    ],
)
def test_deep_equality(a, b, equal):
    assert deeply_equal(a, b) is equal
    assert deeply_equal(a, deep_copy(a))


def test_deep_copy_of_what_has_none():
    assert deep_copy(threading.Lock()) is None


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


class PlainBinary(BinaryTask):
    """Says that it needs no inputs, and leaves the batch form as it is."""

    separate = Task.separate


def test_plain_methods_do_without_inputs_too():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.tile([1, -1], 10)
    check_task(PlainBinary(), X, y)
    one, other = (StructBoost(task, C=10.0).fit(X, y) for task in (PlainBinary(), BinaryTask()))
    assert one.objective_ == pytest.approx(other.objective_, rel=0.02)


class SummedChain(ChainTask):
    """A chain whose marginals, or whose sum, are broken on purpose."""

    def __init__(self, fault):
        super().__init__(2)
        self.fault = fault

    def marginals_batch(self, X, scores):
        expected, log_sums = super().marginals_batch(X, scores)
        if self.fault == "marginals":
            expected["step"] *= 1.01
        if self.fault == "sum":
            log_sums = log_sums - 3.0
        if self.fault == "batch" and len(X) > 1:
            expected["token"] = expected["token"][::-1]
        return Marginals(expected, log_sums)

    def outputs(self, x):
        return super().outputs(x) if self.fault == "batch" else None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("marginals", "is not the gradient of log_sum"),
        ("sum", "below the score"),
        ("batch", "marginals_batch of X.* differs from marginals"),
    ],
)
def test_broken_marginals_are_found(fault, message):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 1)) for n in (1, 2, 3)]
    Y = [rng.integers(2, size=len(x)) for x in X]
    with pytest.raises(TaskError, match=message):
        check_task(SummedChain(fault), X, Y)
