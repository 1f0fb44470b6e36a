"""One style for all plots of the pages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Panel:
    """What one axis shows.

    ``curves`` are x, y and keywords of ``plot`` (``yerr`` draws bars, an x of None a level line);
    ``settings`` are keywords of ``set``; ``numbers`` writes numbers on logarithmic axes.
    """

    curves: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    legend: bool = False
    numbers: bool = False

    def draw(self, axis: Any) -> None:
        for x, y, style in self.curves:
            if x is None:
                axis.axhline(y, **style)
            elif "yerr" in style:
                axis.errorbar(x, y, capsize=2, **style)
            else:
                axis.plot(x, y, **style)
        axis.set(**self.settings)
        if self.numbers:
            plain_ticks(axis)
        if self.legend and self.curves:
            axis.legend(frameon=False, fontsize=8)


def draw(
    path: Path,
    rows: Sequence[Sequence[Panel]],
    size: tuple[float, float],
    *,
    grid: bool = True,
    legend: dict[str, Any] | None = None,
    labels: tuple[str, str] | None = None,
    **axes: Any,
) -> None:
    """Panels in rows, with one legend (its keywords) and labels of x and y for all, if given."""
    width = max(map(len, rows))
    with panels(path, (len(rows), width), size, grid=grid, **axes) as (figure, grid_of_axes):
        for row, own in zip(rows, grid_of_axes, strict=True):
            for panel, axis in zip(row, own, strict=False):
                panel.draw(axis)
            for axis in own[len(row) :]:
                axis.remove()
        if labels:
            figure.supxlabel(labels[0], fontsize=10)
            figure.supylabel(labels[1], fontsize=10)
        if legend:
            shared_legend(figure, grid_of_axes[0, 0], **legend)


@contextmanager
def panels(
    path: Path, shape: tuple[int, int], size: tuple[float, float], *, grid: bool = True, **axes: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, an array of ``shape``; written to ``path`` at the end of the block."""
    figure = new_figure(size)
    grid_of_axes = figure.subplots(*shape, squeeze=False, **axes)
    yield figure, grid_of_axes
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        if grid:
            axis.grid(alpha=0.25)
    save(figure, path)


def new_figure(size: tuple[float, float]) -> Any:
    """A figure without a window."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def save(figure: Any, path: Path, dpi: int = 110) -> None:
    """Write a figure and let go of it."""
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=dpi)
    plt.close(figure)


def plain_ticks(axis: Any) -> None:
    """Numbers instead of powers of ten on logarithmic axes."""
    from matplotlib.ticker import ScalarFormatter

    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(ScalarFormatter())
        one.set_minor_formatter(ScalarFormatter())


def shared_legend(figure: Any, axis: Any, **settings: Any) -> None:
    """The legend of one axis for the whole figure."""
    figure.legend(*axis.get_legend_handles_labels(), frameon=False, **settings)
