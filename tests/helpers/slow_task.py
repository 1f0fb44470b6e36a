"""Task of a user with a slow argmax.

It has a module of its own, where other processes find it.
"""

import time

import numpy as np

from structboost import PartKind, Task


class SlowTask(Task):
    """Four classes, by the four methods alone.

    Parameters
    ----------
    seconds : float
        What an argmax takes.
    """

    kinds = {"x": PartKind(n_channels=4)}

    def __init__(self, seconds):
        self.seconds = seconds

    def parts(self, x):
        return x[None]

    def joint_feature(self, x, y):
        return [0], [y], [1.0]

    def loss(self, y, y_pred):
        return float(y != y_pred)

    def argmax(self, x, scores, y=None):
        time.sleep(self.seconds)
        return int(np.argmax(scores[0] + (0 if y is None else np.arange(4) != y)))
