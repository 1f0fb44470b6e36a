"""check_task: every broken property is caught, and the message names the sample and the property."""

import itertools
import threading
from dataclasses import replace

import numpy as np
import pytest

from structboost import StructBoost
from structboost.conformance import check_task
from structboost.deep_equality import deep_copy, deeply_equal
from structboost.exceptions import TaskError
from structboost.task import Measure, PartKind, Separation, StackedParts, Task, stack_parts
from structboost.tasks import BinaryTask, MulticlassTask, RankingTask
from structboost.tasks.ranking import PairOrder


class Choose(Task):
    """Choose one of the candidates of each input; loss: distance on the list."""

    kinds = {"x": PartKind(n_channels=1)}

    def parts(self, x):
        return x

    def joint_feature(self, x, y):
        return [y], [0], [1.0]

    def loss(self, y, y_pred):
        return abs(float(y) - float(y_pred))

    def argmax(self, x, scores, y=None):
        return int(np.argmax(scores[:, 0] + (0 if y is None else abs(np.arange(len(x)) - y))))

    def outputs(self, x):
        return range(len(x))


class Pairs(Task):
    """Two binary labels that like to agree: two kinds of parts, the second with scores >= 0."""

    kinds = {"node": PartKind(), "edge": PartKind(response=(0.0, 1.0))}

    def parts(self, x):
        return {"node": x[:2], "edge": np.abs(x[2:])}

    def joint_feature(self, x, y):
        return {"node": np.array(y, dtype=float)[:, None], "edge": np.array([[-float(y[0] != y[1])]])}

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
    return [rng.normal(size=(3, 2)) for _ in range(n)], [tuple(rng.integers(0, 2, 2).tolist()) for _ in range(n)]


def test_sound_tasks_pass():
    check_task(Choose(), *candidates())
    check_task(Pairs(), *pairs())


def test_built_in_tasks_pass():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    check_task(BinaryTask(), X, rng.choice([-1, 1], 40))
    check_task(MulticlassTask(4), X, rng.integers(0, 4, 40))
    queries = [rng.normal(size=(n, 2)) for n in (6, 6, 9, 1, 4)]
    check_task(RankingTask(), queries, [rng.integers(0, 3, len(q)) for q in queries])


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
    check_task(RankingTask(), [x], [y], outputs=[orders])


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


class WrongSelection(Choose):
    selects_features = True

    def parts(self, x, features=None):
        return x if features is None else x[:, np.sort(features) if is_third(x) else features][:, ::-1]


class RefusesSelection(Choose):
    selects_features = True


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

    outputs = None

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
        return Separation(found.losses, found.differences, found.indptr, np.zeros(n, np.int64), np.full(n, 1 / n))


class LightSlacks(Choose):
    def separate_slacks(self, X, Y, scores, limit):
        found = self.separate(X, Y, scores)
        n = len(Y)
        return Separation(found.losses, found.differences, found.indptr, np.arange(n), np.full(n, 0.5 / n))


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


class NeedsInputs(Choose):
    """Its argmax is called on the inputs."""

    reads_inputs = False


class PeeksAtInputs(BinaryTask):
    """Its answer depends on whether there are inputs."""

    def separate(self, X, Y, scores):
        found = super().separate(X, Y, scores)
        return found if X is not None else replace(found, losses=0.5 * found.losses)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (OtherWidth, r"parts\(X\[3\]\) gave shape .* expected \(n_parts, 3\)"),
        (FlatParts, r"parts\(X\[3\]\) gave shape"),
        (NotFinite, r"parts\(X\[3\]\) has NaN or infinite"),
        (RandomParts, r"parts\(X\[3\]\) is not deterministic"),
        (WrongSelection, r"parts\(X\[0\], features=...\) of kind 'x' differs"),
        (RefusesSelection, r"parts raised TypeError for X\[0\]"),
        (StrayPart, r"joint_feature\(X\[3\], y\) names a part outside"),
        (StrayChannel, r"joint_feature\(X\[3\], y\) names a channel outside"),
        (BrokenPart, r"joint_feature\(X\[3\], y\) names a part or channel that is not a whole number"),
        (NanWeight, r"joint_feature\(X\[3\], y\) has NaN"),
        (WrongShape, r"joint_feature\(X\[0\], y\) gave shape"),
        (RandomJointFeature, r"joint_feature\(X\[0\], Y\[0\]\) is not deterministic"),
        (RaisingJointFeature, r"joint_feature raised KeyError for X\[3\]: 'no such box'"),
        (LossOfTruth, r"loss\(Y\[0\], Y\[0\]\) is 1; the loss of the true output must be 0"),
        (NegativeLoss, r"loss\(Y\[\d+\], y_pred\) is -.* >= 0"),
        (NanLoss, r"loss\(Y\[\d+\], y_pred\) is nan"),
        (Augments, r"argmax\(X\[\d+\], scores, Y\[\d+\]\) is beaten: its output has loss plus score"),
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
        (LocalRows, r"separate gave the output of X\[\d+\] weight on row \d+ of kind 'x', which is not a part"),
        (TooFewOutputs, r"separate gave 11 outputs for 12 examples"),
        (BadIndptr, r"separate: indptr of kind 'x' must rise from 0"),
        (BadBatchLoss, r"separate gave output 3 the loss nan"),
        (BadBatchWeight, r"separate: output 0 has a part or channel of kind 'x' out of range"),
        (BatchChangesScores, r"separate changed the scores in place"),
        (BatchChangesInput, r"separate changed X\[3\] in place"),
        (BatchRaises, r"separate raised IndexError: out of luck"),
        (SlacksWithoutWeights, r"separate_slacks must give each of its 12 numbered slacks a weight"),
        (RepeatedSlacks, r"separate_slacks must give each of its 12 outputs a slack number of its own"),
        (LightSlacks, r"separate_slacks with a limit of \d+ has the risk"),
        (Unpicklable, r"task cannot be pickled"),
        (Forgetful, r"other results for X\[0\] after pickling"),
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
        outputs = None

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

        outputs = None

        def argmax(self, x, scores, y=None):
            start = 0 if np.abs(scores).max() > 5 else 2
            return start + int(np.argmax(scores[start : start + 2, 0]))

    X = [np.ones((4, 1)) for _ in range(5)]
    with pytest.raises(TaskError, match="its own output at other scores"):
        check_task(Moody(), X, [1] * 5)


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
        (np.array([np.zeros(2), "a"], dtype=object), np.array([np.zeros(2), "a"], dtype=object), True),
        ({"a": [1, (2, np.ones(2))]}, {"a": [1, (2, np.ones(2))]}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1], (1,), False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (Holder(np.ones(2)), Holder(np.ones(2)), True),
        (Holder(np.ones(2)), Holder(np.zeros(2)), False),
        (Measure(np.ones(1), np.ones(1), np.ones(1)), Measure(np.ones(1), np.ones(1), np.zeros(1)), False),
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
