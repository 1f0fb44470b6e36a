"""Kinds of parts, the rows of the parts of all examples, measures on them, and checked results."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import (
    AnyArray,
    Examples,
    FloatArray,
    IntArray,
    KindIndices,
    Range,
    SignArray,
)
from structboost.errors import TaskError, note_examples, on_example
from structboost.validation import array_of, checked_whole_number, shown, unusable


def deep_copy(value: Any) -> Any:
    """Return a deep copy, or None if the value cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # an input may hold what cannot be copied: an open file, a lock
        return None


def deeply_equal(a: Any, b: Any) -> bool:
    """Whether two values have the same type and content, where NaN equals NaN.

    Objects without attributes that compare only by identity count as equal.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return _equal_arrays(a, b)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(deeply_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(deeply_equal(v, w) for v, w in zip(a, b, strict=True))
    by_identity = type(a).__eq__ is object.__eq__  # type: ignore[comparison-overlap]
    if by_identity or dataclasses.is_dataclass(a):
        return not hasattr(a, "__dict__") or deeply_equal(vars(a), vars(b))
    if isinstance(a, (float, np.floating)) and np.isnan(a):
        return bool(np.isnan(b))
    try:
        return bool(
            a.equals(b) if hasattr(a, "equals") else np.all(a == b)
        )  # pandas: NaN equals NaN
    except Exception:  # the comparison has no truth value
        return True


def _equal_arrays(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "O":
        return all(deeply_equal(v, w) for v, w in zip(a.ravel(), b.ravel(), strict=True))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


# Largest loss and weight of a joint feature: products and squares of larger ones may overflow.
LARGEST = 1e100
# Loss of a true output, and relative difference of values, that may be rounding.
SLIP = 1e-6


def real_number(value: Any, call: str, i: int) -> float:
    """Return a result that is one real number as a float, or raise TaskError.

    The message has the ``call`` of the method, such as ``"loss(Y[{sample}], y_pred)"``.
    """
    if type(value) is float:
        return value
    is_other = isinstance(value, str | bytes | complex | np.complexfloating)
    try:
        if is_other or np.ndim(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TaskError(f"{call} is {shown(value)}; give a number{hint(value)}.", i) from None


def refused_output(
    name: str, output: Any, method: str, error: Exception, i: int | None = None
) -> TaskError:
    """Make the error of an output of a task, called ``name``, that another method does not take."""
    reason = f"{type(error).__name__}: {error}"
    return TaskError(
        f"{name} is {shown(output)}, which {method} does not take ({reason}); return an output "
        f"that joint_feature and loss take{hint(output)}.",
        i,
    )


def hint(value: Any) -> str:
    """Return words about the likely cause of a result that is None, else an empty string."""
    return ", and end the method with return" if value is None else ""


def finite_array(
    value: Any, call: str, i: int | None, kind: str, shape: tuple[int, ...] | None = None
) -> FloatArray:
    """Return a result that is an array of real numbers up to :data:`LARGEST` as float64.

    TaskError if entries are no real numbers, NaN, or larger, or the shape is another one; the
    message names the example.
    """
    array = value if isinstance(value, np.ndarray) else array_of(value)
    if array.dtype.kind not in "biuf":
        raise TaskError(f"{call} is {shown(value)}{_of(kind)}; give real numbers{hint(value)}.", i)
    if shape is not None and array.shape != shape:
        raise TaskError(
            f"{call} gave shape {array.shape}{_of(kind)}; expected (n_parts, n_channels) = "
            f"{shape}.",
            i,
        )
    values = np.asarray(array, np.float64)
    check_finite(values, call, i, kind)
    return values


def check_finite(values: FloatArray, call: str, i: int | None, kind: str) -> None:
    """Raise TaskError if an entry is NaN or infinite, or larger than :data:`LARGEST`."""
    if not (np.abs(values) <= LARGEST).all():
        raise TaskError(
            f"{call} has entries up to {np.abs(values).max():.3g}{_of(kind)}; give finite numbers "
            f"up to {LARGEST:g}, because larger ones overflow.",
            i,
        )


def whole_array(value: Any, call: str, i: int | None, kind: str) -> IntArray:
    """Return a result that is an array of whole numbers, of any type, as int64.

    TaskError if an entry is no whole number; the message names the example.
    """
    array = array_of(value)
    if array.dtype.kind not in "biuf" or (array % 1).any():
        raise TaskError(f"{call} is {shown(value)}{_of(kind)}; give whole numbers{hint(value)}.", i)
    return array.astype(np.int64)


def _of(kind: str) -> str:
    return f" for kind {kind!r}" if kind else ""


def loss_of(task: Any, i: int, y: Any, y_pred: Any) -> float:
    """Return the loss of an output of example ``i`` as a float.

    TaskError if the task returns no number, or one that is negative, not finite or too large.
    """
    try:
        value = task.loss(y, y_pred)
    except Exception as error:
        takes_truth = takes(task.loss, y, y)
        if takes_truth and not isinstance(error, TaskError):
            name = "The output for X[{sample}], by argmax or predict,"
            raise refused_output(name, y_pred, "loss", error, i) from error
        both = "Y[{sample}] and the output for X[{sample}]"
        note_examples(error, "loss", i, i, both if takes_truth else "Y")
        raise
    loss = real_number(value, "loss(Y[{sample}], y_pred)", i)
    if not 0 <= loss <= LARGEST:
        wanted = f"<= {LARGEST:g}" if LARGEST < loss < np.inf else "finite and >= 0"
        raise TaskError(f"loss(Y[{{sample}}], y_pred) is {loss}; a loss must be {wanted}.", i)
    return loss


def check_loss_of_truth(task: Any, i: int, y: Any) -> None:
    """Raise TaskError if the true output of example ``i`` has a loss, beyond rounding."""
    loss = loss_of(task, i, y, y)
    if loss > SLIP:
        raise TaskError(
            f"loss(Y[{{sample}}], Y[{{sample}}]) is {loss:.6g}; the loss of the true output must "
            "be 0.",
            i,
        )


def check_one_each(outputs: Any, n_examples: int) -> None:
    """Raise TaskError unless a batch form gave one output per example."""
    if isinstance(outputs, str) or not hasattr(outputs, "__len__"):
        raise TaskError(
            f"argmax_batch gave {shown(outputs)}; give a list of outputs, one for each example"
            f"{hint(outputs)}."
        )
    if len(outputs) != n_examples:
        raise TaskError(
            f"argmax_batch gave {len(outputs)} outputs for {n_examples} examples; give one for "
            "each."
        )


def check_not_none(task: Any, x: Any, y: Any, output: Any, i: int) -> None:
    """Raise TaskError if the argmax of example ``i`` gave None, which is no output of it.

    It is one if the true output is None, or if both ``joint_feature`` and ``loss`` take it.
    """
    if output is None and y is not None:
        if not (takes(task.joint_feature, x, None) and takes(task.loss, y, None)):
            raise returned_none(i)


def returned_none(i: int) -> TaskError:
    """Make the error of an argmax that ends without return for example ``i``."""
    return TaskError(
        "argmax returned None for X[{sample}], which is no output; end the method with return "
        "and the best output.",
        i,
    )


def takes(method: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a call raises no error."""
    try:
        method(*arguments)
    except Exception:
        return False
    return True


