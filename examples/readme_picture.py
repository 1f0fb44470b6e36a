"""Draw the picture of the README: a tracked frame, a cut-out, the shape of a feature, a route.

``python -m examples.readme_picture PICTURE.png`` needs matplotlib, and about a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from skimage import data
from sklearn.datasets import load_wine

from examples.synthetic_clip import make_synthetic_clip
from structboost import PredictThenOptimize, ShapeDisplay, StructBoostClassifier
from structboost.decisions import GridPath
from structboost.segmentation import StrokeSegmenter, draw_segmentation
from structboost.tracking import StructBoostTracker, draw_box


def draw_tracked_frame(axis: Axes) -> None:
    """Follow an object through a synthetic clip and draw the last frame."""
    clip = make_synthetic_clip(38)
    tracker = StructBoostTracker(random_state=0).init(clip.frames[0], clip.boxes[0])
    for frame in clip.frames[1:]:
        box = tracker.update(frame)
    axis.imshow(draw_box(frame, box, f"{tracker.confidence:.2f}"))
    axis.set_title("a box in a video")


def draw_cut_out(axis: Axes) -> None:
    """Cut a cat out of a photograph by a few strokes."""
    photograph = data.chelsea()
    strokes = np.zeros(photograph.shape[:2], np.uint8)
    strokes[120:128, 110:280] = strokes[180:260, 190:198] = 1
    strokes[10:18, 110:180] = strokes[40:80, 240:248] = strokes[40:48, 240:330] = 1
    strokes[20:160, 420:427] = strokes[30:290, 8:15] = strokes[170:290, 420:427] = 2
    mask = StrokeSegmenter().predict(photograph, strokes)
    shown = draw_segmentation(photograph, mask)
    shown[strokes == 1], shown[strokes == 2] = (255, 255, 255), (0, 0, 0)
    axis.imshow(shown)
    axis.set_title("an object, by strokes")


def draw_shape(axis: Axes) -> None:
    """Learn three wines, and draw what the most important feature adds to each score."""
    x, y = load_wine(return_X_y=True, as_frame=True)
    classifier = StructBoostClassifier(objective="hinge", C=20, tol=0.01, spread=0.05).fit(x, y)
    display = ShapeDisplay.from_estimator(classifier, features=1)
    plt.close(display.figure_)
    feature = int(np.argmax(display.importances()))
    at, values = display.curve(feature)
    for number, name in enumerate(classifier.classes_):
        axis.plot(at, values[:, number], lw=2.5, label=f"wine {name}")
    axis.set(xlabel=x.columns[feature].replace("_", " "), ylabel="adds to the score")
    axis.set_title(f"a class, proved to {classifier.history_[-1]['gap']:.0%}")
    axis.legend(frameon=False, loc="lower center")
    axis.spines[["top", "right"]].set_visible(False)


def draw_route(axis: Axes) -> None:
    """Learn to choose routes by their regret, and draw one at its true travel times."""
    city = GridPath(5, 5)
    rng = np.random.default_rng(8)
    x = rng.normal(size=(301, 5))
    streets = rng.integers(0, 2, size=(city.n_items, 5))
    times = ((x @ streets.T / np.sqrt(5) + 3) ** 4 + 1) / 3.5**4
    route = PredictThenOptimize(city, C=10.0, random_state=0).fit(x[1:], times[1:]).predict(x[:1])
    place = np.column_stack(np.divmod(np.arange(25), 5))[:, ::-1] * [1, -1]
    shades = plt.get_cmap("Blues")(0.1 + 0.9 * times[0] / times[0].max())
    for arc, shade, chosen in zip(city.arcs, shades, route[0], strict=True):
        axis.plot(*place[arc].T, color=shade, lw=11, zorder=1)
        if chosen:
            axis.plot(*place[arc].T, color="tab:red", lw=3, zorder=2)
    axis.set_aspect("equal")
    axis.set_title("a route, by regret")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the picture of the README.")
    parser.add_argument("picture", type=Path, help="file that is written")
    target = parser.parse_args().picture
    plt.rc("font", size=13)
    widths = {"width_ratios": [1.35, 1.5, 1.3, 1]}
    figure, axes = plt.subplots(1, 4, figsize=(16, 3.4), layout="constrained", gridspec_kw=widths)
    for axis, draw in zip(
        axes, (draw_tracked_frame, draw_cut_out, draw_shape, draw_route), strict=True
    ):
        draw(axis)
        if draw is not draw_shape:
            axis.set_axis_off()
    figure.savefig(target, dpi=80)
