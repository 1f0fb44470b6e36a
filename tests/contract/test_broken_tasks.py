"""Tests that check_task names the broken property, and the sample (usually 3), of each task."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from structboost.contract.check_task import check_task
from structboost.contract.parts import PartKind, StackedParts, stack_parts
from structboost.contract.separation import separate_by_argmax
from tests.helpers.listed_outputs import Batched, Choose, Listed, candidates, is_third
from tests.helpers.refusals import refused


def changed(**functions):
    """A ``separate`` whose result is changed by functions of it and of the scores."""

    def separate(self, X, Y, scores):
        found = separate_by_argmax(self, X, Y, scores)
        return replace(found, **{name: of(found, scores) for name, of in functions.items()})

    return separate


def local_rows(found, scores):
    """Part indices within the example."""
    m = found.differences["x"]
    first = np.repeat(scores.offsets["x"][:-1], np.diff(found.indptr["x"]))
    return {"x": m._replace(parts=m.parts - first)}


def shy(self, x, scores, y=None):
    """Never return output 0."""
    return 1 + Choose.argmax(self, x[1:], scores[1:], None if y is None else y - 1)


def changes_input(self, x):
    x[0, 0] = 7.0 if is_third(x) else x[0, 0]
    return x


def changes_inputs(self, X, Y, scores):
    X[3 % len(X)][0, 0] += len(X) > 1
    return separate_by_argmax(self, X, Y, scores)


def changes_scores(self, X, Y, scores):
    scores.rows["x"][0] += 1.0
    return separate_by_argmax(self, X, Y, scores)


def one_by_one(self, X, scores, Y=None):
    truths = [None] * len(X) if Y is None else Y
    return [self.argmax(x, scores.example(i), truths[i]) for i, x in enumerate(X)]


def worst(self, X, scores, Y=None):
    if Y is not None:
        return one_by_one(self, X, scores, Y)
    return [int(np.argmin(scores.example(i)[:, 0])) for i in range(len(X))]


def too_few(self, X, Y, scores):
    n = max(1, len(Y) - 1)
    return separate_by_argmax(self, X[:n], Y[:n], scores)


def in_range(self, x, y):
    return 0 <= y < len(x)


BROKEN = [
    (Choose, {"parts": lambda self, x: x[:, :2] if is_third(x) else x}, r"X\[3\]\) gave shape"),
    (Choose, {"parts": lambda self, x: x[:, :0]}, r"parts\(X\[0\]\) has no features for kind 'x'"),
    (Choose, {"parts": changes_input}, r"parts changed X\[3\] in place"),
    (Choose, {"outputs": lambda self, x: range(0)}, r"outputs\(X\[0\]\) does not list .* Y\[0\]"),
    (
        Choose,
        {"joint_feature": lambda self, x, y: ([y + 10 * is_third(x)], [0], [1.0])},
        r"joint_feature\(X\[3\], Y\[3\]\) names a part outside",
    ),
    (
        Choose,
        {"joint_feature": lambda self, x, y: ([y], [int(is_third(x))], [1.0])},
        r"joint_feature\(X\[3\], Y\[3\]\) names a channel outside",
    ),
    (
        Choose,
        {"joint_feature": lambda self, x, y: ([y + 0.5 * is_third(x)], [0], [1.0])},
        r"joint_feature\(X\[3\], Y\[3\]\) is .* give whole numbers",
    ),
    (
        Choose,
        {"joint_feature": lambda self, x, y: ([y], [0], [{False: 1.0}[is_third(x)]])},
        r"joint_feature raised KeyError for X\[3\]: True",
    ),
    (Choose, {"argmax": shy, "outputs": None}, r"is not exact: .*output Y?.*has"),
    (
        Choose,
        {"argmax": lambda self, x, scores, y=None: int(np.random.default_rng().integers(len(x)))},
        r"argmax\(X\[\d+\], scores\) is not deterministic",
    ),
    (Choose, {"argmax": lambda self, x, scores, y=None: len(x)}, r"X\[0\], y\) names a part out"),
    (
        Choose,
        {
            "argmax": lambda *_: 9,
            "joint_feature": lambda self, x, y: ([range(len(x))[y]], [0], [1.0]),
        },
        r"argmax\(X\[0\], scores\) is 9, which joint_feature does not take",
    ),
    (
        Choose,
        {"predict": lambda self, x, scores: scores["x"]},
        r"predict raised Index.* for X\[0\]",
    ),
    (
        Choose,
        {"stack": lambda self, X: stack_parts(self.kinds, [x + is_third(x) for x in X])},
        r"stack\(X\) differs from parts\(X\[3\]\)",
    ),
    (
        Choose,
        {"stack": lambda self, X: StackedParts({"x": np.concatenate(X)}, {"x": np.arange(12)})},
        r"stack\(X\) returned StackedParts.*as offsets",
    ),
    (
        Choose,
        {"separate": changed(differences=local_rows)},
        r"separate gives X\[\d+\] another result than alone",
    ),
    (
        Choose,
        {"separate": changed(losses=lambda found, scores: found.losses[::-1])},
        r"separate gives X\[\d+\] another result than alone",
    ),
    (Choose, {"separate": too_few}, r"separate gave 11 outputs for 12 examples"),
    (
        Choose,
        {"separate": changed(indptr=lambda found, scores: {"x": found.indptr["x"] + 1})},
        r"separate: indptr of 'x' must rise from 0",
    ),
    (
        Choose,
        {"separate": changed(losses=lambda found, scores: found.losses / (len(found.losses) < 2))},
        r"argmax of X\[\d\] has a loss.*separate gave it the loss (nan|inf)",
    ),
    (
        Choose,
        {
            "separate": changed(
                differences=lambda found, scores: {
                    "x": found.differences["x"]._replace(channels=found.differences["x"].parts + 1)
                }
            )
        },
        r"separate names a channel outside 0..0 of 'x'",
    ),
    (Choose, {"separate": changes_scores}, r"separate changed the scores of X\[0\] in place"),
    (Choose, {"separate": changes_inputs}, r"a batch form changed X\[3\] in place"),
    (Choose, {"__reduce__": lambda self: threading.Lock()}, r"task cannot be pickled"),
    (
        Choose,
        {"is_valid": lambda self, x, y: not (is_third(x) and y == candidates()[1][3])},
        r"is_valid\(X\[3\], y\) is False for the true output Y\[3\]; it must be True",
    ),
    (
        Choose,
        {
            "joint_feature": lambda self, x, y: ([y % len(x)], [0], [1.0]),
            "argmax": lambda self, x, scores, y=None: (
                Choose.argmax(self, x, scores, y) + (len(x) if is_third(x) else 0)
            ),
            "is_valid": in_range,
        },
        r"is_valid\(X\[3\], y\) is False for an output of the argmax",
    ),
    (
        Choose,
        {"outputs": lambda self, x: range(len(x) + is_third(x)), "is_valid": in_range},
        r"is_valid\(X\[3\], y\) is False for output \d of outputs\(X\[3\]\)",
    ),
    (
        Listed,
        {
            "kinds": {"x": PartKind(response=(0.0, 1.0))},
            "loss_scores": lambda self, x, y: Listed.loss_scores(self, x, y) - 1.0,
        },
        r"loss_scores\(X\[0\], Y\[0\]\) is negative for kind 'x'",
    ),
    (Batched, {"argmax_batch": worst}, r"\w+: the argmax of X\[\d+\] is not exact"),
    (Choose, {"argmax_batch": worst}, r"argmax_batch: the argmax of X\[\d+\] is not exact"),
    (
        Batched,
        {
            "argmax_batch": lambda self, X, scores, Y=None: [
                y + len(x) * is_third(x)
                for x, y in zip(X, Batched.argmax_batch(self, X, scores), strict=True)
            ]
        },
        r"joint_feature\(X\[3\], y\) names a part outside",
    ),
    (
        Choose,
        {"argmax_batch": lambda self, X, scores, Y=None: one_by_one(self, X, scores)},
        r"separate: the argmax of X\[\d+\] is not exact",
    ),
    (Choose, {"argmax": None, "outputs": None}, r"defines neither argmax\(x, scor"),
    (Choose, {"argmax": None, "outputs": lambda self, x: []}, r"outputs\(x\) is empty"),
    (Choose, {"kinds": {}}, r"task.kinds is {}"),
    (Choose, {"kinds": {"x": 1}}, r"task.kinds\['x'\] is 1"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "members", "message"), BROKEN, ids=["-".join(members) for _, members, _ in BROKEN]
)
def test_a_broken_property_is_named(base, members, message):
    refused(message, check_task, type("Broken", (base,), members)(), *candidates())


class Forgetful(Choose):
    """Task that loses its state when pickled."""

    factor = 2.0

    def __setstate__(self, state):
        self.factor = 3.0

    def __reduce__(self):
        return Forgetful, (), {"factor": 3.0}

    def parts(self, x):
        return self.factor * x


class FirstInBatches(Choose):
    """Task whose argmax of many examples is the first output of each."""

    def argmax_batch(self, X, scores, Y=None):
        outputs = one_by_one(self, X, scores, Y)
        return outputs if len(X) == 1 or Y is not None else [0] * len(X)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (FirstInBatches, r"argmax_batch gives X\[\d+\] another result than alone"),
        (Forgetful, r"other results for X\[0\] after pickling"),
    ],
)
def test_results_that_differ_elsewhere_are_named(task, message):
    refused(message, check_task, task(), *candidates())


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_channels", 0), *(("response", r) for r in ((1, -1), (0, np.inf), (0, 1, 2), "ab", None))],
)
def test_a_kind_of_parts_with_a_bad_value_is_refused(name, value):
    refused(f"{name} is", PartKind, **{name: value})
