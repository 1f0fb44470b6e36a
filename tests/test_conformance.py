"""check_task passes what keeps the contract, and names what breaks it."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import BinaryTask, MulticlassTask, PartKind, RankingTask, Separation, Task, TaskError, check_task

rng = np.random.default_rng(0)
X = rng.normal(size=(6, 2))
Y = np.array([0, 1, 2, 2, 1, 0])


def test_built_in_tasks_pass():
    check_task(MulticlassTask(3), X, Y, outputs=[range(3)] * 6)
    check_task(BinaryTask(), X, np.where(Y > 0, 1, -1), outputs=[(-1, 1)] * 6)
    queries = [rng.normal(size=(n, 2)) for n in (1, 4, 6)]
    check_task(RankingTask(), queries, [rng.integers(0, 3, size=len(q)) for q in queries])


class Good(Task):
    kinds = {"x": PartKind(n_channels=3)}

    def parts(self, x):
        return x[None]

    def joint_feature(self, x, y):
        return [0], [y], [1.0]

    def loss(self, y, y_pred):
        return float(y != y_pred)

    def argmax(self, x, scores, y=None):
        return int(np.argmax(scores[0] + (0 if y is None else np.arange(3) != y)))


def broken(**methods):
    return type("Broken", (Good,), methods)()


class Counter(Good):
    calls = 0

    def argmax(self, x, scores, y=None):
        Counter.calls += 1
        return Counter.calls % 3


class AlwaysZero(Good):
    exact_argmax = False

    def argmax(self, x, scores, y=None):
        return 0


class Unpicklable(Good):
    def __init__(self):
        self.handle = lambda: None


def in_place(self, x, scores, y=None):
    scores += 1.0
    return 0


def no_separation(self, X, Y, scores):
    n = len(X)
    empty = np.zeros(0, np.int64)
    from structboost import Measure

    return Separation(np.zeros(n), {"x": Measure(empty, empty, np.zeros(0))}, {"x": np.zeros(n + 1, np.int64)})


CASES = {
    "parts shape": (broken(parts=lambda self, x: x), r"parts\(X\[0\]\) gave shape"),
    "parts nan": (broken(parts=lambda self, x: np.full((1, 2), np.nan)), r"parts\(X\[0\]\) has NaN"),
    "parts random": (broken(parts=lambda self, x: rng.normal(size=(1, 2))), r"parts\(X\[0\]\) differs"),
    "joint shape": (broken(joint_feature=lambda self, x, y: np.zeros((2, 3))), r"joint_feature\(X\[0\], y\).*\(1, 3\)"),
    "joint channel": (broken(joint_feature=lambda self, x, y: ([0], [5], [1.0])), r"joint_feature\(X\[0\].*channel"),
    "joint nan": (broken(joint_feature=lambda self, x, y: ([0], [y], [np.nan])), r"joint_feature\(X\[0\].*NaN"),
    "loss of truth": (broken(loss=lambda self, y, p: 1.0), r"loss\(Y\[0\], Y\[0\]\) is 1"),
    "loss negative": (broken(loss=lambda self, y, p: -float(y != p)), r"loss\(Y\[0\], y_pred\) is -1"),
    "loss infinite": (broken(loss=lambda self, y, p: np.inf if y != p else 0.0), r"loss\(Y\[0\], y_pred\) is inf"),
    "argmax beaten": (broken(argmax=lambda self, x, s, y=None: int(np.argmin(s[0]))), r"argmax of X\[0\] reaches"),
    "loss forgotten": (broken(argmax=lambda self, x, s, y=None: int(np.argmax(s[0]))), r"loss-augmented argmax of X\["),
    "argmax random": (Counter(), r"argmax\(X\[0\].*deterministic"),
    "argmax in place": (broken(argmax=in_place), r"argmax\(X\[0\].*changed its scores"),
    "separate": (broken(separate=no_separation), r"separate\(X, Y, scores\) finds a violation of 0 for X\[0\]"),
    "pickling": (Unpicklable(), "pickled"),
    "kinds": (broken(kinds={"x": 3}), r"kinds\['x'\] is 3"),
    "response": (broken(kinds={"x": PartKind(3, (1.0, 1.0))}), r"low < high"),
}


def test_the_unbroken_one_passes():
    check_task(Good(), X, Y, outputs=[range(3)] * 6)


@pytest.mark.parametrize("case", CASES)
def test_broken_properties_are_named(case):
    task, message = CASES[case]
    with pytest.raises(TaskError, match=message):
        check_task(task, X, Y, outputs=[range(3)] * 6)


def test_an_argmax_is_held_against_what_the_task_enumerates():
    task = broken(argmax=lambda self, x, s, y=None: 0, outputs=lambda self, x: range(3))
    with pytest.raises(TaskError, match=r"argmax of X\[0\] reaches .* but the output [12] reaches"):
        check_task(task, X, Y)
    check_task(AlwaysZero(), X, Y, outputs=[range(3)] * 6)


def test_arguments():
    with pytest.raises(TaskError, match="X has 6 examples and Y 5"):
        check_task(Good(), X, Y[:5])
    with pytest.raises(TaskError, match="X is empty"):
        check_task(Good(), [], [])
    with pytest.raises(TaskError, match="subclass of Task"):
        check_task(object(), X, Y)
