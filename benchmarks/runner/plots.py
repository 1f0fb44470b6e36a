"""One style for all plots of the pages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.runner.records import Record, grouped

STYLE = {
    **{"axes.spines.top": False, "axes.spines.right": False, "grid.alpha": 0.25},
    **{"legend.frameon": False, "legend.fontsize": 8, "axes.grid": True},
}


@contextmanager
def panels(
    path: Path, shape: tuple[int, int], size: tuple[float, float], **axes: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, an array of ``shape``; written to ``path`` at the end of the block."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=size, layout="constrained")
        yield figure, figure.subplots(*shape, squeeze=False, **axes)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def curves(
    path: Path,
    records: Sequence[Record],
    x: str,
    y: str,
    panel: str = "dataset",
    line: Sequence[str] = ("method",),
    **settings: Any,
) -> None:
    """Lines of a field over another one, a panel for each value of a third; none without points."""
    points = [r for r in records if r.get(x) is not None and r.get(y) is not None]
    of_panels = grouped((r[panel], r) for r in points)
    if not of_panels:
        return
    n_columns = min(4, len(of_panels))
    n_rows = -(-len(of_panels) // n_columns)
    size = (3.0 * n_columns + 1.5, 2.6 * n_rows + 0.6)
    with panels(path, (n_rows, n_columns), size) as (figure, axes):
        labels: dict[str, Any] = {}
        for axis, (title, own) in zip(axes.flat, of_panels.items(), strict=False):
            for key, of_line in grouped((tuple(r[one] for one in line), r) for r in own).items():
                label = ", ".join(map(str, key))
                colour = f"C{list(labels).index(label) if label in labels else len(labels)}"
                pairs = sorted((r[x], r[y]) for r in of_line)
                lines = axis.plot(*zip(*pairs, strict=True), color=colour, marker="o", ms=3)
                labels.setdefault(label, lines[0])
            axis.set(title=title, **settings)
        for axis in axes.flat[len(of_panels) :]:
            axis.remove()
        figure.legend(labels.values(), labels.keys(), loc="outside right upper")
        figure.supxlabel(x.replace("_", " "), fontsize=9)
        figure.supylabel(y.replace("_", " "), fontsize=9)
