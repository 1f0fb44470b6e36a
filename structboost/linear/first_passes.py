"""First passes of the linear structured SVM, with weights that change within a pass.

At weight zero the loss-augmented argmax gives all examples much the same cuts, which small weights
satisfy.  A pass in runs makes the cuts of each run at the weights that the runs before have left,
as block-coordinate Frank-Wolfe does example by example.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.contract.calls import separation
from structboost.contract.task import Task
from structboost.solvers.block_frank_wolfe import BlockFrankWolfe
from structboost.solvers.linear_scores import FoundOutputs, LinearScores, merge_kinds, starts_of


def pass_in_runs(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    parts: LinearScores,
    solver: BlockFrankWolfe,
    n_runs: int,
) -> None:
    """Make one pass over the examples, in runs that each add their cuts and step on them.

    The examples of a run follow each other.
    """
    n = parts.n_examples
    flat = np.zeros(parts.n_scores)
    for first, last in pairwise(np.linspace(0, n, n_runs + 1).astype(int).tolist()):
        if first == last:
            continue
        scores = parts.scores_of_run(solver.weights, first, last, flat)
        separated = separation(
            task, [X[i] for i in range(first, last)], [Y[i] for i in range(first, last)], scores,
            first,
        )  # fmt: skip
        outputs = merge_kinds(separated, parts, scores, first)
        solver.add(_among_all(outputs, first, n), flat)
        solver.visit(np.arange(first, last))


def _among_all(outputs: FoundOutputs, first: int, n: int) -> FoundOutputs:
    m = len(outputs.losses)

    def padded(values: FloatArray, fill: float) -> FloatArray:
        out = np.full(n, fill)
        out[first : first + m] = values
        return out

    counts = padded(np.diff(outputs.first_entry), 0.0)
    return FoundOutputs(
        padded(outputs.losses, 0.0), padded(outputs.violations, -1.0), starts_of(counts),
        outputs.entry_score, outputs.entry_value,
    )  # fmt: skip