@dataclass(frozen=True)
class PartKind:
    """Kind of part, with features and weak learners for it.

    Parameters
    ----------
    n_channels : int
        Coordinates of the label code that a part carries: classes, label pairs, 1 if none.
    response : (float, float)
        The two values of a discrete weak learner on this kind: ``(-1, 1)`` where scores may have
        either sign, ``(0, 1)`` where they must not be negative (edges of a CRF, StructBoost
        section 3.6).

    Raises
    ------
    ValueError, TypeError
        If ``n_channels`` is no whole number from 1, or ``response`` not two finite numbers in
        rising order.
    """

    n_channels: int = 1
    response: Range = (-1.0, 1.0)

    def __post_init__(self) -> None:
        checked_whole_number(self.n_channels, "n_channels")
        response = array_of(self.response)
        is_pair = response.shape == (2,) and response.dtype.kind in "iuf"
        if not is_pair or not np.isfinite(response).all() or response[0] >= response[1]:
            raise ValueError(
                f"response is {shown(self.response)}; give two finite numbers in rising order, "
                "such as (-1.0, 1.0)."
            )

    @property
    def has_bias(self) -> bool:
        """Whether linear functions have a constant, because scores may have either sign."""
        return min(self.response) < 0


# Kinds of parts by name.
Kinds = Mapping[str, PartKind]


