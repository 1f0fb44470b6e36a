"""Contract of a structured prediction problem.

A few methods describe a problem to the library: the *parts* of an input, the signed weight that an
output puts on each part (its *joint feature*), the *loss* of a wrong output, and the output that
scores best (the *argmax*).  Everything else is the same for all problems: weak learners, masters
and the certificate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Self

from structboost._typing import AnyArray, Examples, FloatArray
from structboost.contract.parts import (
    Kinds,
    Marginals,
    OutputCodes,
    PartKind,
    SparseFeature,
    StackedParts,
    check_declared,
    stack_parts,
)
from structboost.errors import TaskError, on_example
from structboost.runtime.called_class import Described
from structboost.validation import shown

# Types of the arguments and results of the methods of a task.
__all__ = [
    "Batches",
    "Decomposes",
    "Lists",
    "Marginals",
    "OutputCodes",
    "PartKind",
    "Predicts",
    "Searches",
    "Separates",
    "SeparatesSlacks",
    "SparseFeature",
    "StackedParts",
    "Sums",
    "SumsBatches",
    "Task",
    "Validates",
]


class Capability(ABC):  # noqa: B024
    """Methods that a task may have.

    A class that has them is a subclass, whether or not it names this class as a base.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """Look for the methods, unless ``cls`` is a task."""
        if Capability not in cls.__bases__:
            return NotImplemented
        return all(callable(getattr(other, name, None)) for name in cls.__abstractmethods__)


class Searches(Capability):
    """Search for the best output, by all tasks that do not list theirs."""

    @abstractmethod
    def argmax(self, x: Any, scores: Any) -> Any:
        """Return the output with the highest score ``<M(x, .), scores>``.

        A task that has neither ``loss_scores`` nor ``outputs`` takes a third argument:
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
            An output that ``joint_feature`` and ``loss`` take.  It is the best one if
            ``exact_argmax`` is True.
        """


class Decomposes(Capability):
    """Loss that is a sum over parts."""

    @abstractmethod
    def loss_scores(self, x: Any, y: Any) -> Any:
        """Return the loss as scores of the parts.

        The library adds them to the scores, and ``argmax`` then needs no ``y``.

        Parameters
        ----------
        x : object
            One input; may be None if ``reads_inputs`` is False.
        y : object
            Its true output.

        Returns
        -------
        L : ndarray, shape (n_parts, n_channels), or dict of str to ndarray
            Finite numbers such that ``loss(y, z) = <M(x, z) - M(x, y), L>`` for every output z of
            ``x``.  Kinds without loss may be left out of a dict.
        """


class Lists(Capability):
    """List of all outputs, where they are few."""

    @abstractmethod
    def outputs(self, x: Any) -> Iterable[Any]:
        """Iterate over all outputs of ``x``.

        :func:`structboost.check_task` compares the argmax with each of them, and a task without
        ``argmax`` chooses the best of them.

        Parameters
        ----------
        x : object
            One input; may be None if ``reads_inputs`` is False.

        Returns
        -------
        outputs : iterable
            Each output once, and at least one.  Among equally good outputs, the first is chosen.
        """


class Sums(Capability):
    """Sums over all outputs, for likelihoods."""

    @abstractmethod
    def marginals(self, x: Any, scores: Any) -> Any:
        """Return the expected joint feature if an output has a probability ``~ exp(score)``.

        ``formulation="log"`` and ``predict_marginals`` need it.  Where a task only lists its
        outputs, it follows from these.

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
        """

    @abstractmethod
    def log_sum(self, x: Any, scores: Any) -> float:
        """Return the logarithm of the sum of ``exp(score)`` over all outputs.

        Its gradient is :meth:`marginals`.

        Parameters
        ----------
        x, scores
            As for :meth:`marginals`.

        Returns
        -------
        log_sum : float
            A finite number.
        """


class Batches(Capability):
    """Search for the best outputs of many examples at once."""

    @abstractmethod
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> Sequence[Any]:
        """Return the best output of every example.

        A task with ``loss_scores`` never gets ``Y``, because its scores are already augmented.

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


class Separates(Capability):
    """Search for the most violated outputs, with their losses and joint features."""

    @abstractmethod
    def separate(self, X: Examples, Y: Examples, scores: StackedParts) -> Any:
        """Find the most violated output of each example, by the loss-augmented argmax.

        Every hinge master calls it, with the scores of the whole training set or of a block of it.
        For other tasks it follows from the argmax, as
        :func:`structboost.contract.separation.separate_by_argmax` does.

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


