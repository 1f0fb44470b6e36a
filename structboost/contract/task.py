"""Contract of a structured prediction problem.

A few methods describe a problem to the library: the *parts* of an input, the signed weight that an
output puts on each part (its *joint feature*), the *loss* of a wrong output, and the output that
scores best (the *argmax*).  Everything else is the same for all problems: weak learners, masters
and the certificate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from itertools import takewhile
from typing import Any, ClassVar, Self

import numpy as np

from structboost._typing import AnyArray, FloatArray
from structboost.contract.listed_outputs import (
    KeptListings,
    Marginals,
    OutputCodes,
    listed_batch,
)
from structboost.contract.parts import (
    PartKind,
    SparseFeature,
    StackedParts,
    check_declared,
    of_kind,
    real_number,
    shaped_array,
    stack_parts,
)
from structboost.contract.separation import KeptTruth, Separation
from structboost.errors import TaskError, note_examples, on_example
from structboost.runtime.called_class import Described
from structboost.validation import shown

# Types of the arguments and results of the methods of a task.
__all__ = [
    "KeptTruth",
    "Marginals",
    "OutputCodes",
    "PartKind",
    "Separation",
    "SparseFeature",
    "StackedParts",
    "Task",
]


class Task(Described, ABC):
    """Base class of structured prediction problems.

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
        and nothing is certified.  :meth:`for_inputs` may change it for the inputs of a fit.
    reads_inputs : bool
        Whether the loss-augmented argmax and the joint feature read ``x`` besides the scores.  If
        False, ``x`` and ``X`` may be None, and inputs are not sent to the workers.
    separates_in_batches : bool
        Whether :meth:`separate` is compiled code that is proved to be exact.  Training then takes
        thousands of examples at a time, and does not compare outputs with earlier ones.  What is
        proved of a class does not hold for one that overrides its methods: subclasses that define
        any method have False, unless they set it themselves.
    labelled_kind : str or None
        Kind of the parts that outputs label (:meth:`part_labels`), where there is one.
    """

    kinds: Mapping[str, PartKind] = {"x": PartKind()}
    exact_argmax: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = True
    separates_in_batches: ClassVar[bool] = False
    labelled_kind: ClassVar[str | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Bases before the one that declares it.
        below = takewhile(lambda base: "separates_in_batches" not in vars(base), cls.__mro__)
        if any(map(_defines_methods, below)):
            cls.separates_in_batches = False

    @abstractmethod
    def parts(self, x: Any) -> Any:
        """Return the features of the parts of one input.

        Parameters
        ----------
        x : object
            One input, as the user of the task passes it.

        Returns
        -------
        features : ndarray, shape (n_parts, n_features), or dict of str to ndarray
            Real, finite numbers; by kind if the task has several kinds.  ``n_features`` is the same
            for all inputs, and at least 1; ``n_parts`` may differ.
        """

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> Any:
        """Return M(x, y), the signed weight that output ``y`` puts on each (part, channel).

        Parameters
        ----------
        x : object
            One input; may be None if ``reads_inputs`` is False.
        y : object
            A true output, or one that :meth:`argmax` returned.

        Returns
        -------
        weights : ndarray, shape (n_parts, n_channels), or (parts, channels, values)
            Finite numbers, dense or as three equally long arrays, where values of a repeated pair
            add up.  A dict of either by kind if the task has several kinds.
        """

    @abstractmethod
    def loss(self, y: Any, y_pred: Any) -> float:
        """Return the loss of predicting ``y_pred`` if ``y`` is true.

        Parameters
        ----------
        y : object
            The true output.
        y_pred : object
            An output that :meth:`predict` or :meth:`argmax` returned.

        Returns
        -------
        loss : float
            Finite, >= 0, and 0 for ``y`` itself.
        """

    def argmax(self, x: Any, scores: Any) -> Any:
        """Return the output with the highest score ``<M(x, .), scores>``.

        By default it is the best of :meth:`outputs`.

        A task that defines neither :meth:`loss_scores` nor :meth:`outputs` takes a third argument:
        ``argmax(x, scores, y=None)``.  If ``y`` is given, it maximises the score plus
        ``loss(y, .)`` (StructBoost, (12) with the sign put right).

        Parameters
        ----------
        x : object
            One input; may be None if ``reads_inputs`` is False.
        scores : ndarray, shape (n_parts, n_channels), or dict of str to ndarray
            Scores of its parts, by kind if there are several; the task must not change them.

        Returns
        -------
        y : object
            An output that :meth:`joint_feature` and :meth:`loss` take.  It is the best one if
            ``exact_argmax`` is True.

        Raises
        ------
        TaskError
            If the task defines neither ``argmax`` nor ``outputs``, or ``outputs(x)`` is empty.
        """
        return KeptListings().best(0, self, x, scores, lambda output: 0.0)

    # -- optional: a task may override the defaults below ------------------------------------

    def loss_scores(self, x: Any, y: Any) -> Any:
        """Return the loss as scores of the parts, if it is a sum over parts, else None.

        The library adds them to the scores, and :meth:`argmax` then needs no ``y``.

        Parameters
        ----------
        x : object
            One input; may be None if ``reads_inputs`` is False.
        y : object
            Its true output.

        Returns
        -------
        L : ndarray, shape (n_parts, n_channels), dict of str to ndarray, or None
            Finite numbers such that ``loss(y, z) = <M(x, z) - M(x, y), L>`` for every output z of
            ``x``.  Kinds without loss may be left out of a dict.
        """
        return None

    def outputs(self, x: Any) -> Iterable[Any] | None:
        """Iterate over all outputs of ``x``, or return None if they cannot be listed.

        :func:`structboost.check_task` compares the argmax with each of them, and a task without
        ``argmax`` chooses the best of them.

        Parameters
        ----------
        x : object
            One input; may be None if ``reads_inputs`` is False.

        Returns
        -------
        outputs : iterable or None
            Each output once, and at least one.  Among equally good outputs, the first is chosen.
        """
        return None

    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` is an output of ``x``, by default True.

        Only :func:`structboost.check_task` calls it.  It tries true outputs of other examples and
        random outputs on ``x``, and checks that the argmax returns outputs of ``x``.

        Parameters
        ----------
        x : object
            One input.
        y : object
            An object that may be an output of it, or of another input.

        Returns
        -------
        valid : bool
            False, rather than an error, where ``y`` is malformed.
        """
        return True

    def marginals(self, x: Any, scores: Any) -> Any:
        """Return the expected joint feature if an output has a probability ``~ exp(score)``.

        ``formulation="log"`` and ``predict_marginals`` need it.  By default it follows from
        :meth:`outputs`.

        Parameters
        ----------
        x : object
            One input.
        scores : ndarray, shape (n_parts, n_channels), or dict of str to ndarray
            Scores of its parts, by kind if there are several.

        Returns
        -------
        expected : ndarray, shape (n_parts, n_channels), or dict of str to ndarray
            If joint features are indicators, the probability of each (part, channel).

        Raises
        ------
        TaskError
            If the task defines neither ``marginals`` nor ``outputs``.
        TooManyOutputsError
            If it lists too many outputs to sum over.
        """
        expected, _ = KeptListings().marginals(0, self, x, scores)
        return expected if len(self.kinds) > 1 else next(iter(expected.values()))

    def log_sum(self, x: Any, scores: Any) -> float:
        """Return the logarithm of the sum of ``exp(score)`` over all outputs.

        By default it follows from :meth:`outputs`.  Its gradient is :meth:`marginals`, so a task
        overrides both or neither.

        Parameters
        ----------
        x, scores
            As for :meth:`marginals`.

        Returns
        -------
        log_sum : float
            A finite number.

        Raises
        ------
        TaskError
            If the task defines neither ``log_sum`` nor ``outputs``.
        TooManyOutputsError
            If it lists too many outputs to sum over.
        """
        return KeptListings().marginals(0, self, x, scores)[1]

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Return :meth:`marginals` and :meth:`log_sum` of all examples.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs.
        scores : StackedParts
            Scores of the parts of all of them.

        Returns
        -------
        marginals : Marginals
            Expected joint features in the shapes of ``scores.rows``, and a finite sum per example.

        Raises
        ------
        TaskError
            If the task has no marginals, or they are malformed.
        TooManyOutputsError
            If an example has too many outputs to sum over.
        """
        if not self.defines("marginals", "log_sum"):
            return listed_batch(self, X, scores, scores.memo and scores.memo.listings)
        expected: dict[str, list[FloatArray]] = {kind: [] for kind in self.kinds}
        log_sums = np.empty(len(X))
        for i, x in enumerate(X):
            rows = scores.example(i)
            means = on_example("marginals", i, self.marginals, x, rows)
            log_sum = on_example("log_sum", i, self.log_sum, x, rows)
            log_sums[i] = real_number(log_sum, "log_sum(X[{sample}], scores)", i)
            for kind, blocks in expected.items():
                of_parts = of_kind(self.kinds, means, kind, i, "marginals")
                shape = (scores.sizes(kind)[i], self.kinds[kind].n_channels)
                blocks.append(
                    shaped_array(of_parts, shape, "marginals(X[{sample}], scores)", i, kind)
                )
        return Marginals(
            {kind: np.concatenate(blocks) for kind, blocks in expected.items()}, log_sums
        )

    def log_sums_batch(self, X: Sequence[Any], scores: StackedParts) -> FloatArray:
        """Return :meth:`log_sum` of all examples, where their marginals are not needed.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs.
        scores : StackedParts
            Scores of the parts of all of them.

        Returns
        -------
        log_sums : ndarray, shape (n_examples,)

        Raises
        ------
        TaskError, TooManyOutputsError
            As :meth:`marginals_batch` does.
        """
        return self.marginals_batch(X, scores).log_sums

    def part_labels(self, x: Any, y: Any) -> AnyArray:
        """Return the labels that output ``y`` gives to the parts of :attr:`labelled_kind`.

        :class:`structboost.CrossFitted` trains a classifier of the parts on them.

        Parameters
        ----------
        x : object
            One input.
        y : object
            Its true output.

        Returns
        -------
        labels : ndarray of int, shape (n_parts,) or (n_parts, n_labels)
            A label for each part, negative where it is unknown; or 0 and 1 for each label.

        Raises
        ------
        TaskError
            Unless the task overrides it.
        """
        raise _lacks(self, "part_labels(x, y)")

    def with_features(self, x: Any, features: Any) -> Any:
        """Return the input ``x`` with other features of the parts of :attr:`labelled_kind`.

        Parameters
        ----------
        x : object
            One input.
        features : ndarray, shape (n_parts, n_features)
            The other features, in the order of :meth:`parts`.

        Returns
        -------
        x : object
            A new input; the argument must not change.

        Raises
        ------
        TaskError
            Unless the task overrides it.
        """
        raise _lacks(self, "with_features(x, features)")

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """Return the codes of all outputs, and the indices of the true ones.

        Exponential formulations need them.  All examples share one list of outputs, which are few.

        Parameters
        ----------
        Y : sequence, shape (n_examples,)
            True outputs.

        Returns
        -------
        codes : OutputCodes
            Codes, true outputs and losses.

        Raises
        ------
        TaskError
            Unless the task overrides it.
        """
        raise _lacks(self, "codes(Y)")

    def gains(self, Y: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        """Return the gain of each part at the first rank, and its weight.

        Stage-wise ranking needs them, where outputs are orders of the parts.

        Parameters
        ----------
        Y : sequence, shape (n_examples,)
            True outputs.

        Returns
        -------
        gains, weights : ndarray, shape (n_parts,)
            Values of the parts of all examples, one after the other, without a unit.

        Raises
        ------
        TaskError
            Unless the task overrides it.
        """
        raise _lacks(self, "gains(Y)")

    def separate_slacks(
        self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, limit: int
    ) -> Separation:
        """Find violated outputs with a slack for each, where a loss is a sum of hinges.

        The m-slack form (StructBoost, (14)) then has one slack for each hinge, such as one for each
        pair of a ranking; that of other tasks has one for each example.

        Parameters
        ----------
        X, Y, scores
            As for :meth:`separate`.
        limit : int
            Approximate maximum number of outputs.

        Returns
        -------
        separation : Separation
            Its ``slacks`` and ``weights`` are set where an example has several slacks.

        Raises
        ------
        TaskError
            Unless the task overrides it.
        """
        raise _lacks(self, "separate_slacks(X, Y, scores, limit)")

    def predict(self, x: Any, scores: Any) -> Any:
        """Return the prediction for ``x`` that a user of the model gets, by default the argmax.

        Parameters
        ----------
        x, scores
            As for :meth:`argmax`.

        Returns
        -------
        y_pred : object
            A prediction that :meth:`loss` takes.
        """
        return self.argmax(x, scores)

    def predict_batch(self, X: Sequence[Any], scores: StackedParts) -> Sequence[Any]:
        """Return the prediction for every input.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs.
        scores : StackedParts
            Scores of the parts of all of them.

        Returns
        -------
        outputs : sequence, shape (n_examples,)
            One prediction per example.
        """
        if not self.defines("predict"):
            return self.argmax_batch(X, scores)
        return [
            on_example("predict", i, self.predict, x, scores.example(i)) for i, x in enumerate(X)
        ]

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """Return the features of the parts of all inputs.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs, at least one.

        Returns
        -------
        parts : StackedParts
            Features of the parts of all inputs, in their order.

        Raises
        ------
        TaskError
            If ``X`` is empty, or the parts of an input are malformed; the message names the input.
        """
        parts = [on_example("parts", i, self.parts, x) for i, x in enumerate(X)]
        return stack_parts(self.kinds, parts)

    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Return the best output of every example.

        A task with :meth:`loss_scores` never gets ``Y``, because its scores are already augmented.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs; each is None where training does not need them (``reads_inputs``).
        scores : StackedParts
            Scores of the parts of all of them.
        Y : sequence, shape (n_examples,), optional
            True outputs.  If given, the score of each output of example i is augmented by
            ``loss(Y[i], .)``.

        Returns
        -------
        outputs : sequence, shape (n_examples,)
            One output per example.
        """
        outputs, i = [], 0
        try:
            for i, x in enumerate(X):
                rows = scores.example(i)
                outputs.append(
                    self.argmax(x, rows) if Y is None else self.augmented_argmax(x, rows, Y[i])
                )
        except Exception as error:
            note_examples(error, "argmax", i, i)
            raise
        return outputs

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Find the most violated output of each example, by the loss-augmented argmax.

        By default it follows from :meth:`argmax_batch`.  Every hinge master calls it, with the
        scores of the whole training set or of a block of it.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs; may be None if ``reads_inputs`` is False.
        Y : sequence, shape (n_examples,)
            True outputs.
        scores : StackedParts
            Scores of the parts of all examples.

        Returns
        -------
        separation : Separation
            The output of each example that maximises its loss plus its score.

        Raises
        ------
        TaskError
            If an output, a loss or a joint feature is malformed; the message names the example.
        """
        inputs: Sequence[Any] = [None] * len(Y) if X is None or not self.reads_inputs else X
        # The memo of the scores, if there is one, caches the joint features of the truth.
        truth: KeptTruth = scores.memo or KeptTruth()
        added = truth.loss_scores(self, inputs, Y, scores.offsets)
        # An argmax in Python is faster if the scores of a part are contiguous.
        rows = {
            kind: np.ascontiguousarray(row + added[kind] if added and kind in added else row)
            for kind, row in scores.rows.items()
        }
        augmented = StackedParts(rows, scores.offsets)
        if self.is_enumerated:
            outputs: Sequence[Any] = truth.best_listed(self, inputs, Y, augmented)
        elif added is None:
            outputs = self.argmax_batch(inputs, augmented, Y)
        else:
            outputs = self.argmax_batch(inputs, augmented)
        return Separation.from_outputs(self, inputs, Y, outputs, scores.offsets, truth)

    def for_inputs(self, X: Sequence[Any]) -> Self:
        """Return the task that is trained on these inputs, by default itself.

        Where the argmax is exact for some inputs only, a task sets ``exact_argmax`` to False.  It
        may override this method, and return a copy with True if it is exact for all of ``X``.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs whose parts were read without an error.

        Returns
        -------
        task : Task
            Of the same class.
        """
        return self

    # -- derived from the methods above ------------------------------------------------------

    @property
    def is_enumerated(self) -> bool:
        """Whether the default methods find the argmax among :meth:`outputs`."""
        return not self.defines("argmax", "argmax_batch", "augmented_argmax")

    @classmethod
    def defines(cls, *methods: str) -> bool:
        """Whether the class overrides any of these methods of :class:`Task`.

        Only this method makes that test.  For a method that is not overridden, the library may use
        a shortcut that is faster than a call for each example.

        Parameters
        ----------
        *methods : str
            Names of methods of a task.
        """
        return any(getattr(cls, name) is not getattr(Task, name) for name in methods)

    def augmented_argmax(self, x: Any, scores: Any, y: Any) -> Any:
        """Return the output with the highest sum of score and ``loss(y, .)``.

        Parameters
        ----------
        x, scores
            As for :meth:`argmax`.
        y : object
            The true output of ``x``.

        Returns
        -------
        y_pred : object
            The most violated output.

        Raises
        ------
        TaskError
            If neither :meth:`argmax` nor :meth:`loss_scores` takes the loss into account.
        """
        added = self.loss_scores(x, y)
        if added is not None:
            return self.argmax(x, _plus(scores, added))
        if not self.defines("argmax"):
            return KeptListings().best(
                0,
                self,
                x,
                scores,
                lambda output: real_number(self.loss(y, output), "loss(Y[{sample}], y_pred)"),
            )
        try:
            return self.argmax(x, scores, y)  # type: ignore[call-arg]
        except TypeError as error:
            if _takes(self.argmax, 3):
                raise
            raise TaskError(
                "argmax takes no true output, and loss_scores gives none: define loss_scores(x, y) "
                "where the loss adds to the scores of parts, or argmax(x, scores, y=None), which "
                "adds loss(y, output) if y is given."
            ) from error


def check_is_task(task: Any) -> None:
    """Raise TypeError unless ``task`` is a :class:`Task`, TaskError if its kinds are malformed."""
    if not isinstance(task, Task):
        is_class = isinstance(task, type) and issubclass(task, Task)
        remedy = f", such as {task.__name__}(...)" if is_class else ""
        raise TypeError(f"task is {shown(task)}; give an instance of a subclass of Task{remedy}.")
    check_declared(getattr(task, "kinds", None))


def _lacks(task: Task, method: str) -> TaskError:
    return TaskError(
        f"{type(task).__name__} has no {method}, which this formulation needs; define it, or use "
        "formulation='one_slack'."
    )


def _defines_methods(cls: type) -> bool:
    """Whether a class defines a method or a property, other than those of Python itself."""
    return any(
        callable(value) or hasattr(value, "__get__")
        for name, value in vars(cls).items()
        if not name.startswith("__")
    )


def _takes(method: Callable[..., Any], n_arguments: int) -> bool:
    """Whether a method accepts this number of arguments."""
    try:
        signature(method).bind(*range(n_arguments))
    except TypeError:
        return False
    return True


def _plus(scores: Any, added: Any) -> Any:
    """Add scores of one example, by kind if there are several."""
    if not isinstance(scores, Mapping):
        return scores + (next(iter(added.values())) if isinstance(added, Mapping) else added)
    return {**scores, **{kind: scores[kind] + rows for kind, rows in added.items()}}
