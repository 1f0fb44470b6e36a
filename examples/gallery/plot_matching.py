"""
Points of two pictures
======================

The points of an object are seen twice, the second time turned and noisy. Which point is which? The
matcher learns how to weigh the differences of descriptors, and solves an assignment problem.
"""

import matplotlib.pyplot as plt
import numpy as np

from structboost import MatchingTask, StructBoost

rng = np.random.default_rng(0)


def two_pictures(n_points=14):
    """Two sets of points, the squared differences of their descriptors, and the partners."""
    first = rng.normal(size=(n_points, 2))
    angle = rng.uniform(-0.4, 0.4)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    order = rng.permutation(n_points)
    second = (first @ turn + 0.05 * rng.normal(size=first.shape))[order]
    radius = [np.linalg.norm(points, axis=1) for points in (first, second)]
    vague = [points + rng.normal(size=points.shape) for points in (first, second)]
    columns = [
        *zip(first.T, second.T, strict=True),
        radius,
        *zip(vague[0].T, vague[1].T, strict=True),
    ]
    x = np.stack([(a[:, None] - b[None]) ** 2 for a, b in columns], axis=2)
    return (first, second), x, np.argsort(order)


pairs = [two_pictures() for _ in range(40)]
X, Y = [x for _, x, _ in pairs], [y for _, _, y in pairs]
matcher = StructBoost(MatchingTask(), C=30, tol=0.1, max_rounds=30).fit(X[:30], Y[:30])
wrong = np.mean(np.concatenate(matcher.predict(X[30:])) != np.concatenate(Y[30:]))
alike = [MatchingTask().argmax(x, -x.sum(axis=2).reshape(-1, 1)) for x in X[30:]]
before = np.mean(np.concatenate(alike) != np.concatenate(Y[30:]))
print(f"wrong partners: {wrong:.1%}; with equal weights {before:.1%}")

# %%
# A pair of pictures that was not trained on, with all descriptors alike and as learned:

(first, second), x, truth = pairs[30]
second[:, 0] += 6
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for axis, partners, name in (
    (axes[0], alike[0], "equal weights"),
    (axes[1], matcher.predict([x])[0], "learned"),
):
    for i, j in enumerate(partners):
        right = j == truth[i]
        axis.plot(*zip(first[i], second[j], strict=True), c="tab:green" if right else "tab:red")
    axis.plot(*first.T, "ko", *second.T, "ko", ms=4)
    axis.set_title(f"{name}: {np.sum(partners != truth)} of {len(truth)} wrong")
    axis.set_axis_off()
plt.show()
