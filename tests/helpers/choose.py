"""A task that tests share: choose one of several candidates."""

import numpy as np

from structboost import PartKind, Task


class Choose(Task):
    """Choose one of the candidates of each input; only the four methods."""

    kinds = {"x": PartKind(n_channels=1)}

    def parts(self, x):
        return x

    def joint_feature(self, x, y):
        return [y], [0], [1.0]

    def loss(self, y, y_pred):
        return abs(float(y) - float(y_pred))

    def argmax(self, x, scores, y=None):
        return int(np.argmax(scores[:, 0] + (0 if y is None else abs(np.arange(len(x)) - y))))