class SumsBatches(Capability):
    """Sums over all outputs of many examples at once."""

    @abstractmethod
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        """Return ``marginals`` and ``log_sum`` of all examples.

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
            If they are malformed.
        TooManyOutputsError
            If an example has too many outputs to sum over.
        """

    @abstractmethod
    def log_sums_batch(self, X: Examples, scores: StackedParts) -> FloatArray:
        """Return ``log_sum`` of all examples, where their marginals are not needed.

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


class SeparatesSlacks(Capability):
    """Search for violated outputs of each slack."""

    @abstractmethod
    def separate_slacks(self, X: Examples, Y: Examples, scores: StackedParts, limit: int) -> Any:
        """Find violated outputs with a slack for each, where a loss is a sum of hinges.

        The m-slack form (StructBoost, (14)) then has one slack for each hinge, such as one for each
        pair of a ranking; that of other tasks has one for each example.

        Parameters
        ----------
        X, Y, scores
            As for :meth:`Separates.separate`.
        limit : int
            Approximate maximum number of outputs.

        Returns
        -------
        separation : Separation
            Its ``slacks`` and ``weights`` are set where an example has several slacks.
        """


class Validates(Capability):
    """Test of outputs, for :func:`structboost.check_task`."""

    @abstractmethod
    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` is an output of ``x``.

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


class Predicts(Capability):
    """Prediction that is not the best output."""

    @abstractmethod
    def predict(self, x: Any, scores: Any) -> Any:
        """Return the prediction for ``x`` that a user of the model gets.

        Parameters
        ----------
        x, scores
            As for :meth:`Searches.argmax`.

        Returns
        -------
        y_pred : object
            A prediction that ``loss`` takes.
        """


class Task(Described, ABC):
    """Base class of structured prediction problems.

    A subclass defines :meth:`parts`, :meth:`joint_feature`, :meth:`loss` and
    :meth:`~Searches.argmax`, one example at a time, on plain arrays.  What else it can do, it shows
    by further methods, those of :class:`Decomposes`, :class:`Lists`, :class:`Sums`,
    :class:`Batches`, :class:`Separates` or :class:`SumsBatches`, whether or not it names these
    classes as bases.  Instances must be picklable, and every method a pure function of its
    arguments.

    Attributes
    ----------
    kinds : dict of str to PartKind
        The kinds of parts; tasks whose kinds depend on parameters set it in ``__init__``.
    exact_argmax : bool
        Whether :meth:`~Searches.argmax` always finds the best output.  If False, primal values are
        estimates and nothing is certified.  :meth:`for_inputs` may change it for the inputs of a
        fit.
    reads_inputs : bool
        Whether the loss-augmented argmax and the joint feature read ``x`` besides the scores.  If
        False, ``x`` and ``X`` may be None, and inputs are not sent to the workers.
    separates_in_batches : bool
        Whether :meth:`~Separates.separate` is compiled code that is proved to be exact.  Training
        then takes thousands of examples at a time, and does not compare outputs with earlier ones.
        What is proved of a class does not hold for others: subclasses have False, unless they set
        it themselves.
    labelled_kind : str or None
        Kind of the parts that outputs label (:meth:`part_labels`), where there is one.
    """

    kinds: Kinds = {"x": PartKind()}
    exact_argmax: bool = True
    reads_inputs: bool = True
    separates_in_batches: bool = False
    labelled_kind: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.separates_in_batches = vars(cls).get("separates_in_batches", False)

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
            A true output, or one that :meth:`~Searches.argmax` returned.

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
            A prediction, or an output of the argmax.

        Returns
        -------
        loss : float
            Finite, >= 0, and 0 for ``y`` itself.
        """

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

    def codes(self, Y: Examples) -> OutputCodes:
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

    def gains(self, Y: Examples) -> tuple[FloatArray, FloatArray]:
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

    def stack(self, X: Examples) -> StackedParts:
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

    def for_inputs(self, X: Examples) -> Self:
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


def checked_task(task: Any) -> Task:
    """Return a task, or raise TypeError if it is none, TaskError if its kinds are malformed."""
    if not isinstance(task, Task):
        is_class = isinstance(task, type) and issubclass(task, Task)
        raise TypeError(
            f"task is {shown(task)}; give an instance of a subclass of Task, such as "
            f"{task.__name__ if is_class else 'MulticlassTask'}(...)."
        )
    check_declared(getattr(task, "kinds", None))
    return task


def _lacks(task: Task, method: str) -> TaskError:
    return TaskError(
        f"{type(task).__name__} has no {method}, which this formulation needs; define it, or use "
        "formulation='one_slack'."
    )


def is_enumerated(task: Task) -> bool:
    """Whether the argmax is the best of the listed outputs."""
    return not isinstance(task, Searches | Batches)
