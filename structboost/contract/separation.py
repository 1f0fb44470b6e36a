"""Most violated outputs of examples, the default way to find them, and lists of all outputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from structboost._typing import AnyArray, Examples, FloatArray, IntArray, KindArrays, KindIndices
from structboost.contract.parts import (
    LARGEST,
    OF_ARGMAX,
    FeatureRows,
    Kinds,
    Marginals,
    SparseFeature,
    StackedParts,
    check_finite,
    check_loss_of_truth,
    check_not_none,
    check_one_each,
    finite_array,
    hint,
    joint_features,
    loss_of,
    measure_of,
    of_kind,
    refused_output,
    takes,
)
from structboost.contract.task import Batches, Decomposes, Lists, Searches, is_enumerated
from structboost.errors import TaskError, TooManyOutputsError, note_examples, on_example
from structboost.runtime.compiled import compiled
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

    def marginals(self, scores: KindArrays) -> tuple[dict[str, FloatArray], float]:
        """Return the expected joint feature, by kind, and the log of the sum of ``exp(score)``."""
        values = self._values(scores)
        largest = float(values.max())
        weights = np.exp(values - largest)
        total = float(weights.sum())
        expected = self._rows.by_kind(self._matrix.T @ (weights / total))
        return expected, largest + float(np.log(total))

    def best(self, scores: KindArrays) -> Any:
        """Return the first output of the highest score plus the amount to add."""
        return self._outputs[int(np.argmax(self._values(scores) + self._added))]

    def _values(self, scores: KindArrays) -> FloatArray:
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
    task: Any, X: Examples, scores: StackedParts, cache: KeptListings | None = None
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


def by_kind(task: Any, scores: Any) -> KindArrays:
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


@dataclass(frozen=True)
class Separation:
    """Losses and joint-feature differences of the most violated outputs.

    Row ``k`` is one output y of one example i, with the constraint
    ``slack >= losses[k] - <difference[k], scores>`` with
    ``difference = M(x_i, y_i) - M(x_i, y)`` (StructBoost, (35b)).

    Parameters
    ----------
    losses : ndarray, shape (n_outputs,)
        Delta(y_i, y).
    differences : dict of str to SparseFeature
        By kind, entries in the order of the outputs; ``parts`` are rows of the stack.
    indptr : dict of str to ndarray of int64, shape (n_outputs + 1,)
        Entries ``indptr[k]:indptr[k + 1]`` belong to output ``k``.
    slacks : ndarray of int64, shape (n_outputs,), optional
        Index of the slack that each output bounds.  By default, output k bounds the slack of
        example k.
    weights : ndarray, shape (n_outputs,), optional
        Weight of that slack in the mean loss if all examples weigh the same.  By default,
        ``1 / n_examples``.
    examples : ndarray of int64, shape (n_outputs,), optional
        Example that each slack belongs to; its ``sample_weight`` scales the weight.  Needed if
        ``slacks`` is given and examples differ in weight.
    """

    losses: FloatArray
    differences: Mapping[str, SparseFeature]
    indptr: KindIndices
    slacks: IntArray | None = None
    weights: FloatArray | None = None
    examples: IntArray | None = None

    @classmethod
    def from_outputs(
        cls,
        task: Any,
        X: Examples,
        Y: Examples,
        outputs: Examples,
        offsets: KindIndices,
        truth: KeptTruth | None = None,
    ) -> Separation:
        """Make a separation of one output per example, with the task's joint feature and loss.

        Parameters
        ----------
        task : Task
            The task of the examples.
        X, Y, outputs : sequence, shape (n_examples,)
            Inputs, true outputs, and outputs of the argmax.
        offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
            First row of each example, by kind, as in :class:`StackedParts`.
        truth : KeptTruth, optional
            Cache of the joint features of ``Y``, for further calls with the same examples.

        Raises
        ------
        TaskError
            If there is not one output per example, or a loss or joint feature is malformed; the
            message names the example.
        """
        check_one_each(outputs, len(Y))
        memo = truth or KeptTruth()
        true = memo.joint_features = memo.joint_features or joint_features(task, X, Y, offsets)
        if any(output is None for output in outputs):
            for i, output in enumerate(outputs):
                check_not_none(task, X[i], Y[i], output, i)
        losses = np.empty(len(Y))
        for i, output in enumerate(outputs):
            losses[i] = loss_of(task, i, Y[i], output)
        predicted = joint_features(task, X, outputs, offsets, OF_ARGMAX)
        differences = {
            kind: _merged_difference(true[kind], predicted[kind], part.n_channels)
            for kind, part in task.kinds.items()
        }
        indptr = {
            kind: np.searchsorted(difference.parts, offsets[kind][: len(Y) + 1]).astype(np.int64)
            for kind, difference in differences.items()
        }
        # An output that scores like the truth and has a loss may be the truth.
        sizes = sum(np.diff(starts) for starts in indptr.values())
        for i in np.flatnonzero((losses > 0) & (sizes == 0)).tolist():
            check_loss_of_truth(task, i, Y[i])
        return cls(losses, differences, indptr)

    def violations(self, scores: StackedParts) -> FloatArray:
        """Return ``loss - <difference, scores>`` of each output.

        Parameters
        ----------
        scores : StackedParts
            Scores of the parts of the examples, on the rows that ``differences`` name.

        Returns
        -------
        violations : ndarray, shape (n_outputs,)
            Lower bounds of the slacks; negative where the truth wins by more than the loss.
        """
        out = np.array(self.losses, dtype=np.float64)
        for kind, difference in self.differences.items():
            # Views with gaps are another type to compile for.
            parts = np.ascontiguousarray(difference.parts)
            channels = np.ascontiguousarray(difference.channels)
            values = np.ascontiguousarray(difference.values)
            rows = scores.rows[kind]
            _subtract_products(parts, channels, values, self.indptr[kind], rows, out)
        return out


def check_separation(task: Any, result: Any, scores: StackedParts) -> None:
    """Raise TaskError if types, lengths, ranges or values of a separation are wrong.

    Unless its outputs have slacks, there is one for each example.
    """
    if not isinstance(result, Separation):
        raise TaskError(f"separate returned {shown(result)}; return a Separation{hint(result)}.")
    losses = np.asarray(result.losses)
    n = len(losses) if result.slacks is not None else scores.n_examples
    if losses.shape != (n,):
        raise TaskError(f"separate gave {len(losses)} outputs for {n} examples; give one for each.")
    bad = np.flatnonzero(~((losses >= 0) & (losses <= LARGEST)))
    if len(bad):
        raise TaskError(
            "The loss-augmented argmax of X[{sample}] has a loss or joint feature that is not "
            f"finite, or is negative: separate gave it the loss {losses[bad[0]]}.",
            int(bad[0]) if result.slacks is None else None,
        )
    for kind, part in task.kinds.items():
        difference = of_kind(task.kinds, result.differences, kind, None, "separate")
        ends = np.asarray(of_kind(task.kinds, result.indptr, kind, None, "separate"))
        n_entries = len(difference.values)
        if ends.shape != (n + 1,) or ends[0] != 0 or ends[-1] != n_entries:
            raise TaskError(f"separate: indptr of {kind!r} must rise from 0 to {n_entries}.")
        for name, index, size in (
            ("part", difference.parts, len(scores.rows[kind])),
            ("channel", difference.channels, part.n_channels),
        ):
            if len(index) != n_entries:
                raise TaskError(f"separate gave {len(index)} {name}s for {n_entries} values.")
            if len(index) and not 0 <= index.min() <= index.max() < size:
                raise TaskError(f"separate names a {name} outside 0..{size - 1} of {kind!r}.")
        check_finite(difference.values, "separate", None, kind)


class KeptTruth:
    """Cache of the joint features and loss scores of the true outputs of fixed examples.

    If a task lists its outputs, ``listings`` caches these as well, as far as it has room.

    Parameters
    ----------
    listings : KeptListings, optional
        Cache of listed outputs; other examples may use it too.
    indices : sequence of int, optional
        Indices of the examples in ``listings``.
    counts_passes : bool
        Whether passes over the examples are counted, so that some of them are checked.
    """

    def __init__(
        self,
        listings: KeptListings | None = None,
        indices: Sequence[int] | None = None,
        *,
        counts_passes: bool = True,
    ) -> None:
        self.listings = listings or KeptListings()
        self._indices = indices
        self.joint_features: dict[str, SparseFeature] | None = None
        self._losses: dict[str, AnyArray] | None = None
        self.counts_passes, self.n_passes = counts_passes, 0

    def loss_scores(
        self, task: Any, X: Examples, Y: Examples, offsets: KindIndices
    ) -> dict[str, AnyArray]:
        """Return the loss scores by kind, as rows of the stack, an empty dict without any."""
        if self._losses is None:
            has_losses = isinstance(task, Decomposes)
            self._losses = stacked_loss_scores(task, X, Y, offsets) if has_losses else {}
        return self._losses

    def best_listed(self, task: Any, X: Examples, Y: Examples, scores: StackedParts) -> list[Any]:
        """Return the best listed output of each example, loss included."""
        indices = range(len(Y)) if self._indices is None else self._indices

        def best(i: int, x: Any) -> Any:
            def loss(output: Any) -> float:
                return 0.0 if self._losses else loss_of(task, i, Y[i], output)

            return self.listings.best(indices[i], task, x, scores.example(i), loss)

        return [on_example("argmax", i, best, i, x) for i, x in enumerate(X)]

    def of_examples(self, examples: Sequence[int], rows: KindIndices) -> KeptTruth:
        """Return the part of the cache for some examples, which have these ascending rows."""
        indices = examples if self._indices is None else [self._indices[i] for i in examples]
        subset = KeptTruth(self.listings, indices)
        if self._losses is not None:
            subset._losses = {kind: added[rows[kind]] for kind, added in self._losses.items()}
        if self.joint_features is not None:
            subset.joint_features = {}
            for kind, measure in self.joint_features.items():
                at = np.searchsorted(rows[kind], measure.parts)
                is_here = np.append(rows[kind], -1)[at] == measure.parts
                subset.joint_features[kind] = measure.take(is_here)._replace(parts=at[is_here])
        return subset


def stacked_loss_scores(
    task: Any, X: Examples, Y: Examples, offsets: KindIndices
) -> dict[str, AnyArray]:
    """Stack :meth:`Decomposes.loss_scores` of all examples by kind."""
    kinds: Kinds = task.kinds
    added: dict[str, list[AnyArray]] = {}
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        value = on_example("loss_scores", i, task.loss_scores, x, y)
        rows = value if isinstance(value, Mapping) else dict.fromkeys(kinds, value)
        if rows.keys() - kinds.keys() or (i and rows.keys() != added.keys()):
            raise TaskError(
                f"loss_scores(X[{{sample}}], Y[{{sample}}]) has the kinds {list(rows)}; give those "
                f"of the first example, {list(added or kinds)}.",
                i,
            )
        for kind, block in rows.items():
            shape = (int(offsets[kind][i + 1] - offsets[kind][i]), kinds[kind].n_channels)
            finite_array(block, "loss_scores(X[{sample}], Y[{sample}])", i, kind, shape)
            added.setdefault(kind, []).append(np.asarray(block))
    return {kind: np.concatenate(blocks) for kind, blocks in added.items()}


def separate_by_argmax(
    task: Any, X: Examples | None, Y: Examples, scores: StackedParts
) -> Separation:
    """Find the most violated output of each example by the argmax of the task.

    Parameters
    ----------
    task : Task
        The task of the examples.
    X, Y, scores
        As for :meth:`Separates.separate`.

    Returns
    -------
    separation : Separation
        The output of each example that maximises its loss plus its score.

    Raises
    ------
    TaskError
        If an output, a loss or a joint feature is malformed; the message names the example.
    """
    inputs: Examples = [None] * len(Y) if X is None or not task.reads_inputs else X
    # The memo of the scores, if there is one, caches the joint features of the truth.
    truth: KeptTruth = scores.memo or KeptTruth()
    added = truth.loss_scores(task, inputs, Y, scores.offsets)
    # An argmax in Python is faster if the scores of a part are contiguous.
    rows = {
        kind: np.ascontiguousarray(row + added[kind] if kind in added else row)
        for kind, row in scores.rows.items()
    }
    augmented = StackedParts(rows, scores.offsets)
    if is_enumerated(task):
        outputs: Examples = truth.best_listed(task, inputs, Y, augmented)
    else:
        outputs = best_outputs(task, inputs, augmented, None if added else Y)
    return Separation.from_outputs(task, inputs, Y, outputs, scores.offsets, truth)


def best_outputs(
    task: Any, X: Examples, scores: StackedParts, Y: Examples | None = None
) -> Sequence[Any]:
    """Find the best output of each example, by its loss too if there are true outputs ``Y``."""
    if isinstance(task, Batches):
        return task.argmax_batch(X, scores) if Y is None else task.argmax_batch(X, scores, Y)
    outputs, i = [], 0
    try:
        for i, x in enumerate(X):
            outputs.append(best_output(task, x, scores.example(i), None if Y is None else Y[i]))
    except Exception as error:
        note_examples(error, "argmax", i, i)
        raise
    return outputs


def best_output(task: Any, x: Any, scores: Any, y: Any = None) -> Any:
    """Find the output of the highest score, by its loss too if there is a true output ``y``."""
    if y is not None and isinstance(task, Decomposes):
        return best_output(task, x, _plus(scores, task.loss_scores(x, y)))
    if not isinstance(task, Searches):

        def loss(output: Any) -> float:
            return 0.0 if y is None else loss_of(task, 0, y, output)

        return KeptListings().best(0, task, x, scores, loss)
    if y is None:
        return task.argmax(x, scores)
    try:
        return task.argmax(x, scores, y)  # type: ignore[call-arg]
    except TypeError as error:
        if takes(signature(task.argmax).bind, x, scores, y):
            raise
        raise TaskError(
            "argmax takes no true output, and loss_scores gives none: define loss_scores(x, y) "
            "where the loss adds to the scores of parts, or argmax(x, scores, y=None), which "
            "adds loss(y, output) if y is given."
        ) from error


def _plus(scores: Any, added: Any) -> Any:
    """Add scores of one example, by kind if there are several."""
    if not isinstance(scores, Mapping):
        return scores + (next(iter(added.values())) if isinstance(added, Mapping) else added)
    return {**scores, **{kind: scores[kind] + rows for kind, rows in added.items()}}


def _merged_difference(true: SparseFeature, other: SparseFeature, n_channels: int) -> SparseFeature:
    """Return ``true - other`` in the order of rows and channels, with equal pairs merged."""
    both = true.minus(other)
    keys, where = np.unique(both.parts * n_channels + both.channels, return_inverse=True)
    values = np.bincount(where, weights=both.values, minlength=len(keys)).astype(np.float64)
    nonzero = np.flatnonzero(values)
    return SparseFeature(keys[nonzero] // n_channels, keys[nonzero] % n_channels, values[nonzero])


@compiled
def _subtract_products(
    parts: IntArray,
    channels: IntArray,
    values: FloatArray,
    indptr: IntArray,
    scores: FloatArray,
    out: FloatArray,
) -> None:
    for k in range(len(out)):
        total = 0.0
        for e in range(indptr[k], indptr[k + 1]):
            total += values[e] * scores[parts[e], channels[e]]
        out[k] -= total
