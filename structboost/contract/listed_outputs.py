"""Maximum and sums over all outputs, for tasks that can list them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.measures import SparseFeature, measure_of
from structboost.contract.members import TaskMembers
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


class _Rated(NamedTuple):
    """Output with its score of each kind."""

    output: Any
    scores: list[float]


def best_listed(task: TaskMembers, x: Any, scores: Any, added: Callable[[Any], float]) -> Any:
    """Return the first of :meth:`Task.outputs` with the highest score plus ``added``.

    TaskError if the task does not list its outputs, or has none.
    """
    rated = _rated_outputs(task, x, _by_kind(task, scores), _NEED_ARGMAX)
    # A plain sum, because ``sum`` of Python 3.12 rounds differently.
    return max(rated, key=lambda r: reduce(add, r.scores, added(r.output))).output


class ListedOutputs:
    """Joint features of all outputs of an input, as the rows of a sparse matrix.

    Parameters
    ----------
    task : Task
    x
        The input.
    shapes : dict of str to (int, int)
        Number of parts and of channels, by kind.

    Raises
    ------
    TaskError
        If the task does not list its outputs, has none, or lists more than ``most``.
    """

    need = _NEED
    most = 1 << 17

    def __init__(self, task: TaskMembers, x: Any, shapes: Mapping[str, tuple[int, int]]) -> None:
        places: list[IntArray] = [np.zeros(0, np.int64)]
        values: list[FloatArray] = [np.zeros(0)]
        ends = [0]
        sizes = {kind: n_parts * n_channels for kind, (n_parts, n_channels) in shapes.items()}
        firsts = dict(zip(shapes, accumulate(sizes.values(), initial=0), strict=False))
        n_parts = {kind: n for kind, (n, _) in shapes.items()}
        for output, measures in _listed(task, x, n_parts, self.need):
            n_entries = ends[-1]
            for kind, (parts, channels, amounts) in measures.items():
                places.append(firsts[kind] + parts * shapes[kind][1] + channels)
                values.append(amounts)
                n_entries += len(amounts)
            ends.append(n_entries)
            self._note(output, len(ends) - 1, n_entries)
        entries = np.concatenate(values), np.concatenate(places), np.array(ends, np.int64)
        self._shapes = dict(shapes)
        self._matrix = csr_array(entries, shape=(len(ends) - 1, sum(sizes.values())))
        self._ends = np.cumsum(list(sizes.values()))[:-1]

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        matrix = self._matrix
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)

    def marginals(self, scores: Mapping[str, FloatArray]) -> tuple[dict[str, FloatArray], float]:
        """Return the expected joint feature, by kind, and the log of the sum of ``exp(score)``."""
        flat = np.concatenate(
            [np.asarray(scores[kind], np.float64).ravel() for kind in self._shapes]
        )
        values = self._matrix @ flat
        largest = float(values.max())
        weights = np.exp(values - largest)
        total = float(weights.sum())
        blocks = np.split(self._matrix.T @ (weights / total), self._ends)
        pairs = zip(self._shapes.items(), blocks, strict=True)
        expected = {kind: block.reshape(shape) for (kind, shape), block in pairs}
        return expected, largest + float(np.log(total))

    def _note(self, output: Any, n_outputs: int, n_entries: int) -> None:
        """Store an output, with the numbers of outputs and entries so far."""
        if n_outputs > self.most:
            raise TooManyOutputsError(
                f"outputs(x) lists more than {self.most} outputs, over which formulation='log' and "
                "predict_marginals sum one by one; take another formulation, or define marginals "
                "and log_sum."
            )


class _TooLarge(Exception):
    """Signal that the outputs of an input take too much memory."""


class RatedOutputs(ListedOutputs):
    """Outputs of an input with amounts to add to their scores, to find the best one.

    Parameters
    ----------
    task : Task
    x
        The input.
    scores : dict of str to ndarray, shape (n_parts, n_channels)
        Arrays in the shapes of later scores.
    added : callable
        Function of an output that returns the amount to add to its score, such as its loss.
    most_bytes : int
        Above this, _TooLarge is raised.
    """

    need = _NEED_ARGMAX

    def __init__(
        self,
        task: TaskMembers,
        x: Any,
        scores: Mapping[str, FloatArray],
        added: Callable[[Any], float],
        most_bytes: int,
    ) -> None:
        self._outputs: list[Any] = []
        self._n_beside, self._most_bytes = 0, most_bytes
        super().__init__(task, x, {kind: rows.shape for kind, rows in scores.items()})
        self._added = [added(output) for output in self._outputs]
        # Sums in a type of fewer digits would round more.
        self._is_exact = all(isinstance(a, int | float | np.integer) for a in self._added)
        self._floats = np.array([float(a) for a in self._added])
        matrix = self._matrix
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        largest = np.bincount(rows, np.abs(matrix.data), matrix.shape[0]).max()
        self._sizes = float(largest), float(np.abs(self._floats).max())

    @property
    @override
    def n_bytes(self) -> int:
        return super().n_bytes + self._n_beside

    def best(self, scores: Mapping[str, FloatArray]) -> Any:
        """Return the same output as :func:`best_listed`, to the last bit."""
        flat = np.concatenate([np.asarray(scores[kind]).ravel() for kind in self._shapes])
        values = self._matrix @ flat + self._floats
        size = self._sizes[0] * float(np.abs(flat).max(initial=0.0)) + self._sizes[1]
        near = np.flatnonzero(values >= values.max() - _ROUNDING * size)
        if len(near) > 1 or not self._is_exact:
            among = near.tolist() if self._is_exact else range(len(values))
            return self._outputs[max(among, key=lambda k: self._value(k, scores))]
        return self._outputs[near[0]]

    def _value(self, k: int, scores: Mapping[str, FloatArray]) -> float:
        """Return the score of output ``k`` plus its amount, summed as in :func:`best_listed`."""
        row = slice(*self._matrix.indptr[k : k + 2])
        places, amounts, first, of_kinds = self._matrix.indices[row], self._matrix.data[row], 0, []
        for kind, (n_parts, n_channels) in self._shapes.items():
            is_of_kind = (places >= first) & (places < first + n_parts * n_channels)
            at = np.divmod(places[is_of_kind] - first, n_channels)
            of_kinds.append(float(amounts[is_of_kind] @ scores[kind][at]))
            first += n_parts * n_channels
        return reduce(add, of_kinds, self._added[k])

    @override
    def _note(self, output: Any, n_outputs: int, n_entries: int) -> None:
        self._outputs.append(output)
        self._n_beside += _OUTPUT_BYTES + sys.getsizeof(output)
        if self._n_beside + _ENTRY_BYTES * n_entries > self._most_bytes:
            raise _TooLarge


class KeptListings:
    """Cache of the listed outputs of fixed examples, of at most ``most_bytes``.

    Other examples are listed again each time.
    """

    most_bytes = 1 << 28

    def __init__(self) -> None:
        self._listed: dict[int, ListedOutputs] = {}
        self._rated: dict[int, RatedOutputs | None] = {}
        self._n_bytes = 0

    def of(
        self, i: int, task: TaskMembers, x: Any, scores: Mapping[str, FloatArray]
    ) -> ListedOutputs:
        """Return the outputs of example ``i``."""
        outputs = self._listed.get(i)
        if outputs is None:
            outputs = ListedOutputs(task, x, {kind: scores[kind].shape for kind in task.kinds})
            if self._n_bytes + outputs.n_bytes <= self.most_bytes:
                self._listed[i] = outputs
                self._n_bytes += outputs.n_bytes
        return outputs

    def best(
        self, i: int, task: TaskMembers, x: Any, scores: Any, added: Callable[[Any], float]
    ) -> Any:
        """Call :func:`best_listed` for example ``i``, always with the same function ``added``."""
        by_kind = _by_kind(task, scores)
        if i not in self._rated:
            left = self.most_bytes - self._n_bytes
            try:
                outputs = self._rated[i] = RatedOutputs(task, x, by_kind, added, left)
                self._n_bytes += outputs.n_bytes
            except _TooLarge:
                self._rated[i] = None
        rated = self._rated[i]
        return best_listed(task, x, by_kind, added) if rated is None else rated.best(by_kind)


def listed_marginals(task: TaskMembers, x: Any, scores: Any) -> tuple[dict[str, FloatArray], float]:
    """Return :class:`Marginals` of one example by a sum over :meth:`Task.outputs`.

    TaskError if the task does not list its outputs, or has none.
    """
    by_kind = _by_kind(task, scores)
    return KeptListings().of(0, task, x, by_kind).marginals(by_kind)


def listed_batch(
    task: TaskMembers, X: Sequence[Any], scores: StackedParts, cache: KeptListings | None = None
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


def _by_kind(task: TaskMembers, scores: Any) -> Mapping[str, FloatArray]:
    return scores if isinstance(scores, Mapping) else dict.fromkeys(task.kinds, scores)


def _rated_outputs(
    task: TaskMembers, x: Any, scores: Mapping[str, FloatArray], need: str
) -> Iterator[_Rated]:
    """Iterate over all outputs of ``x`` with their scores."""
    n_parts = {kind: len(rows) for kind, rows in scores.items()}
    for output, measures in _listed(task, x, n_parts, need):
        of_kinds = [
            float(m.values @ scores[kind][m.parts, m.channels]) for kind, m in measures.items()
        ]
        yield _Rated(output, of_kinds)


def _listed(
    task: TaskMembers, x: Any, n_parts: Mapping[str, int], need: str
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