@dataclass(frozen=True)
class StackedParts:
    """Features or scores of the parts of all examples, by kind.

    Parameters
    ----------
    rows : dict of str to ndarray, shape (n_rows, n_columns)
        The parts of example 0, then those of example 1, and so on.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        Example ``i`` has the rows ``offsets[kind][i]:offsets[kind][i + 1]``.
    memo : KeptTruth, optional
        Results for these examples that hold at any scores.  A batch form that calls the one of
        the base class passes them on with the scores.
    """

    rows: Mapping[str, AnyArray]
    offsets: KindIndices
    memo: Any = field(default=None, repr=False, compare=False)

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    def sizes(self, kind: str) -> IntArray:
        """Return the number of parts of each example.

        Parameters
        ----------
        kind : str
            A kind of parts.

        Returns
        -------
        sizes : ndarray of int64, shape (n_examples,)
            Numbers from 0.
        """
        return np.diff(self.offsets[kind])

    def times(self, factor: float) -> StackedParts:
        """Return the same parts with all numbers times a factor.

        Parameters
        ----------
        factor : float
            The factor.

        Returns
        -------
        parts : StackedParts
            Without a memo.
        """
        return StackedParts({kind: factor * of for kind, of in self.rows.items()}, self.offsets)

    def only(self, i: int) -> StackedParts:
        """Return the parts of one example alone.

        Parameters
        ----------
        i : int
            Index of the example, from 0.

        Returns
        -------
        parts : StackedParts
            Contiguous rows of one example.
        """
        spans = {kind: starts[i : i + 2] for kind, starts in self.offsets.items()}
        rows = {
            kind: np.ascontiguousarray(self.rows[kind][start:stop])
            for kind, (start, stop) in spans.items()
        }
        return StackedParts(rows, {kind: span - span[0] for kind, span in spans.items()})

    def example(self, i: int) -> Any:
        """Return the rows of one example.

        Parameters
        ----------
        i : int
            Index of the example, from 0.

        Returns
        -------
        rows : ndarray, shape (n_parts, n_columns), or dict of str to ndarray
            An array if there is one kind, else a dict by kind.
        """
        by_kind = {
            kind: rows[self.offsets[kind][i] : self.offsets[kind][i + 1]]
            for kind, rows in self.rows.items()
        }
        return next(iter(by_kind.values())) if len(by_kind) == 1 else by_kind


def stack_parts(kinds: Kinds, parts: Sequence[Any], *, missing: bool = False) -> StackedParts:
    """Stack the results of :meth:`Task.parts` for all examples.

    Features may be missing (NaN) only with ``missing``.  TaskError, which names the example, if its
    parts have other kinds than the task, are not a finite matrix, or have another number of
    features than the first example.
    """
    if not len(parts):
        raise TaskError("X is empty: give at least one example.")
    rows = {}
    offsets = {}
    for kind in kinds:
        blocks = [
            _numbers(of_kind(kinds, value, kind, i, "parts"), kind, i)
            for i, value in enumerate(parts)
        ]
        width = blocks[0].shape[-1] if blocks[0].ndim == 2 else -1
        for i, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[1] != width:
                hint = " X must be a sequence of inputs: give [x] for one input x."
                raise TaskError(
                    f"parts(X[{{sample}}]) gave shape {block.shape} for kind {kind!r}; expected "
                    f"(n_parts, {width if width >= 0 else 'n_features'})."
                    f"{hint if block.ndim == 1 else ''}",
                    i,
                )
            if not width:
                raise TaskError(
                    f"parts(X[{{sample}}]) has no features for kind {kind!r}; give at least one, "
                    "such as a constant.",
                    i,
                )
            good = np.isfinite(block)
            if not good.all() and not (missing and (good | np.isnan(block)).all()):
                raise TaskError(
                    f"parts(X[{{sample}}]) has {unusable(missing)} features for kind {kind!r}; "
                    "impute or drop them.",
                    i,
                )
        rows[kind] = np.concatenate(blocks, axis=0)
        offsets[kind] = starts_of([len(b) for b in blocks])
    return StackedParts(rows, offsets)


