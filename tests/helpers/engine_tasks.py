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


class KillsItsTaker(MulticlassTask):
    """Kills the first process that unpickles it, which leaves a folder in ``folder``."""

    def __init__(self, folder):
        super().__init__(3)
        self.home, self.folder = os.getpid(), str(folder)

    def __setstate__(self, state):
        vars(self).update(state)
        if os.getpid() != self.home and not os.listdir(self.folder):
            os.mkdir(os.path.join(self.folder, "killed"))
            kill()


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
    """Does something else in place of a search for violated outputs."""

    separates_in_batches = True

    def __init__(self, act, *arguments):
        self.act, self.arguments = act, arguments

    def separate(self, X, Y, scores):
        self.act(*self.arguments)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def raise_error(error):
    raise error


def raise_what_no_pickle_brings_home():
    raise ValueError("locked", threading.Lock())


class HomeMadeError(Exception):
    """Its class has another name in the trainer than in the process."""


def raise_home_made():
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


def raise_two_causes():
    raise TwoCausesError("one", "another")


class PressingTask(MulticlassTask):
    """Somebody presses Ctrl-C during a pass over the examples."""

    separates_in_batches = True

    def __init__(self, at):
        super().__init__(3)
        self.passes, self.at = 0, at

    def separate(self, X, Y, scores):
        self.passes += 1
        if self.passes == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return super().separate(X, Y, scores)
