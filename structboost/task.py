"""The contract for a structured prediction problem.

A few methods describe a problem to the library: the *parts* of an input, the signed weight that an
output puts on each part (its *joint feature*), the *loss* of a wrong output, and the output that
scores best (the *argmax*).  Everything else is the same for all problems: weak learners, masters
and the certificate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.exceptions import TaskError, on_example
from structboost.runtime.compiled import compiled
from structboost.validation import unusable


@dataclass(frozen=True)
class PartKind:
    """One kind of part, with its own features and weak learners.

    Parameters
    ----------
    n_channels : int
        Coordinates of the label code that a part carries: classes, label pairs, 1 if none.
    response : (float, float)
        The two values of a discrete weak learner on this kind: ``(-1, 1)`` where scores may have
        either sign, ``(0, 1)`` where they must not be negative (edges of a CRF, StructBoost
        section 3.6).
    """

    n_channels: int = 1
    response: tuple[float, float] = (-1.0, 1.0)


class Measure(NamedTuple):
    """Signed weights on (part, channel) pairs, sparse.

    The three arrays have one length.  A pair may occur more than once: its values add up.
    """

    parts: IntArray
    channels: IntArray
    values: FloatArray

    def take(self, entries: NDArray[Any]) -> Measure:
        """The entries at an index or under a mask."""
        return Measure(self.parts[entries], self.channels[entries], self.values[entries])

    def append(self, other: Measure) -> Measure:
        """The entries of both."""
        return Measure(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True)
class StackedParts:
    """Rows of all parts of all examples, by kind: their features or their scores.

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
        """Rows of example ``i``: an array if there is one kind, else a dict by kind."""
        by_kind = {
            kind: rows[self.offsets[kind][i] : self.offsets[kind][i + 1]]
            for kind, rows in self.rows.items()
        }
        return next(iter(by_kind.values())) if len(by_kind) == 1 else by_kind


@dataclass(frozen=True)
class Separation:
    """Most violated outputs: their losses and differences of joint features.

    Row ``k`` stands for one output y of one example i and the constraint
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
        Number of the slack that each output bounds.  Default: output k bounds the slack of
        example k.
    weights : ndarray, shape (n_outputs,), optional
        Weight of that slack in the mean loss if all examples weigh the same.  Default:
        ``1 / n_examples``.
    examples : ndarray of int64, shape (n_outputs,), optional
        Example that each slack belongs to; its ``sample_weight`` scales the weight.  Needed if
        ``slacks`` is given and examples differ in weight.
    """

    losses: FloatArray
    differences: Mapping[str, Measure]
    indptr: Mapping[str, IntArray]
    slacks: IntArray | None = None
    weights: FloatArray | None = None
    examples: IntArray | None = None

    @classmethod
    def from_outputs(
        cls,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        outputs: Sequence[Any],
        offsets: Mapping[str, IntArray],
        truth: KeptTruth | None = None,
    ) -> Separation:
        """Separation of one output per example, by the task's joint feature and loss.

        Parameters
        ----------
        task : Task
        X, Y, outputs : sequence, shape (n_examples,)
            Inputs, true outputs, and the outputs found.
        offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
            First row of each example, by kind, as in :class:`StackedParts`.
        truth : KeptTruth, optional
            Keeps the joint features of ``Y`` for further calls with the same examples.

        Raises
        ------
        TaskError
            If there is not one output per example, or a loss or joint feature is malformed; the
            message names the example.
        """
        check_one_each(outputs, len(Y))
        losses = np.array(
            [
                on_example("loss", i, task.loss, *pair)
                for i, pair in enumerate(zip(Y, outputs, strict=True))
            ],
            dtype=np.float64,
        )
        wrong = np.flatnonzero(~(np.isfinite(losses) & (losses >= 0)))
        if len(wrong):
            check_loss(losses[wrong[0]], int(wrong[0]))
        true = (truth or KeptTruth()).joint_features(task, X, Y, offsets)
        found = _joint_features(task, X, outputs, offsets)
        differences = {
            kind: _merged_difference(true[kind], found[kind], part.n_channels)
            for kind, part in task.kinds.items()
        }
        indptr = {
            kind: np.searchsorted(difference.parts, offsets[kind][: len(Y) + 1]).astype(np.int64)
            for kind, difference in differences.items()
        }
        return cls(losses, differences, indptr)

    def violations(self, scores: StackedParts) -> FloatArray:
        """``loss - <difference, scores>`` of each output, shape (n_outputs,)."""
        out = np.array(self.losses, dtype=np.float64)
        for kind, difference in self.differences.items():
            _subtract_products(*difference, self.indptr[kind], scores.rows[kind], out)
        return out


