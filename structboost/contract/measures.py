"""Joint features of outputs as signed weights on parts and channels, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.contract.parts import PartKind, of_kind
from structboost.contract.results import (
    LARGEST,
    check_finite,
    finite_array,
    refused_output,
    whole_array,
)
from structboost.errors import TaskError, note_examples

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
        self._places: list[IntArray] = [np.zeros(0, np.int64)]
        self._values: list[FloatArray] = [np.zeros(0)]
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
    kinds: Mapping[str, PartKind],
    value: Any,
    kind: str,
    n_parts: int,
    i: int | None = None,
    output: str = "y",
) -> SparseFeature:
    """Convert a result of :meth:`Task.joint_feature` to a SparseFeature, with all checks.

    ``output`` is the name of the output in errors.
    """
    call = f"joint_feature(X[{{sample}}], {output})"
    measure = _sparse(kinds, value, kind, n_parts, i, output)
    for name, index, n in (
        ("part", measure.parts, n_parts),
        ("channel", measure.channels, kinds[kind].n_channels),
    ):
        if len(index) and not (0 <= index.min() and index.max() < n):
            raise TaskError(f"{call} names a {name} outside 0..{n - 1} of {kind!r}.", i)
    check_finite(measure.values, call, i, kind)
    return measure


def _sparse(
    kinds: Mapping[str, PartKind],
    value: Any,
    kind: str,
    n_parts: int,
    i: int | None,
    output: str = "y",
) -> SparseFeature:
    """Convert as :func:`measure_of`, without a check of ranges."""
    call = f"joint_feature(X[{{sample}}], {output})"
    value = of_kind(kinds, value, kind, i, "joint_feature")
    if not isinstance(value, tuple):
        dense = finite_array(value, call, i, kind)
        shape = (n_parts, kinds[kind].n_channels)
        if dense.shape != shape:
            raise TaskError(
                f"{call} gave shape {dense.shape} for kind {kind!r}; "
                f"expected (n_parts, n_channels) = {shape}, or a tuple of three arrays: parts, "
                "channels and values.",
                i,
            )
        parts, channels = np.nonzero(dense)
        return SparseFeature(
            parts.astype(np.int64), channels.astype(np.int64), dense[parts, channels]
        )
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
    return SparseFeature(parts, channels, values)


def _are_plain(parts: Any, channels: Any, values: Any) -> bool:
    """Whether the entries of a joint feature are vectors of the usual types."""
    return all(
        isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == dtype
        for array, dtype in ((parts, np.int64), (channels, np.int64), (values, np.float64))
    )


def joint_features(
    task: Any,
    X: Sequence[Any],
    outputs: Sequence[Any],
    offsets: Mapping[str, IntArray],
    argument: str = "Y",
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
                measures.append(_sparse(task.kinds, value, kind, sizes[kind][i], i, name))
        return {
            kind: _stacked(task.kinds, kind, measures, offsets[kind], name)
            for kind, measures in lists.items()
        }
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


def _stacked(
    kinds: Mapping[str, PartKind],
    kind: str,
    measures: Sequence[SparseFeature],
    starts: IntArray,
    output: str,
) -> SparseFeature:
    """Join the measures of all examples, check them, and convert parts to rows of the stack."""
    parts, channels, values = (np.concatenate(column) for column in zip(*measures, strict=True))
    owners = np.repeat(np.arange(len(measures)), [len(m.parts) for m in measures])
    good = (parts >= 0) & (parts < np.diff(starts)[owners]) & (np.abs(values) <= LARGEST)
    good &= (channels >= 0) & (channels < kinds[kind].n_channels)
    if not good.all():
        i = int(owners[np.argmin(good)])
        size = int(np.diff(starts)[i])
        measure_of({kind: kinds[kind]}, tuple(measures[i]), kind, size, i, output)
    return SparseFeature(parts + starts[owners], channels, values)
