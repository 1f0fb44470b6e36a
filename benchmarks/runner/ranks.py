"""Mean ranks of learners over data sets, and the picture of their critical difference."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata, studentized_range

from benchmarks.runner.pages import picture
from benchmarks.runner.records import Record, by, pick

LEVEL = 0.95


class Ranks(NamedTuple):
    """Mean ranks by learner, best first, and how far ranks that differ are apart at least."""

    of: dict[str, float]
    n_sets: int
    difference: float

    def groups(self) -> list[list[str]]:
        """Largest runs of neighbours that do not differ, of two learners or more."""
        names, values = list(self.of), np.array(list(self.of.values()))
        ends = np.searchsorted(values, values + self.difference, side="right")
        return [
            names[first:end]
            for first, end in enumerate(ends)
            if end - first > 1 and (first == 0 or end > ends[first - 1])
        ]


def mean_ranks(records: Sequence[Record], metric: str, methods: Sequence[str]) -> Ranks:
    """Rank learners by a loss on the sets that all have, with Nemenyi's difference at 5 %."""
    at = by(pick(records, metric=metric), "dataset", "method")
    sets = dict.fromkeys(name for name, _ in at)
    rows = [[at.get((name, method), {}).get("value") for method in methods] for name in sets]
    full = np.array([row for row in rows if None not in row], float)
    n_sets, n = len(full), len(methods)
    means = rankdata(full, axis=1).mean(axis=0)
    quantile = float(studentized_range.ppf(LEVEL, n, np.inf)) / np.sqrt(2.0)
    difference = quantile * float(np.sqrt(n * (n + 1) / (6.0 * n_sets)))
    order = np.argsort(means, kind="stable")
    return Ranks({methods[k]: float(means[k]) for k in order}, n_sets, difference)


def plot_ranks(panels: Mapping[str, Ranks], names: Mapping[str, str], path: Path) -> None:
    """Ranks on a line in each panel, with a bar over each group of learners that do not differ."""
    size = (7.0, 2.3 * len(panels))
    with picture(path, len(panels), figsize=size, squeeze=False) as axes:
        for axis, (title, ranks) in zip(axes[:, 0], panels.items(), strict=True):
            n = len(ranks.of)
            ends = 0.3, n + 0.7
            axis.set(xlim=ends, ylim=(-0.8 * ((n + 1) // 2) - 0.3, 1.5), yticks=[])
            axis.set_title(title, fontsize=10)
            axis.spines[["left", "right", "bottom"]].set_visible(False)
            axis.xaxis.tick_top()
            axis.set_xticks(range(1, n + 1))
            for place, (method, rank) in enumerate(ranks.of.items()):
                left = place < (n + 1) // 2  # names of the better half stand on the left
                level = -0.8 * ((place if left else n - 1 - place) + 1)
                end = ends[0] if left else ends[1]
                axis.plot([rank, rank, end], [1.5, level, level], color="black", linewidth=0.8)
                text = f"{names.get(method, method)} {rank:.2f}"
                axis.text(end, level + 0.1, text, ha="left" if left else "right", fontsize=9)
            for level, group in enumerate(ranks.groups()):
                of_group = [ranks.of[group[0]] - 0.03, ranks.of[group[-1]] + 0.03]
                axis.plot(of_group, [1.1 - 0.3 * level] * 2, color="#2a7f62", linewidth=4)
