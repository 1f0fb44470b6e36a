"""
A task of your own
==================

An input is a set of candidates, a different number each time, and the output is the chosen one.
Four methods say so; the trainer does the rest.
"""

import matplotlib.pyplot as plt
import numpy as np

from structboost import PartKind, StructBoost, StructuredSVM, Task, check_task


class ChooseCandidate(Task):
    """One of several candidates."""

    kinds = {"x": PartKind(n_channels=1)}

    def parts(self, x):
        """Features of the candidates."""
        return x

    def joint_feature(self, x, y):
        """Mark the chosen one."""
        return [y], [0], [1.0]

    def loss(self, y, y_pred):
        """Whether another one is chosen."""
        return float(y != y_pred)

    def argmax(self, x, scores, y=None):
        """Return the best candidate; all but y gain the loss of 1 where y is given."""
        return int(np.argmax(scores[:, 0] + (0 if y is None else np.arange(len(x)) != y)))


# %%
# Choose the candidate that is nearest to the centre, which no linear score can say:

rng = np.random.default_rng(0)
X = [rng.uniform(-2, 2, size=(rng.integers(3, 9), 2)) for _ in range(500)]
Y = [int(np.argmin((x**2).sum(axis=1))) for x in X]
check_task(ChooseCandidate(), X[:20], Y[:20])

models = {
    "linear": StructuredSVM(ChooseCandidate(), C=100, tol=0.05, random_state=0),
    "boosted stumps": StructBoost(ChooseCandidate(), C=100, tol=0.05),
}
for name, model in models.items():
    model.fit(X[:300], Y[:300])
    print(f"{name}: {-model.score(X[300:], Y[300:]):.1%} of new choices are wrong")

# %%
# The score of a candidate, by where it is:

side = np.linspace(-2, 2, 80)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.7), layout="constrained", sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    scores = grid @ model.w_[:2] if name == "linear" else model.model_.scores(grid, "x")
    axis.contourf(side, side, scores.reshape(80, 80), 20, cmap="viridis")
    axis.plot(0, 0, "wx")
    axis.set(title=name, aspect="equal")
plt.show()
