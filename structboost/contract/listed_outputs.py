"""Maximum and sums over all outputs, for tasks that can list them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.contract.parts import (
    FeatureRows,
    Marginals,
    SparseFeature,
    StackedParts,
    measure_of,
    refused_output,
)
from structboost.contract.task import Lists
from structboost.errors import TaskError, TooManyOutputsError, on_example
from structboost.validation import shown

_NEED_ARGMAX = "defines neither argmax(x, scores) nor outputs(x); define one of them."
_NEED = (
    "has no marginals(x, scores), which formulation='log' and predict_marginals need; define "
    "marginals and log_sum, or outputs(x)."
)
# Bytes of a listing for each entry and for each output, without the output itself.
_ENTRY_BYTES, _OUTPUT_BYTES = 16, 32


class ListedOutputs:
    """All outputs of an input, with the sparse matrix of their joint features.

    Parameters
    ----------
    task : Task
    x
        The input.
    shapes : dict of str to (int, int)
        Number of parts and of channels, by kind.
    added : callable, optional
        Function of an output that returns the amount to add to its score, such as its loss.  With
        it the best output is found; without it there are sums over all.

    Raises
    ------
    TaskError
        If the task does not list its outputs, has none, or lists more than ``most`` to sum over.
    """

    most = 1 << 17

    def __init__(
        self,
        task: Any,
        x: Any,
        shapes: Mapping[str, tuple[int, int]],
        added: Callable[[Any], float] | None = None,
    ) -> None:
        self._rows = rows = FeatureRows(shapes)
        self._outputs: list[Any] = []
        n_parts = {kind: n for kind, (n, _) in shapes.items()}
        need = _NEED if added is None else _NEED_ARGMAX
        for output, measures in _listed(task, x, n_parts, need):
            rows.append(measures)
            self._outputs.append(output)
            if added is None and len(self._outputs) > self.most:
                raise TooManyOutputsError(
                    f"outputs(x) lists more than {self.most} outputs, over which formulation='log' "
                    "and predict_marginals sum one by one; take another formulation, or define "
                    "marginals and log_sum."
                )
        self._matrix = rows.matrix()
        self._added = np.array([added(output) for output in self._outputs] if added else 0.0)
        self.n_bytes = sum(_OUTPUT_BYTES + sys.getsizeof(output) for output in self._outputs)
        self.n_bytes += _ENTRY_BYTES * rows.n_entries

    def marginals(self, scores: Mapping[str, FloatArray]) -> tuple[dict[str, FloatArray], float]:
        """Return the expected joint feature, by kind, and the log of the sum of ``exp(score)``."""
        values = self._values(scores)
        largest = float(values.max())
        weights = np.exp(values - largest)
        total = float(weights.sum())
        expected = self._rows.by_kind(self._matrix.T @ (weights / total))
        return expected, largest + float(np.log(total))

    def best(self, scores: Mapping[str, FloatArray]) -> Any:
        """Return the first output of the highest score plus the amount to add."""
        return self._outputs[int(np.argmax(self._values(scores) + self._added))]

    def _values(self, scores: Mapping[str, FloatArray]) -> FloatArray:
        return np.asarray(self._matrix @ self._rows.flat(scores).astype(np.float64, copy=False))


class KeptListings:
    """Cache of the listed outputs of fixed examples, of at most ``most_bytes``.

    Other examples are listed again each time.
    """

    most_bytes = 1 << 28

    def __init__(self) -> None:
        self._listed: dict[tuple[int, bool], ListedOutputs] = {}
        self._n_bytes = 0

    def of(
        self, i: int, task: Any, x: Any, scores: Any, added: Callable[[Any], float] | None = None
    ) -> ListedOutputs:
        """Return the outputs of example ``i``, always with the same function ``added``."""
        outputs = self._listed.get((i, added is None))
        if outputs is None:
            shapes = {kind: rows.shape for kind, rows in by_kind(task, scores).items()}
            outputs = ListedOutputs(task, x, shapes, added)
            if self._n_bytes + outputs.n_bytes <= self.most_bytes:
                self._listed[i, added is None] = outputs
                self._n_bytes += outputs.n_bytes
        return outputs

    def best(self, i: int, task: Any, x: Any, scores: Any, added: Callable[[Any], float]) -> Any:
        """Return the first output of example ``i`` with the highest score plus ``added``."""
        return self.of(i, task, x, scores, added).best(by_kind(task, scores))


def listed_batch(
    task: Any, X: Sequence[Any], scores: StackedParts, cache: KeptListings | None = None
) -> Marginals:
    """Return the marginals of all examples, with a cache of outputs for further calls."""
    listings = cache or KeptListings()

    def sums_of(i: int, x: Any) -> tuple[dict[str, FloatArray], float]:
        rows = scores.example(i)
        return listings.of(i, task, x, rows).marginals(by_kind(task, rows))

    sums = [on_example("marginals", i, sums_of, i, x) for i, x in enumerate(X)]
    return Marginals(
        {kind: np.concatenate([expected[kind] for expected, _ in sums]) for kind in scores.rows},
        np.array([log_sum for _, log_sum in sums]),
    )


def by_kind(task: Any, scores: Any) -> Mapping[str, FloatArray]:
    """Return the scores of one example by kind, even if there is only one."""
    return scores if isinstance(scores, Mapping) else dict.fromkeys(task.kinds, scores)


def _listed(
    task: Any, x: Any, n_parts: Mapping[str, int], need: str
) -> Iterator[tuple[Any, dict[str, SparseFeature]]]:
    """Iterate over all outputs of ``x``, or raise TaskError with this ``need``."""
    listed = task.outputs(x) if isinstance(task, Lists) else None
    if listed is None:
        raise TaskError(f"{type(task).__name__} {need}")
    if isinstance(listed, str | bytes | Mapping) or not hasattr(listed, "__iter__"):
        raise TaskError(f"outputs(x) is {shown(listed)}; give a list or a generator of outputs.")
    is_empty = True
    for k, output in enumerate(listed):
        try:
            feature = task.joint_feature(x, output)
        except TaskError:
            raise
        except Exception as error:
            raise refused_output(
                f"Output {k} of outputs(x)", output, "joint_feature", error
            ) from error
        yield (
            output,
            {
                kind: measure_of(task.kinds, feature, kind, n, output=f"output {k} of outputs(x)")
                for kind, n in n_parts.items()
            },
        )
        is_empty = False
    if is_empty:
        raise TaskError("outputs(x) is empty; give at least one output.")