def starts_of(counts: Any) -> IntArray:
    """First index of each group of the given sizes, and the end of the last."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def check_declared(kinds: Any) -> None:
    """Raise TaskError unless :attr:`Task.kinds` maps names to well-formed PartKind."""
    if not isinstance(kinds, Mapping) or not kinds:
        raise TaskError(f"task.kinds is {kinds!r}; give a dict of names to PartKind, at least one.")
    for kind, part in kinds.items():
        if not isinstance(part, PartKind):
            raise TaskError(f"task.kinds[{kind!r}] is {part!r}; give a PartKind.")


def _numbers(value: Any, kind: str, i: int) -> AnyArray:
    """Return the parts of example ``i`` as an array of real numbers."""
    block = on_example("parts", i, np.asarray, value)
    # The caller refuses other numbers of axes.
    if block.ndim == 2 and block.dtype.kind not in "fiub":
        raise TaskError(
            f"parts(X[{{sample}}]) gave {block.dtype.name} features for kind {kind!r}; give real "
            "numbers.",
            i,
        )
    return block


def of_kind(kinds: Kinds, value: Any, kind: str, i: int | None, method: str) -> Any:
    """Return the entry of ``kind`` in the result of a task method for example ``i``."""
    if isinstance(value, Mapping):
        if kind not in value:
            raise TaskError(
                f"{method}(X[{{sample}}]) has no entry for kind {kind!r}; it has {sorted(value)}.",
                i,
            )
        return value[kind]
    if len(kinds) > 1:
        raise TaskError(
            f"{method}(X[{{sample}}]) must return a dict with the kinds {sorted(kinds)}, got "
            f"{type(value).__name__}.",
            i,
        )
    return value


# Name of the outputs of the argmax in errors, whose truths are known to be right.
OF_ARGMAX = "argmax(X[{sample}], scores)"


class SparseFeature(NamedTuple):
    """Sparse signed weights on (part, channel) pairs.

    The three arrays have one length.  A pair may occur more than once: its values add up.

    Parameters
    ----------
    parts : ndarray of int64, shape (n_entries,)
        Indices of the parts, from 0.
    channels : ndarray of int64, shape (n_entries,)
        Indices of the channels, from 0.
    values : ndarray, shape (n_entries,)
        Weights of the pairs, finite.
    """

    parts: IntArray
    channels: IntArray
    values: FloatArray

    def take(self, entries: AnyArray) -> SparseFeature:
        """Return the entries at these indices or under a mask.

        Parameters
        ----------
        entries : ndarray of int, shape (n_taken,), or of bool, shape (n_entries,)
            Indices or mask.

        Returns
        -------
        measure : SparseFeature
            These entries, in this order.
        """
        return SparseFeature(self.parts[entries], self.channels[entries], self.values[entries])

    def minus(self, other: SparseFeature) -> SparseFeature:
        """Return the difference of both.

        Parameters
        ----------
        other : SparseFeature
            What is taken away.

        Returns
        -------
        measure : SparseFeature
            All entries; pairs in both are not merged.
        """
        negative = other._replace(values=-other.values)
        return SparseFeature(*(np.concatenate(pair) for pair in zip(self, negative, strict=True)))


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

    codes: SignArray
    labels: IntArray
    losses: FloatArray


class FeatureRows:
    """Joint features of outputs of one input, as the rows of a sparse matrix.

    Parameters
    ----------
    shapes : dict of str to (int, int)
        Number of parts and of channels, by kind; the columns of the matrix are all pairs.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, int]]) -> None:
        self.shapes = dict(shapes)
        self._firsts = [0, *accumulate(n * m for n, m in self.shapes.values())]
        self._places = [np.zeros(0, np.int64)]
        self._values = [np.zeros(0)]
        self._ends = [0]

    @property
    def n_entries(self) -> int:
        """Number of entries of the matrix."""
        return self._ends[-1]

    def append(self, measures: Mapping[str, SparseFeature]) -> None:
        """Add the joint feature of an output."""
        n_entries = self.n_entries
        for first, (kind, (_, n_channels)) in zip(self._firsts, self.shapes.items(), strict=False):
            parts, channels, values = measures[kind]
            self._places.append(first + parts * n_channels + channels)
            self._values.append(values)
            n_entries += len(values)
        self._ends.append(n_entries)

    def matrix(self) -> csr_array:
        """Return the matrix, in which entries of a repeated pair add up."""
        entries = (np.concatenate(self._values), np.concatenate(self._places), np.array(self._ends))
        return csr_array(entries, shape=(len(self._ends) - 1, self._firsts[-1]))

    def flat(self, scores: Mapping[str, AnyArray]) -> AnyArray:
        """Return scores by kind as a vector on the columns of the matrix."""
        return np.concatenate([np.asarray(scores[kind]).ravel() for kind in self.shapes])

    def by_kind(self, flat: FloatArray) -> dict[str, FloatArray]:
        """Return a vector on the columns of the matrix as arrays by kind."""
        blocks = np.split(flat, self._firsts[1:-1])
        pairs = zip(self.shapes.items(), blocks, strict=True)
        return {kind: block.reshape(shape) for (kind, shape), block in pairs}


