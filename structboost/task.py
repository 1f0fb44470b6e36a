"""The contract for a structured prediction problem.

A problem is told to the library by four methods: what the *parts* of an input
are, which signed weight an output puts on each part (its *joint feature*), how
bad a wrong output is (its *loss*), and which output scores best (its
*argmax*).  Everything else, the weak learners, the masters, the certificate, is
the same for all problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class PartKind:
    """One kind of part, with its own features and weak learners.

    Parameters
    ----------
    n_channels : int
        Coordinates of the label code that a part carries: classes, label pairs, 1 if none.
    response : (float, float)
        The two values of a discrete weak learner on this kind.  ``(-1, 1)`` where the
        sign of a score is free; ``(0, 1)`` where scores must not be negative
        (edges of a CRF, StructBoost section 3.6).
    """

    n_channels: int = 1
    response: tuple[float, float] = (-1.0, 1.0)


class Measure(NamedTuple):
    """Signed weights on (part, channel) pairs, sparse.

    The three arrays have one length; a pair may occur more than once, its values add up.
    """

    parts: IntArray
    channels: IntArray
    values: FloatArray

    def take(self, entries: NDArray[Any]) -> Measure:
        """The entries at an index or under a mask."""
        return Measure(self.parts[entries], self.channels[entries], self.values[entries])

    def append(self, other: Measure) -> Measure:
        """The entries of both."""
        return Measure(
            np.concatenate((self.parts, other.parts)),
            np.concatenate((self.channels, other.channels)),
            np.concatenate((self.values, other.values)),
        )


@dataclass(frozen=True)
class StackedParts:
    """Rows of all parts of all examples, by kind: features before, scores after scoring.

    Parameters
    ----------
    rows : dict of str to ndarray, shape (n_rows, n_columns)
        The parts of example 0, then those of example 1, and so on.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        Example ``i`` owns the rows ``offsets[kind][i]:offsets[kind][i + 1]``.
    """

    rows: Mapping[str, NDArray[Any]]
    offsets: Mapping[str, IntArray]

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    def example(self, i: int) -> Any:
        """Rows of example ``i``: an array where there is one kind, else a dict by kind."""
        by_kind = {kind: rows[self.offsets[kind][i] : self.offsets[kind][i + 1]] for kind, rows in self.rows.items()}
        return next(iter(by_kind.values())) if len(by_kind) == 1 else by_kind


@dataclass(frozen=True)
class Separation:
    """Most violated outputs: their losses and differences of joint features.

    Row ``k`` stands for one output y of one example i.  It says that
    ``slack >= losses[k] - <difference[k], scores>`` with
    ``difference = M(x_i, y_i) - M(x_i, y)`` (StructBoost, (35b)).

    Parameters
    ----------
    losses : ndarray, shape (n_outputs,)
        Delta(y_i, y).
    differences : dict of str to Measure
        By kind, entries in the order of the outputs; ``parts`` are rows of the stack.
    indptr : dict of str to ndarray of int64, shape (n_outputs + 1,)
        Entries ``indptr[k]:indptr[k + 1]`` belong to output ``k``.
    slacks : ndarray of int64, shape (n_outputs,), optional
        Number of the slack that the output bounds; default: output k bounds the slack of example k.
    weights : ndarray, shape (n_outputs,), optional
        Weight of that slack in the mean loss; default ``1 / n_examples``.
    """

    losses: FloatArray
    differences: Mapping[str, Measure]
    indptr: Mapping[str, IntArray]
    slacks: IntArray | None = None
    weights: FloatArray | None = None


class OutputCodes(NamedTuple):
    """All outputs of a task by their label codes, for masters that sum over every output.

    Parameters
    ----------
    codes : ndarray of int8, shape (n_outputs, n_channels)
        Output y scores ``<codes[y], F(x)>``, up to what all outputs have in common.
    labels : ndarray of int64, shape (n_examples,)
        Row of each true output.
    losses : ndarray of float64, shape (n_outputs, n_outputs)
        Delta(true, output).
    """

    codes: NDArray[np.int8]
    labels: IntArray
    losses: FloatArray


class Task(ABC):
    """A structured prediction problem.

    Subclasses give the four abstract methods; an example at a time, in plain arrays.  A task
    that wants speed overrides the batch forms :meth:`stack` and :meth:`separate`.
    Instances must be picklable, and every method a pure function of its arguments.

    Attributes
    ----------
    kinds : dict of str to PartKind
        The kinds of parts; class-specific tasks set it in ``__init__``.
    exact_argmax : bool
        Whether :meth:`argmax` always finds the best output.  If False, primal values
        are estimates and nothing is certified.
    comparable_outputs : bool
        Whether the scores of any two outputs compare.  False where a joint feature is scaled by its own output
        (rankings); :func:`structboost.check_task` then compares plain argmaxes among themselves only.
    reads_inputs : bool
        Whether the loss-augmented argmax and the joint feature look at ``x``, beside the scores. If False they may be
        given None, and inputs need not be sent to where scores are.
    selects_features : bool
        Whether :meth:`parts` takes ``features=`` (indices, or a dict of indices by kind)
        and then computes those columns only, in that order.
    """

    kinds: Mapping[str, PartKind] = {"x": PartKind()}
    exact_argmax: ClassVar[bool] = True
    comparable_outputs: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True
    selects_features: ClassVar[bool] = False

    @abstractmethod
    def parts(self, x: Any) -> Any:
        """Features of the parts of one input.

        Ensures an array of shape (n_parts, n_features), finite; a dict of such arrays by kind
        where the task has several kinds.  ``n_features`` is the same for all inputs, ``n_parts`` need not be.
        """

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> Any:
        """Signed weight that output ``y`` puts on each (part, channel): M(x, y).

        Ensures an array of shape (n_parts, n_channels), or a triple ``(parts, channels, values)`` of equally
        long arrays; a dict of either by kind where the task has several kinds.  ``y`` is a true output
        or whatever :meth:`argmax` returned.
        """

    @abstractmethod
    def loss(self, y: Any, y_pred: Any) -> float:
        """Loss of predicting ``y_pred`` where ``y`` is true: finite, >= 0, and 0 for ``y`` itself."""

    @abstractmethod
    def argmax(self, x: Any, scores: Any, y: Any = None) -> Any:
        """Output of highest score ``<M(x, .), scores>``.

        Requires ``scores`` of shape (n_parts, n_channels), by kind where there are several.  With ``y``
        given the score is augmented by ``loss(y, .)`` (StructBoost, (12) with the sign put right).
        """

    # -- optional: what has a default here may be overridden ---------------------------------

    def predict(self, x: Any, scores: Any) -> Any:
        """What a user of the model gets for ``x``; by default the argmax."""
        return self.argmax(x, scores)

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """Batch form of :meth:`parts`."""
        return stack_parts(self.kinds, [self.parts(x) for x in X])

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Batch form of the loss-augmented argmax: one output for each example.

        Called by every hinge master, with the scores of the whole training set or of a block of it; X may be None if
        ``reads_inputs`` is False.
        """
        inputs = X if self.reads_inputs else [None] * len(Y)
        outputs = [self.argmax(inputs[i], scores.example(i), Y[i]) for i in range(len(Y))]
        return separation_of(self, inputs, Y, outputs, scores.offsets)

    def separate_slacks(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, limit: int) -> Separation:
        """At most about ``limit`` violated outputs, each for a slack of its own (m-slack form).

        By default an example has one slack.  A task whose loss is a sum of independent hinges
        (pairs of a ranking) gives one for each, so that the m-slack master sees (14) as printed.
        """
        return self.separate(X, Y, scores)

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """Codes of all outputs, and which are true: what the exponential formulation needs.

        Raises
        ------
        TaskError
            Unless the task overrides it: its outputs are too many to list.
        """
        raise TaskError(
            f"{type(self).__name__} has no codes(Y), which this formulation needs; define it, or use "
            "formulation='one_slack'."
        )


