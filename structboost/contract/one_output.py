"""Models that predict one output for everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import IntArray
from structboost.contract.measures import joint_features
from structboost.exceptions import ConstantPredictionWarning, warn_user
from structboost.task import StackedParts, Task
from structboost.validation import SparseRows, by_position

# Examples that are looked at first.  All are, where these have one prediction.
_SAMPLED = 50
# Larger tables of joint features are not compared.
_MOST_ENTRIES = 1 << 22

# Scores of the parts of inputs.
Scorer = Callable[[Sequence[Any]], StackedParts]


def warn_of_one_output(task: Task, X: Sequence[Any], Y: Sequence[Any], scores_of: Scorer) -> None:
    """Warn if a model predicts one output for all examples, whose true outputs differ.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Training examples.
    scores_of : callable
        ``scores_of(X)`` returns the scores of the model.

    Warns
    -----
    ConstantPredictionWarning
        If it does.
    """
    X, Y = by_position(X), by_position(Y)
    sample = np.unique(np.linspace(0, len(Y) - 1, min(len(Y), _SAMPLED)).astype(np.int64))
    for rows in (sample, np.arange(len(Y))):
        inputs, outputs = _at(X, rows), _at(Y, rows)
        if not predicts_one_output(task, inputs, outputs, scores_of(inputs)):
            return
    warn_user(
        f"The model predicts one output for all {len(Y)} training examples, whose true outputs "
        "differ.  Give more rounds or a larger C, features that tell the outputs apart, or weights "
        "to the examples of rare outputs.",
        ConstantPredictionWarning,
    )


def predicts_one_output(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts
) -> bool:
    """Whether the best outputs at some scores are one, while the true outputs differ.

    Outputs are compared by what they give each part: their joint features.  Where inputs have
    several parts, only kinds with several parts count, such as the tokens of sequences, so that
    sequences of different lengths may have one tag.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Examples.
    scores : StackedParts
        Scores of their parts.

    Returns
    -------
    one : bool
    """
    n_examples = len(Y)
    n_parts = {kind: int(starts[-1]) for kind, starts in scores.offsets.items()}
    several = [kind for kind, n in n_parts.items() if n > n_examples]
    kinds = several or list(n_parts)
    channels = {kind: task.kinds[kind].n_channels for kind in kinds}
    if n_examples < 2 or any(n_parts[kind] * channels[kind] > _MOST_ENTRIES for kind in kinds):
        return False
    found = joint_features(task, X, list(task.argmax_batch(X, scores)), scores.offsets)
    true = joint_features(task, X, Y, scores.offsets)

    def is_one(measures: Any, kind: str) -> bool:
        parts, of_channel, values = measures[kind]
        table = csr_array((values, (parts, of_channel)), shape=(n_parts[kind], channels[kind]))
        return _is_one_row(table.toarray())

    is_found = all(is_one(found, kind) for kind in kinds)
    return is_found and not all(is_one(true, kind) for kind in kinds)


def _is_one_row(table: Any) -> bool:
    return bool((table == table[:1]).all())


def _at(sequence: Sequence[Any], rows: IntArray) -> Any:
    """Examples by their indices."""
    if isinstance(sequence, np.ndarray | SparseRows):
        return sequence[rows]
    return [sequence[i] for i in rows.tolist()]
