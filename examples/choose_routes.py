"""Routes by predicted travel times: least squares against learning by regret.

``python examples/choose_routes.py [PICTURE.png]`` prints regret by the number of training days, and
draws the routes of one day (by default ``choose-routes.png``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from structboost import PredictThenOptimize
from structboost.decisions import GridPath

CITY = GridPath(5, 5)
SIZES = (30, 100, 300, 1000)
STYLES = {"best": ("tab:green", 9), "least squares": ("tab:orange", 5), "by regret": ("k", 2)}


def days(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five features of each day, and the travel time of each street.

    The times are those of PyEPO's generator: a power of a linear function, with noise.
    """
    streets = np.random.default_rng(8).integers(0, 2, size=(CITY.n_items, 5))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    times = ((x @ streets.T / np.sqrt(5) + 3) ** 6 + 1) / 3.5**6
    return x, times * rng.uniform(0.5, 1.5, size=times.shape)


def draw_routes(axes: plt.Axes, times: np.ndarray, routes: dict[str, np.ndarray]) -> None:
    """Streets in shades of their travel time, and the routes over them."""
    place = np.column_stack(np.divmod(np.arange(25), 5))[:, ::-1] * [1, -1]
    for (tail, head), time in zip(CITY.arcs, times / times.max(), strict=True):
        axes.plot(*place[[tail, head]].T, color=plt.cm.Blues(0.15 + 0.85 * time), lw=14, zorder=1)
    for name, route in routes.items():
        color, width = STYLES[name]
        for k, (tail, head) in enumerate(CITY.arcs[route > 0]):
            label = f"{name}: {route @ times:.1f}" if k == 0 else None
            axes.plot(*place[[tail, head]].T, color=color, lw=width, label=label, zorder=2)
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_title("One day: dark streets take long")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False)


def main(target: Path) -> None:
    """Train at each size, print regret, draw it beside the routes of one day."""
    x, times = days(max(SIZES), 0)
    held_x, held = days(1000, 1)
    best = CITY.solve_all(held)
    regrets: dict[str, list[float]] = {"least squares": [], "by regret": []}
    for n in SIZES:
        model = PredictThenOptimize(CITY, C=10.0, random_state=0).fit(x[:n], times[:n])
        predicted = LinearRegression().fit(x[:n], times[:n]).predict(held_x)
        chosen = {"least squares": CITY.solve_all(predicted), "by regret": model.predict(held_x)}
        for name, routes in chosen.items():
            regrets[name].append(100 * ((held * routes).sum() / (held * best).sum() - 1))
        print(
            f"{n:5d} days: regret {regrets['least squares'][-1]:5.1f} % by least squares, "
            f"{regrets['by regret'][-1]:5.1f} % by regret"
        )
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    losses = {name: (held * (routes - best)).sum(axis=1) for name, routes in chosen.items()}
    day = int(np.argmax(losses["least squares"] - losses["by regret"]))
    routes = {"best": best[day], **{name: table[day] for name, table in chosen.items()}}
    draw_routes(left, held[day], routes)
    for name, values in regrets.items():
        right.plot(SIZES, values, "o-", color=STYLES[name][0], label=name)
    right.set(xscale="log", xlabel="training days", ylabel="regret, %", ylim=(0, None))
    right.set_title("Regret on 1,000 other days")
    right.legend()
    figure.savefig(target, dpi=90)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw routes by predicted travel times.")
    parser.add_argument("picture", nargs="?", type=Path, default=Path("choose-routes.png"))
    main(parser.parse_args().picture)