def stack_parts(kinds: Mapping[str, PartKind], parts: Sequence[Any]) -> StackedParts:
    """Stack what :meth:`Task.parts` returned for each example.

    Raises
    ------
    TaskError
        If an example has other kinds than the task, is not a finite matrix, or has
        another number of features than the first; the message names the example.
    """
    if not len(parts):
        raise TaskError("X is empty: give at least one example.")
    rows: dict[str, NDArray[Any]] = {}
    offsets: dict[str, IntArray] = {}
    for kind in kinds:
        blocks = [np.asarray(_of_kind(kinds, p, kind, i, "parts")) for i, p in enumerate(parts)]
        width = blocks[0].shape[-1] if blocks[0].ndim == 2 else -1
        for i, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[1] != width:
                raise TaskError(
                    f"parts(X[{{sample}}]) gave shape {block.shape} for kind {kind!r}; expected "
                    f"(n_parts, {width if width >= 0 else 'n_features'}).",
                    i,
                )
            if not np.isfinite(block).all():
                raise TaskError(
                    f"parts(X[{{sample}}]) has NaN or infinite features for kind {kind!r}; impute or drop them.", i
                )
        rows[kind] = np.concatenate(blocks, axis=0)
        offsets[kind] = np.concatenate(([0], np.cumsum([len(b) for b in blocks]))).astype(np.int64)
    return StackedParts(rows, offsets)


