"""
A route at predicted travel times
=================================

What counts is the time that the chosen route takes, not the error of the predicted times. A linear
model is too simple for these streets. Learning by regret puts its errors where they do not matter.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from structboost import PredictThenOptimize
from structboost.decisions import GridPath

city = GridPath(5, 5)
streets = np.random.default_rng(8).integers(0, 2, size=(city.n_items, 5))


def days(n, seed):
    """Five features of each day, and the travel time of each street."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    times = ((x @ streets.T / np.sqrt(5) + 3) ** 6 + 1) / 3.5**6
    return x, times * rng.uniform(0.5, 1.5, size=times.shape)


(x, times), (new_x, new_times) = days(300, 0), days(500, 1)
routes = {
    "best": city.solve_all(new_times),
    "least squares": city.solve_all(LinearRegression().fit(x, times).predict(new_x)),
    "by regret": PredictThenOptimize(city, C=10.0, random_state=0).fit(x, times).predict(new_x),
}
spent = {name: (new_times * route).sum(axis=1) for name, route in routes.items()}
for name, time in spent.items():
    regret = time.sum() / spent["best"].sum() - 1
    print(f"{name:14s} {time.mean():.2f} on average, regret {regret:.1%}")

# %%
# The day on which the two differ most. Dark streets take long.

day = np.argmax(spent["least squares"] - spent["by regret"])
place = np.column_stack(np.divmod(np.arange(25), 5))[:, ::-1] * [1, -1]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
for axis, (name, route) in zip(axes, routes.items(), strict=True):
    shades = plt.cm.Blues(0.1 + 0.9 * new_times[day] / new_times[day].max())
    for arc, shade, chosen in zip(city.arcs, shades, route[day], strict=True):
        axis.plot(*place[arc].T, color=shade, lw=11, zorder=1)
        if chosen:
            axis.plot(*place[arc].T, color="tab:red", lw=2.5, zorder=2)
    axis.set_title(f"{name}: {spent[name][day]:.1f}")
    axis.set_axis_off()
    axis.set_aspect("equal")
plt.show()
