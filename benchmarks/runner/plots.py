"""One style for all plots of the pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STYLE = {
    **{"axes.spines.top": False, "axes.spines.right": False, "grid.alpha": 0.25},
    **{"legend.frameon": False, "legend.fontsize": 8, "errorbar.capsize": 2},
}


@contextmanager
def panels(
    path: Path, shape: tuple[int, int], size: tuple[float, float], *, grid: bool = True, **axes: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, an array of ``shape``; written to ``path`` at the end of the block."""
    import matplotlib.pyplot as plt

    with plt.rc_context({**STYLE, "axes.grid": grid}):
        figure = new_figure(size)
        yield figure, figure.subplots(*shape, squeeze=False, **axes)
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
    """Few numbers instead of powers of ten on logarithmic axes; ticks that were chosen stay."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    for one in (axis.xaxis, axis.yaxis):
        if one.get_scale() == "log":
            low, high = one.get_view_interval()
            if not isinstance(one.get_major_locator(), FixedLocator):
                one.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
            one.set_major_formatter("{x:g}")
            one.set_minor_locator(NullLocator())


def shared_legend(figure: Any, axis: Any, **settings: Any) -> None:
    """The legend of one axis for the whole figure."""
    figure.legend(*axis.get_legend_handles_labels(), **settings)