def _of_kind(kinds: Mapping[str, PartKind], value: Any, kind: str, i: int, method: str) -> Any:
    """Entry of ``kind`` in what a task method returned for example ``i``."""
    if isinstance(value, Mapping):
        if kind not in value:
            raise TaskError(f"{method}(X[{{sample}}]) has no entry for kind {kind!r}; it has {sorted(value)}.", i)
        return value[kind]
    if len(kinds) > 1:
        raise TaskError(
            f"{method}(X[{{sample}}]) must return a dict with the kinds {sorted(kinds)}, got {type(value).__name__}.", i
        )
    return value


def measure_of(kinds: Mapping[str, PartKind], value: Any, kind: str, n_parts: int, i: int) -> Measure:
    """Sparse form of what :meth:`Task.joint_feature` returned for example ``i``.

    Raises
    ------
    TaskError
        If the shape, an index or a value is out of its range.
    """
    value = _of_kind(kinds, value, kind, i, "joint_feature")
    n_channels = kinds[kind].n_channels
    if isinstance(value, tuple):
        if len(value) != 3:
            raise TaskError(
                f"joint_feature(X[{{sample}}], y) for kind {kind!r} is a tuple of {len(value)}; expected "
                "(parts, channels, values).",
                i,
            )
        parts = np.asarray(value[0], dtype=np.int64).ravel()
        channels = np.asarray(value[1], dtype=np.int64).ravel()
        values = np.asarray(value[2], dtype=np.float64).ravel()
        if not len(parts) == len(channels) == len(values):
            raise TaskError(
                f"joint_feature(X[{{sample}}], y) for kind {kind!r} has {len(parts)} parts, {len(channels)} channels "
                f"and {len(values)} values; give one of each per entry.",
                i,
            )
        if len(parts) and not (0 <= parts.min() and parts.max() < n_parts):
            raise TaskError(f"joint_feature(X[{{sample}}], y) names a part outside 0..{n_parts - 1} of {kind!r}.", i)
        if len(channels) and not (0 <= channels.min() and channels.max() < n_channels):
            raise TaskError(
                f"joint_feature(X[{{sample}}], y) names a channel outside 0..{n_channels - 1} of {kind!r}.", i
            )
    else:
        dense = np.asarray(value, dtype=np.float64)
        if dense.shape != (n_parts, n_channels):
            raise TaskError(
                f"joint_feature(X[{{sample}}], y) gave shape {dense.shape} for kind {kind!r}; expected "
                f"(n_parts, n_channels) = ({n_parts}, {n_channels}).",
                i,
            )
        parts, channels = (index.astype(np.int64) for index in np.nonzero(dense))
        values = dense[parts, channels]
    if not np.isfinite(values).all():
        raise TaskError(f"joint_feature(X[{{sample}}], y) has NaN or infinite weights for kind {kind!r}.", i)
    return Measure(parts, channels, values)


def separation_of(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    outputs: Sequence[Any],
    offsets: Mapping[str, IntArray],
) -> Separation:
    """Separation that follows from one output for each example, by the task's own methods."""
    n = len(Y)
    losses = np.empty(n)
    entries: dict[str, list[Measure]] = {kind: [] for kind in task.kinds}
    for i in range(n):
        losses[i] = loss_of(task, Y[i], outputs[i], i)
        true = task.joint_feature(X[i], Y[i])
        found = task.joint_feature(X[i], outputs[i])
        for kind in task.kinds:
            start, stop = offsets[kind][i], offsets[kind][i + 1]
            a = measure_of(task.kinds, true, kind, int(stop - start), i)
            b = measure_of(task.kinds, found, kind, int(stop - start), i)
            entries[kind].append(_difference(a, b, int(start), task.kinds[kind].n_channels))
    differences = {}
    indptr = {}
    for kind, measures in entries.items():
        differences[kind] = Measure(*(np.concatenate(column) for column in zip(*measures, strict=True)))
        indptr[kind] = np.concatenate(([0], np.cumsum([len(m.parts) for m in measures]))).astype(np.int64)
    return Separation(losses, differences, indptr)


def _difference(true: Measure, found: Measure, first_row: int, n_channels: int) -> Measure:
    """``true - found`` with equal pairs merged, zeros left out, and parts made rows of the stack."""
    keys = np.concatenate((true.parts, found.parts)) * n_channels + np.concatenate((true.channels, found.channels))
    merged, where = np.unique(keys, return_inverse=True)
    values = np.bincount(where, weights=np.concatenate((true.values, -found.values)), minlength=len(merged)).astype(
        np.float64
    )
    merged, values = merged[values != 0], values[values != 0]
    return Measure(first_row + merged // n_channels, merged % n_channels, values)


def loss_of(task: Task, y: Any, y_pred: Any, i: int) -> float:
    """Loss of example ``i``, checked to be finite and not negative."""
    value = float(task.loss(y, y_pred))
    if not np.isfinite(value) or value < 0:
        raise TaskError(f"loss(Y[{{sample}}], y_pred) is {value}; a loss must be finite and >= 0.", i)
    return value
