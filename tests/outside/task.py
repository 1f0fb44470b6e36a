"""A task: choose one of the candidates that come with each input."""

import numpy as np

from structboost import PartKind, Task


class ChooseCandidate(Task):
    kinds = {"x": PartKind(n_channels=1)}

    def parts(self, x):
        return x

    def joint_feature(self, x, y):
        return [y], [0], [1.0]

    def loss(self, y, y_pred):
        return float(y != y_pred)

    def argmax(self, x, scores, y=None):
        return int(np.argmax(scores[:, 0] + (0 if y is None else np.arange(len(x)) != y)))


def examples(n, seed=0):
    """Inputs with 2 to 8 candidates; right is the one whose first feature is nearest to 0."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 9), 3)) for _ in range(n)]
    return X, [int(np.argmin(np.abs(x[:, 0]))) for x in X]