class Marginals(NamedTuple):
    """Outputs of every example as random ones, of probability ``~ exp(score)``.

    Parameters
    ----------
    expected : dict of str to ndarray, shape (n_rows, n_channels)
        The joint feature that is to be expected, by kind, its rows those of the stack.
    log_sums : ndarray, shape (n_examples,)
        Logarithm of the sum of ``exp(score)`` over all outputs.
    """

    expected: dict[str, FloatArray]
    log_sums: FloatArray


class KeptTruth:
    """Joint features of the true outputs of fixed examples, computed once and then kept."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Measure] | None = None

    def joint_features(
        self, task: Task, X: Sequence[Any], Y: Sequence[Any], offsets: Mapping[str, IntArray]
    ) -> dict[str, Measure]:
        """The joint features by kind; parts are rows of the stack."""
        if self._by_kind is None:
            self._by_kind = _joint_features(task, X, Y, offsets)
        return self._by_kind


class OutputCodes(NamedTuple):
    """All outputs of a task by their label codes, for masters that sum over every output.

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


class Task(ABC):
    """A structured prediction problem.

    A subclass defines :meth:`parts`, :meth:`joint_feature`, :meth:`loss` and :meth:`argmax`, one
    example at a time, on plain arrays.  If the loss is a sum over parts, :meth:`loss_scores` keeps
    it out of the argmax; if the outputs are few, :meth:`outputs` replaces the argmax.  For speed,
    a task may override the batch forms :meth:`stack`, :meth:`argmax_batch` or :meth:`separate`.
    Instances must be picklable, and every method a pure function of its arguments.

    Attributes
    ----------
    kinds : dict of str to PartKind
        The kinds of parts; tasks whose kinds depend on parameters set it in ``__init__``.
    exact_argmax : bool
        Whether :meth:`argmax` always finds the best output.  If False, primal values are estimates
        and nothing is certified.
    reads_inputs : bool
        Whether the loss-augmented argmax and the joint feature read ``x``, beside the scores.  If
        False, ``x`` and ``X`` may be None, and inputs are not sent to the workers.
    labelled_kind : str or None
        Kind of the parts that outputs label (:meth:`part_labels`), where there is one.
    """

    kinds: Mapping[str, PartKind] = {"x": PartKind()}
    exact_argmax: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True
    labelled_kind: ClassVar[str | None] = None

    @abstractmethod
    def parts(self, x: Any) -> Any:
        """Features of the parts of one input.

        Ensures a finite array of shape (n_parts, n_features), or a dict of such arrays by kind if
        the task has several kinds.  ``n_features`` is the same for all inputs; ``n_parts`` may
        differ.
        """

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> Any:
        """Signed weight that output ``y`` puts on each (part, channel): M(x, y).

        Ensures an array of shape (n_parts, n_channels), or a triple ``(parts, channels, values)``
        of equally long arrays; a dict of either by kind if the task has several kinds.  ``y`` is a
        true output or one that :meth:`argmax` returned.
        """

    @abstractmethod
    def loss(self, y: Any, y_pred: Any) -> float:
        """Loss of predicting ``y_pred`` if ``y`` is true: finite, >= 0, and 0 for ``y`` itself."""

    def argmax(self, x: Any, scores: Any) -> Any:
        """Output of highest score ``<M(x, .), scores>``; by default the best of :meth:`outputs`.

        Requires ``scores`` of shape (n_parts, n_channels), by kind if there are several.

        A task that defines neither :meth:`loss_scores` nor :meth:`outputs` takes a third argument:
        ``argmax(x, scores, y=None)``.  If ``y`` is given, it maximises the score plus
        ``loss(y, .)`` (StructBoost, (12) with the sign put right).

        Raises
        ------
        TaskError
            If the task defines neither ``argmax`` nor ``outputs``, or ``outputs(x)`` is empty.
        """
        return self._best_listed(x, scores, lambda output: 0.0)

    # -- optional: a task may override the defaults below ------------------------------------

    def loss_scores(self, x: Any, y: Any) -> Any:
        """The loss as scores on parts, if it is a sum over parts; by default None.

        Ensures arrays L like the scores, such that ``loss(y, z) = <M(x, z) - M(x, y), L>`` for
        every output z of ``x``; kinds without loss may be left out of a dict.  The library then
        adds them to the scores, and :meth:`argmax` needs no ``y``.
        """
        return None

    def outputs(self, x: Any) -> Iterable[Any] | None:
        """All outputs of ``x``, one by one; by default None, which means unknown.

        :func:`structboost.check_task` compares the argmax with each of them, and a task without
        ``argmax`` chooses the best of them.
        """
        return None

    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` is an output of ``x``; by default always True.

        Only :func:`structboost.check_task` calls it: to try true outputs of other examples and
        random outputs on ``x``, and to find an argmax that leaves the outputs of ``x``.
        """
        return True

    def marginals(self, x: Any, scores: Any) -> Any:
        """The joint feature to be expected where an output has probability ``~ exp(score)``.

        Ensures an array like the scores, by kind if there are several: if joint features are
        indicators, the probability of each (part, channel).  By default it follows from
        :meth:`outputs`.  ``formulation="log"`` and ``predict_marginals`` need it.

        Raises
        ------
        TaskError
            If the task defines neither ``marginals`` nor ``outputs``.
        """
        expected, _ = listed_marginals(self, x, scores)
        return expected if len(self.kinds) > 1 else next(iter(expected.values()))

    def log_sum(self, x: Any, scores: Any) -> float:
        """Logarithm of the sum of ``exp(score)`` over all outputs; by default from `outputs`.

        Its gradient by the scores is :meth:`marginals`: a task overrides both or neither.
        """
        return listed_marginals(self, x, scores)[1]

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Batch form of :meth:`marginals` and :meth:`log_sum`."""
        expected: dict[str, list[FloatArray]] = {kind: [] for kind in self.kinds}
        log_sums = np.empty(len(X))
        for i, x in enumerate(X):
            own = scores.example(i)
            found = on_example("marginals", i, self.marginals, x, own)
            log_sums[i] = on_example("log_sum", i, self.log_sum, x, own)
            for kind, blocks in expected.items():
                blocks.append(np.asarray(_of_kind(self.kinds, found, kind, i, "marginals")))
        return Marginals(
            {kind: np.concatenate(blocks) for kind, blocks in expected.items()}, log_sums
        )

    def part_labels(self, x: Any, y: Any) -> NDArray[Any]:
        """Labels that output ``y`` gives to the parts of :attr:`labelled_kind`.

        :class:`structboost.CrossFitted` trains a classifier of the parts on them.

        Ensures an array of int, shape (n_parts,), negative where a label is unknown; or of 0 and 1,
        shape (n_parts, n_labels).
        """
        raise TaskError(f"{type(self).__name__} has no part_labels(x, y), which this needs.")

    def with_features(self, x: Any, features: Any) -> Any:
        """The input ``x`` with other features of the parts of :attr:`labelled_kind`.

        Requires ``features`` of shape (n_parts, n_features), in the order of :meth:`parts`.
        """
        raise TaskError(f"{type(self).__name__} has no with_features(x, features).")

    def predict(self, x: Any, scores: Any) -> Any:
        """What a user of the model gets for ``x``; by default the argmax."""
        return self.argmax(x, scores)

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """Batch form of :meth:`parts`."""
        return stack_parts(
            self.kinds, [on_example("parts", i, self.parts, x) for i, x in enumerate(X)]
        )

    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Batch form of :meth:`argmax`: one output per example.

        If ``Y`` is given, the score of each output of example i is augmented by ``loss(Y[i], .)``.
        A task with :meth:`loss_scores` never gets ``Y``: its scores are augmented already.
        """
        if Y is None:
            return [
                on_example("argmax", i, self.argmax, x, scores.example(i)) for i, x in enumerate(X)
            ]
        return [
            on_example("argmax", i, self.augmented_argmax, x, scores.example(i), Y[i])
            for i, x in enumerate(X)
        ]

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Loss-augmented argmax of each example, as losses and differences of joint features.

        By default it follows from :meth:`argmax_batch`.  Every hinge master calls it, with the
        scores of the whole training set or of a block of it; X may be None if ``reads_inputs`` is
        False.
        """
        return separation_at(self, X, Y, scores)

    def separate_slacks(
        self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, limit: int
    ) -> Separation:
        """At most about ``limit`` violated outputs, each with a slack of its own (m-slack form).

        By default an example has one slack.  A task whose loss is a sum of independent hinges
        (pairs of a ranking) gives one slack per hinge, so that the m-slack master solves (14) as
        printed.
        """
        return self.separate(X, Y, scores)

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """Codes of all outputs, and which are true; the exponential formulation needs them.

        Raises
        ------
        TaskError
            Unless the task overrides it: its outputs are too many to list.
        """
        raise TaskError(
            f"{type(self).__name__} has no codes(Y), which this formulation needs; define it, or "
            "use formulation='one_slack'."
        )

    def gains(self, Y: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        """What each part is worth at the first rank, and its weight, for stage-wise ranking.

        Parameters
        ----------
        Y : sequence
            True outputs.

        Returns
        -------
        gains, weights : ndarray, shape (n_parts,)
            Those of all examples, one after the other; neither has a unit.

        Raises
        ------
        TaskError
            Unless the task overrides it: its outputs are no orders.
        """
        raise TaskError(
            f"{type(self).__name__} has no gains(Y), which this formulation needs; define it, or "
            "use formulation='one_slack'."
        )

    # -- what follows from the above ---------------------------------------------------------

    def augmented_argmax(self, x: Any, scores: Any, y: Any) -> Any:
        """Output of the highest sum of score and ``loss(y, .)``, by whichever method says it."""
        added = self.loss_scores(x, y)
        if added is not None:
            return self.argmax(x, _plus(scores, added))
        if type(self).argmax is Task.argmax:
            return self._best_listed(x, scores, lambda output: self.loss(y, output))
        return self.argmax(x, scores, y)  # type: ignore[call-arg]

    def _best_listed(self, x: Any, scores: Any, added: Callable[[Any], float]) -> Any:
        """The first output of highest score plus ``added``."""
        listed = self.outputs(x)
        if listed is None:
            raise TaskError(
                f"{type(self).__name__} defines neither argmax(x, scores) nor outputs(x); define "
                "one of them."
            )
        by_kind = scores if isinstance(scores, Mapping) else dict.fromkeys(self.kinds, scores)

        def value(output: Any) -> float:
            feature = self.joint_feature(x, output)
            total = added(output)
            for kind, rows in by_kind.items():
                measure = measure_of(self.kinds, feature, kind, len(rows))
                total += float(measure.values @ rows[measure.parts, measure.channels])
            return total

        best = max(listed, key=value, default=None)
        if best is None:
            raise TaskError("outputs(x) is empty; give at least one output.")
        return best


def listed_marginals(task: Task, x: Any, scores: Any) -> tuple[dict[str, FloatArray], float]:
    """Expected joint feature, by kind, and logarithm of the sum, over :meth:`Task.outputs`.

    Raises
    ------
    TaskError
        If the task does not list its outputs, or has none.
    """
    listed = task.outputs(x)
    if listed is None:
        raise TaskError(
            f"{type(task).__name__} has no marginals(x, scores), which formulation='log' and "
            "predict_marginals need; define marginals and log_sum, or outputs(x)."
        )
    by_kind = scores if isinstance(scores, Mapping) else dict.fromkeys(task.kinds, scores)
    features: list[dict[str, Measure]] = []
    values = []
    for output in listed:
        feature = task.joint_feature(x, output)
        measures = {
            kind: measure_of(task.kinds, feature, kind, len(by_kind[kind])) for kind in task.kinds
        }
        features.append(measures)
        values.append(
            sum(float(m.values @ by_kind[k][m.parts, m.channels]) for k, m in measures.items())
        )
    if not values:
        raise TaskError("outputs(x) is empty; give at least one output.")
    largest = max(values)
    weights = np.exp(np.array(values) - largest)
    total = float(weights.sum())
    expected = {kind: np.zeros(by_kind[kind].shape) for kind in task.kinds}
    for measures, weight in zip(features, weights / total, strict=True):
        for kind, (parts, channels, amounts) in measures.items():
            np.add.at(expected[kind], (parts, channels), weight * amounts)
    return expected, largest + float(np.log(total))


def separation_at(
    task: Task,
    X: Sequence[Any] | None,
    Y: Sequence[Any],
    scores: StackedParts,
    truth: KeptTruth | None = None,
) -> Separation:
    """The default of :meth:`Task.separate`; it may keep the joint features of the truth."""
    inputs: Sequence[Any] = [None] * len(Y) if X is None or not task.reads_inputs else X
    augmented = _augmented_scores(task, inputs, Y, scores)
    if augmented is None:
        outputs = task.argmax_batch(inputs, scores, Y)
    else:
        outputs = task.argmax_batch(inputs, augmented)
    return Separation.from_outputs(task, inputs, Y, outputs, scores.offsets, truth)


def _augmented_scores(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts
) -> StackedParts | None:
    """Scores plus :meth:`Task.loss_scores`; None if the task has none."""
    added: dict[str, list[NDArray[Any]]] = {}
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        value = on_example("loss_scores", i, task.loss_scores, x, y)
        if value is None:
            return None
        by_kind = value if isinstance(value, Mapping) else dict.fromkeys(task.kinds, value)
        for kind, rows in by_kind.items():
            added.setdefault(kind, []).append(np.asarray(rows))
    rows = dict(scores.rows)
    for kind, blocks in added.items():
        sizes = np.diff(scores.offsets[kind]).tolist()
        shapes = [(size, task.kinds[kind].n_channels) for size in sizes]
        for i, (block, shape) in enumerate(zip(blocks, shapes, strict=True)):
            if block.shape != shape:
                raise TaskError(
                    f"loss_scores(X[{{sample}}], y) gave shape {block.shape} for kind {kind!r}; "
                    f"expected (n_parts, n_channels) = {shape}.",
                    i,
                )
        rows[kind] = scores.rows[kind] + np.concatenate(blocks)
    return StackedParts(rows, scores.offsets)


def _plus(scores: Any, added: Any) -> Any:
    """Scores of one example plus other scores, by kind if there are several."""
    if not isinstance(scores, Mapping):
        return scores + (next(iter(added.values())) if isinstance(added, Mapping) else added)
    return {**scores, **{kind: scores[kind] + rows for kind, rows in added.items()}}


def stack_parts(
    kinds: Mapping[str, PartKind], parts: Sequence[Any], *, missing: bool = False
) -> StackedParts:
    """Stack what :meth:`Task.parts` returned for each example.

    Features may be missing (NaN) only with ``missing``.

    Raises
    ------
    TaskError
        If the parts of an example have other kinds than the task, are not a finite matrix, or have
        another number of features than the first example; the message names the example.
    """
    if not len(parts):
        raise TaskError("X is empty: give at least one example.")
    rows: dict[str, NDArray[Any]] = {}
    offsets: dict[str, IntArray] = {}
    for kind in kinds:
        blocks = [
            on_example("parts", i, np.asarray, _of_kind(kinds, value, kind, i, "parts"))
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
            good = on_example("parts", i, np.isfinite, block)
            if not good.all() and not (missing and (good | np.isnan(block)).all()):
                raise TaskError(
                    f"parts(X[{{sample}}]) has {unusable(missing)} features for kind {kind!r}; "
                    "impute or drop them.",
                    i,
                )
        rows[kind] = np.concatenate(blocks, axis=0)
        offsets[kind] = np.concatenate(([0], np.cumsum([len(b) for b in blocks]))).astype(np.int64)
    return StackedParts(rows, offsets)


def _of_kind(
    kinds: Mapping[str, PartKind], value: Any, kind: str, i: int | None, method: str
) -> Any:
    """Entry of ``kind`` in what a task method returned for example ``i``."""
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


def measure_of(
    kinds: Mapping[str, PartKind], value: Any, kind: str, n_parts: int, i: int | None = None
) -> Measure:
    """What :meth:`Task.joint_feature` returned, sparse; TaskError if it is not as it must be."""
    measure = _sparse(kinds, value, kind, n_parts, i)
    for name, index, n in (
        ("part", measure.parts, n_parts),
        ("channel", measure.channels, kinds[kind].n_channels),
    ):
        if len(index) and not (0 <= index.min() and index.max() < n):
            raise TaskError(
                f"joint_feature(X[{{sample}}], y) names a {name} outside 0..{n - 1} of {kind!r}.", i
            )
    if not np.isfinite(measure.values).all():
        raise TaskError(
            f"joint_feature(X[{{sample}}], y) has NaN or infinite weights for kind {kind!r}.", i
        )
    return measure


def _sparse(
    kinds: Mapping[str, PartKind], value: Any, kind: str, n_parts: int, i: int | None
) -> Measure:
    """The same, its ranges unchecked."""
    value = _of_kind(kinds, value, kind, i, "joint_feature")
    if not isinstance(value, tuple):
        dense = np.asarray(value, dtype=np.float64)
        shape = (n_parts, kinds[kind].n_channels)
        if dense.shape != shape:
            raise TaskError(
                f"joint_feature(X[{{sample}}], y) gave shape {dense.shape} for kind {kind!r}; "
                f"expected (n_parts, n_channels) = {shape}.",
                i,
            )
        parts, channels = np.nonzero(dense)
        return Measure(parts.astype(np.int64), channels.astype(np.int64), dense[parts, channels])
    if len(value) != 3:
        raise TaskError(
            f"joint_feature(X[{{sample}}], y) for kind {kind!r} is a tuple of {len(value)}; "
            "expected (parts, channels, values).",
            i,
        )
    parts = np.asarray(value[0], dtype=np.int64).ravel()
    channels = np.asarray(value[1], dtype=np.int64).ravel()
    values = np.asarray(value[2], dtype=np.float64).ravel()
    if not len(parts) == len(channels) == len(values):
        raise TaskError(
            f"joint_feature(X[{{sample}}], y) for kind {kind!r} has {len(parts)} parts, "
            f"{len(channels)} channels and {len(values)} values; give one of each per entry.",
            i,
        )
    return Measure(parts, channels, values)


def _joint_features(
    task: Task, X: Sequence[Any], outputs: Sequence[Any], offsets: Mapping[str, IntArray]
) -> dict[str, Measure]:
    """Joint features of one output per example, by kind; parts are rows of the stack.

    Ranges are checked for all examples at once: this runs in every pass.
    """
    sizes = {kind: np.diff(offsets[kind]).tolist() for kind in task.kinds}
    found: dict[str, list[Measure]] = {kind: [] for kind in task.kinds}
    for i, output in enumerate(outputs):
        value = on_example("joint_feature", i, task.joint_feature, X[i], output)
        for kind, of_kind in found.items():
            size = sizes[kind][i]
            of_kind.append(
                on_example("joint_feature", i, _sparse, task.kinds, value, kind, size, i)
            )
    return {
        kind: _stacked(task.kinds, kind, measures, offsets[kind])
        for kind, measures in found.items()
    }


def _stacked(
    kinds: Mapping[str, PartKind], kind: str, measures: Sequence[Measure], starts: IntArray
) -> Measure:
    """Measures of all examples in one, checked, its parts numbered in the stack."""
    parts, channels, values = (np.concatenate(column) for column in zip(*measures, strict=True))
    owners = np.repeat(np.arange(len(measures)), [len(m.parts) for m in measures])
    good = (parts >= 0) & (parts < np.diff(starts)[owners]) & np.isfinite(values)
    good &= (channels >= 0) & (channels < kinds[kind].n_channels)
    if not good.all():
        i = int(owners[np.argmin(good)])
        measure_of({kind: kinds[kind]}, tuple(measures[i]), kind, int(np.diff(starts)[i]), i)
    return Measure(parts + starts[owners], channels, values)


def _merged_difference(true: Measure, found: Measure, n_channels: int) -> Measure:
    """``true - found`` in the order of rows and channels, equal pairs merged, zeros left out."""
    both = true.append(Measure(found.parts, found.channels, -found.values))
    keys, where = np.unique(both.parts * n_channels + both.channels, return_inverse=True)
    values = np.bincount(where, weights=both.values, minlength=len(keys)).astype(np.float64)
    kept = np.flatnonzero(values)
    return Measure(keys[kept] // n_channels, keys[kept] % n_channels, values[kept])


def check_one_each(outputs: Sequence[Any], n_examples: int) -> None:
    """Raise TaskError unless :meth:`Task.argmax_batch` gave one output per example."""
    if len(outputs) != n_examples:
        raise TaskError(
            f"argmax_batch gave {len(outputs)} outputs for {n_examples} examples; give one for "
            "each."
        )


def check_loss(value: float, i: int) -> float:
    """The loss of example ``i``, checked to be finite and not negative."""
    if not np.isfinite(value) or value < 0:
        raise TaskError(
            f"loss(Y[{{sample}}], y_pred) is {value}; a loss must be finite and >= 0.", i
        )
    return value


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