def measure_of(
    kinds: Kinds,
    value: Any,
    kind: str,
    n_parts: int,
    i: int | None = None,
    output: str = "y",
    *,
    checks_ranges: bool = True,
) -> SparseFeature:
    """Convert a result of :meth:`Task.joint_feature` to a SparseFeature, with all checks.

    ``output`` is the name of the output in errors.
    """
    call = f"joint_feature(X[{{sample}}], {output})"
    value = of_kind(kinds, value, kind, i, "joint_feature")
    shape = (n_parts, kinds[kind].n_channels)
    if not isinstance(value, tuple):
        dense = finite_array(value, call, i, kind, shape)
        parts, channels = np.nonzero(dense)
        return SparseFeature(parts, channels, dense[parts, channels])
    if len(value) != 3:
        raise TaskError(
            f"{call} for kind {kind!r} is a tuple of {len(value)}; "
            "expected (parts, channels, values).",
            i,
        )
    parts, channels, values = value
    if not _are_plain(parts, channels, values):
        parts = whole_array(parts, f"The first array, parts, of {call}", i, kind).ravel()
        channels = whole_array(channels, f"The second array, channels, of {call}", i, kind).ravel()
        values = finite_array(values, f"The third array, values, of {call}", i, kind).ravel()
    if not len(parts) == len(channels) == len(values):
        raise TaskError(
            f"{call} for kind {kind!r} has {len(parts)} parts, "
            f"{len(channels)} channels and {len(values)} values; give one of each per entry.",
            i,
        )
    for name, index, n in zip(
        ("part", "channel"), (parts, channels), shape if checks_ranges else (), strict=False
    ):
        if len(index) and not (0 <= index.min() and index.max() < n):
            raise TaskError(f"{call} names a {name} outside 0..{n - 1} of {kind!r}.", i)
    if checks_ranges:
        check_finite(values, call, i, kind)
    return SparseFeature(parts, channels, values)


def _are_plain(parts: Any, channels: Any, values: Any) -> bool:
    """Whether the entries of a joint feature are vectors of the usual types."""
    return all(
        isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == dtype
        for array, dtype in ((parts, np.int64), (channels, np.int64), (values, np.float64))
    )


def joint_features(
    task: Any, X: Examples, outputs: Examples, offsets: KindIndices, argument: str = "Y"
) -> dict[str, SparseFeature]:
    """Return the joint features of one output per example, by kind, on rows of the stack.

    Ranges are checked for all examples at once, because this runs in every pass.  ``argument`` is
    what errors name the outputs by: true ones, or those :data:`OF_ARGMAX`.
    """
    name = "Y[{sample}]" if argument == "Y" else "y"
    sizes = {kind: np.diff(offsets[kind]).tolist() for kind in task.kinds}
    lists: dict[str, list[SparseFeature]] = {kind: [] for kind in task.kinds}
    i, is_called = 0, False
    try:
        for i, output in enumerate(outputs):
            is_called = True
            value = task.joint_feature(X[i], output)
            is_called = False
            for kind, measures in lists.items():
                measures.append(
                    measure_of(
                        task.kinds, value, kind, sizes[kind][i], i, name, checks_ranges=False
                    )
                )
        stacked = {}
        for kind, measures in lists.items():
            parts, channels, values = map(np.concatenate, zip(*measures, strict=True))
            owners = np.repeat(np.arange(len(measures)), [len(m.parts) for m in measures])
            good = (parts >= 0) & (parts < np.array(sizes[kind])[owners])
            good &= (channels >= 0) & (channels < task.kinds[kind].n_channels)
            good &= np.abs(values) <= LARGEST
            if not good.all():
                i = int(owners[np.argmin(good)])
                of_one = {kind: task.kinds[kind]}
                measure_of(of_one, tuple(measures[i]), kind, sizes[kind][i], i, name)
            stacked[kind] = SparseFeature(parts + offsets[kind][owners], channels, values)
        return stacked
    except TaskError as error:
        note_examples(error, "joint_feature", i, i, argument)
        if argument == OF_ARGMAX and "argmax" not in str(error):
            error.append(f"  Here y is {OF_ARGMAX}.")
        raise
    except Exception as error:
        if argument == OF_ARGMAX and is_called:
            raise refused_output(argument, outputs[i], "joint_feature", error, i) from error
        note_examples(error, "joint_feature", i, i, argument)
        raise
