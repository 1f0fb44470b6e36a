"""Tasks that engines are tested with.

Processes import this module to unpickle them, so it imports little: no scikit-learn.
"""

import os
import signal
import threading

import numpy as np

from structboost.contract.parts import PartKind
from structboost.contract.task import Task
from structboost.tasks import BinaryTask, MulticlassTask


class ChainTask(Task):
    """Labels of a chain of tokens, in Python: two kinds of parts, several rows an example."""

    def __init__(self, n_labels=2):
        self.n_labels = n_labels
        self.kinds = {
            "token": PartKind(n_channels=n_labels),
            "link": PartKind(n_channels=1, response=(0.0, 1.0)),
        }

    def parts(self, x):
        return {"token": x, "link": np.abs(np.diff(x, axis=0))}

    def joint_feature(self, x, y):
        y = np.asarray(y)
        token = (np.arange(len(y)), y, np.ones(len(y)))
        return {"token": token, "link": -(np.diff(y) != 0).astype(float)[:, None]}

    def loss(self, y, y_pred):
        return float(np.mean(np.asarray(y) != np.asarray(y_pred)))

    def argmax(self, x, scores, y=None):
        gain = scores["token"].copy()
        if y is not None:
            gain += (np.arange(self.n_labels) != np.asarray(y)[:, None]) / len(y)
        best, back, differ = gain[0], [], 1 - np.eye(self.n_labels)
        for t in range(1, len(gain)):
            steps = best[:, None] - scores["link"][t - 1, 0] * differ
            back.append(steps.argmax(axis=0))
            best = gain[t] + steps.max(axis=0)
        labels = [int(best.argmax())]
        for pointers in reversed(back):
            labels.append(int(pointers[labels[-1]]))
        return labels[::-1]


class DeadlyTask(BinaryTask):
    """Kills the process that looks for a violated output."""

    separates_in_batches = True

    def separate(self, X, Y, scores):
        os.kill(os.getpid(), signal.SIGKILL)


class KillsItsTaker(MulticlassTask):
    """Kills processes that unpickle it, until there are as many files as it may kill."""

    def __init__(self, folder, n_kills):
        super().__init__(3)
        self.home, self.folder, self.n_kills = os.getpid(), str(folder), n_kills

    def __setstate__(self, state):
        vars(self).update(state)
        if os.getpid() != self.home and len(os.listdir(self.folder)) < self.n_kills:
            os.mkdir(os.path.join(self.folder, str(os.getpid())))
            os.kill(os.getpid(), signal.SIGKILL)


class CannotBeTaken(BinaryTask):
    """Cannot be unpickled in another process."""

    def __init__(self):
        super().__init__()
        self.home = os.getpid()

    def __setstate__(self, state):
        if os.getpid() != state["home"]:
            raise OSError("no such module here")
        self.__dict__.update(state)


class WrongTask(BinaryTask):
    """Breaks its contract."""

    separates_in_batches = True

    def __init__(self, error=None):
        self.error = ValueError("no such output") if error is None else error

    def separate(self, X, Y, scores):
        raise self.error


class HomeMadeError(Exception):
    """Its class has another name in the trainer than in the process."""


def raise_home_made(X, Y, scores):
    raise HomeMadeError("made at home")


class InterruptedTask(MulticlassTask):
    """Sends its process what a terminal sends to all on Ctrl-C."""

    separates_in_batches = True

    def separate(self, X, Y, scores):
        os.kill(os.getpid(), signal.SIGINT)
        return super().separate(X, Y, scores)


class TwoCausesError(Exception):
    """Cannot be made again by its constructor from what it keeps."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")
        self.one = one


class TwiceWrongTask(BinaryTask):
    """Raises it."""

    separates_in_batches = True

    def separate(self, X, Y, scores):
        raise TwoCausesError("one", "another")


class HoldsALock(BinaryTask):
    """Raises what no pickle brings home."""

    separates_in_batches = True

    def separate(self, X, Y, scores):
        raise ValueError("locked", threading.Lock())


class PressingTask(MulticlassTask):
    """Somebody presses Ctrl-C during a pass over the examples."""

    separates_in_batches = True

    def __init__(self, n_classes, at=0):
        super().__init__(n_classes)
        self.passes, self.at = 0, at

    def separate(self, X, Y, scores):
        self.passes += 1
        if self.passes == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return super().separate(X, Y, scores)
