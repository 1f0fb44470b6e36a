"""Maximum and sums over all outputs, for tasks that can list them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.measures import FeatureRows, SparseFeature, measure_of
from structboost.contract.parts import StackedParts
from structboost.contract.results import refused_output
from structboost.errors import TaskError, TooManyOutputsError, on_example
from structboost.validation import shown

_NEED_ARGMAX = "defines neither argmax(x, scores) nor outputs(x); define one of them."
_NEED = (
    "has no marginals(x, scores), which formulation='log' and predict_marginals need; define "
    "marginals and log_sum, or outputs(x)."
)
# Fraction of the size of their terms by which sums in another order differ at most.
_ROUNDING = 1e-9
# Bytes of a listing for each entry and for each output, without the output itself.
_ENTRY_BYTES, _OUTPUT_BYTES = 16, 32


class Marginals(NamedTuple):
    """Marginals of every example, where an output has a probability ``~ exp(score)``.

    Parameters
    ----------
    expected : dict of str to ndarray, shape (n_rows, n_channels)
        The expected joint feature, by kind, its rows those of the stack.
    log_sums : ndarray, shape (n_examples,)
        Logarithm of the sum of ``exp(score)`` over all outputs.
    """

    expected: dict[str, FloatArray]
    log_sums: FloatArray


class OutputCodes(NamedTuple):
    """Label codes of all outputs of a task, for masters that sum over every output.

    Parameters
    ----------
    codes : ndarray of int8, shape (n_outputs, n_channels)
        Output y scores ``<codes[y], F(x)>``, up to a term that all outputs share.
    labels : ndarray of int64, shape (n_examples,)
        Row of each true output.
    losses : ndarray of float64, shape (n_outputs, n_outputs)
        Delta(true, output).
    """

    codes: NDArray[np.int8]
    labels: IntArray
    losses: FloatArray


def best_listed(task: Any, x: Any, scores: Any, added: Callable[[Any], float]) -> Any:
    """Return the first of :meth:`Task.outputs` with the highest score plus ``added``.

    TaskError if the task does not list its outputs, or has none.
    """
    by_kind = _by_kind(task, scores)
    n_parts = {kind: len(rows) for kind, rows in by_kind.items()}
    rated = (
        (_value(measures, by_kind, added(output)), output)
        for output, measures in _listed(task, x, n_parts, _NEED_ARGMAX)
    )
    return max(rated, key=lambda pair: pair[0])[1]


def _value(
    measures: Mapping[str, SparseFeature], scores: Mapping[str, FloatArray], amount: float
) -> float:
    """Return the score of an output plus an amount."""
    terms = (float(m.values @ scores[kind][m.parts, m.channels]) for kind, m in measures.items())
    # A plain sum, because ``sum`` of Python 3.12 rounds differently.
    return reduce(add, terms, amount)


class _TooLarge(Exception):
    """Signal that the outputs of an input take too much memory."""


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
    most_bytes : int
        Above this, _TooLarge is raised where the best output is to be found.

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
        most_bytes: int = 0,
    ) -> None:
        self._rows = rows = FeatureRows(shapes)
        self._outputs: list[Any] = []
        n_beside = 0
        n_parts = {kind: n for kind, (n, _) in shapes.items()}
        need = _NEED if added is None else _NEED_ARGMAX
        for n_outputs, (output, measures) in enumerate(_listed(task, x, n_parts, need), 1):
            rows.append(measures)
            if added is not None:
                self._outputs.append(output)
                n_beside += _OUTPUT_BYTES + sys.getsizeof(output)
                if n_beside + _ENTRY_BYTES * rows.n_entries > most_bytes:
                    raise _TooLarge
            elif n_outputs > self.most:
                raise TooManyOutputsError(
                    f"outputs(x) lists more than {self.most} outputs, over which formulation='log' "
                    "and predict_marginals sum one by one; take another formulation, or define "
                    "marginals and log_sum."
                )
        self._matrix = matrix = rows.matrix()
        self.n_bytes = n_beside + int(
            matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        )
        self._added = [] if added is None else [added(output) for output in self._outputs]
        self._floats = np.array([float(amount) for amount in self._added])
        # Sums in a type of fewer digits would round more.
        self._is_exact = all(isinstance(a, int | float | np.integer) for a in self._added)
        largest = float(abs(matrix).sum(axis=1).max())
        self._sizes = largest, float(np.abs(self._floats).max(initial=0.0))

    def marginals(self, scores: Mapping[str, FloatArray]) -> tuple[dict[str, FloatArray], float]:
        """Return the expected joint feature, by kind, and the log of the sum of ``exp(score)``."""
        values = self._matrix @ self._rows.flat(scores).astype(np.float64, copy=False)
        largest = float(values.max())
        weights = np.exp(values - largest)
        total = float(weights.sum())
        expected = self._rows.by_kind(self._matrix.T @ (weights / total))
        return expected, largest + float(np.log(total))

    def best(self, scores: Mapping[str, FloatArray]) -> Any:
        """Return the same output as :func:`best_listed`, to the last bit."""
        flat = self._rows.flat(scores)
        values = self._matrix @ flat + self._floats
        size = self._sizes[0] * float(np.abs(flat).max(initial=0.0)) + self._sizes[1]
        near = np.flatnonzero(values >= values.max() - _ROUNDING * size)
        if self._is_exact and len(near) == 1:
            return self._outputs[near[0]]
        among = near.tolist() if self._is_exact else range(len(values))
        return self._outputs[max(among, key=lambda k: self._exact_value(k, scores))]

    def _exact_value(self, k: int, scores: Mapping[str, FloatArray]) -> float:
        """Return the score of output ``k`` plus its amount, summed as in :func:`best_listed`."""
        row = slice(*self._matrix.indptr[k : k + 2])
        places, amounts, first = self._matrix.indices[row], self._matrix.data[row], 0
        measures = {}
        for kind, (n_parts, n_channels) in self._rows.shapes.items():
            is_of_kind = (places >= first) & (places < first + n_parts * n_channels)
            parts, channels = np.divmod(places[is_of_kind] - first, n_channels)
            measures[kind] = SparseFeature(parts, channels, amounts[is_of_kind])
            first += n_parts * n_channels
        return _value(measures, scores, self._added[k])


class KeptListings:
    """Cache of the listed outputs of fixed examples, of at most ``most_bytes``.

    Other examples are listed again each time.
    """

    most_bytes = 1 << 28

    def __init__(self) -> None:
        self._listed: dict[int, ListedOutputs] = {}
        self._rated: dict[int, ListedOutputs | None] = {}
        self._n_bytes = 0

    def of(self, i: int, task: Any, x: Any, scores: Mapping[str, FloatArray]) -> ListedOutputs:
        """Return the outputs of example ``i``."""
        outputs = self._listed.get(i)
        if outputs is None:
            outputs = ListedOutputs(task, x, {kind: scores[kind].shape for kind in task.kinds})
            if self._n_bytes + outputs.n_bytes <= self.most_bytes:
                self._listed[i] = outputs
                self._n_bytes += outputs.n_bytes
        return outputs

    def best(self, i: int, task: Any, x: Any, scores: Any, added: Callable[[Any], float]) -> Any:
        """Call :func:`best_listed` for example ``i``, always with the same function ``added``."""
        by_kind = _by_kind(task, scores)
        if i not in self._rated:
            shapes = {kind: rows.shape for kind, rows in by_kind.items()}
            left = self.most_bytes - self._n_bytes
            try:
                outputs = self._rated[i] = ListedOutputs(task, x, shapes, added, left)
                self._n_bytes += outputs.n_bytes
            except _TooLarge:
                self._rated[i] = None
        rated = self._rated[i]
        return best_listed(task, x, by_kind, added) if rated is None else rated.best(by_kind)


def listed_marginals(task: Any, x: Any, scores: Any) -> tuple[dict[str, FloatArray], float]:
    """Return :class:`Marginals` of one example by a sum over :meth:`Task.outputs`.

    TaskError if the task does not list its outputs, or has none.
    """
    by_kind = _by_kind(task, scores)
    return KeptListings().of(0, task, x, by_kind).marginals(by_kind)


def listed_batch(
    task: Any, X: Sequence[Any], scores: StackedParts, cache: KeptListings | None = None
) -> Marginals:
    """Return the marginals of all examples, with a cache of outputs for further calls."""
    listings = cache or KeptListings()
    expected = {kind: np.empty(rows.shape) for kind, rows in scores.rows.items()}
    log_sums = np.empty(len(X))

    def fill(i: int, x: Any) -> None:
        by_kind = _by_kind(task, scores.example(i))
        blocks, log_sums[i] = listings.of(i, task, x, by_kind).marginals(by_kind)
        for kind, block in blocks.items():
            start, stop = scores.offsets[kind][i : i + 2]
            expected[kind][start:stop] = block

    for i, x in enumerate(X):
        on_example("marginals", i, fill, i, x)
    return Marginals(expected, log_sums)


def _by_kind(task: Any, scores: Any) -> Mapping[str, FloatArray]:
    return scores if isinstance(scores, Mapping) else dict.fromkeys(task.kinds, scores)


def _listed(
    task: Any, x: Any, n_parts: Mapping[str, int], need: str
) -> Iterator[tuple[Any, dict[str, SparseFeature]]]:
    """Iterate over all outputs of ``x``, or raise TaskError with this ``need``."""
    listed = task.outputs(x)
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
