"""Base class of all trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from structboost._typing import Examples, Facts, PathName, override
from structboost.contract.calls import check_truths, mean_loss
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task, checked_task
from structboost.errors import ModelFileError, TaskError
from structboost.files.archive import DamagedFileError, SavedToFile
from structboost.model.ensemble import (
    FORMAT,
    Ensemble,
    model_marginals,
    model_predictions,
    model_scores,
    read_model,
)
from structboost.objectives.master import saved_temperature
from structboost.runtime.column_names import are_labels, by_name, labels_of, plain_labels
from structboost.training.history import Record, coverage_in_words, ending_in_words, fit_in_words
from structboost.validation import (
    by_position,
    check_examples,
    checked_regularisation,
    checked_weights,
    frame_of,
    shown,
)


class Trainer(SavedToFile, BaseEstimator):
    """Base of trainers, whose fitted model is an :class:`structboost.Ensemble`.

    A subclass decorates its ``fit`` with :func:`structboost.runtime.fitted_state.committed`.

    Attributes
    ----------
    model_ : Ensemble
        The fitted model.
    history_ : list of dict
        One record per round.
    objective_ : float
        Primal objective of the model.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    ending_ : str
        Reason why the fit ended (:class:`structboost.training.history.State`).
    C_ : float
        The C of the model, from the parameter or from a choice on held-out data.
    columns_ : list of str or int, or None
        Labels of the columns, if ``X`` was a data frame with labels.  The columns of later frames
        are put in this order.
    """

    task: Task
    C: Any
    tol: float
    model_: Ensemble
    history_: list[Record]
    objective_: float
    interrupted_: bool
    ending_: str
    C_: float
    columns_: list[Any] | None = None

    # Whether weak learners are boosted, of which some other trainers fit one.
    boosts = False
    # How an estimator calls what is minimised; empty for the name of the formulation.
    _objective = ""
    # Whether KeyboardInterrupt takes the place of a model that Ctrl-C left incomplete.
    _keeps_only_whole = False

    @override
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text, words = super().__repr__(N_CHAR_MAX), self._fit_in_words()
        return f"{text}  # {words}" if words else text

    @property
    def _shares_work(self) -> bool:
        """Whether several workers share the work of a fit."""
        return False

    def _fit_in_words(self) -> str:
        """Describe the fit, or return an empty text before it."""
        if "model_" not in vars(self):
            return ""
        name = self._objective or str(self.model_.metadata.get("formulation", ""))
        return fit_in_words(self, name, len(self.history_))

    @property
    def ending_text_(self) -> str:
        """Sentence that explains why the fit ended."""
        self._fitted()
        return ending_in_words(self.ending_)

    @property
    def gap_text_(self) -> str:
        """Names of the weak learners that the last gap covers, empty without a gap."""
        self._fitted()
        return coverage_in_words(self.history_)

    def scores(self, X: Examples) -> StackedParts:
        """Return the scores of all parts of all inputs.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs, at least one.

        Returns
        -------
        scores : StackedParts
            Rows of shape (n_rows, n_channels), by kind.

        Raises
        ------
        NotFittedError
            If the trainer is not fitted yet.
        ValueError, TypeError
            If ``X`` is empty or not a sequence, parts have another number of features than in
            training, or a data frame other columns.
        TaskError
            If the entries of ``X`` are not inputs of the task.
        """
        self._fitted()
        return self._scores(self._inputs(X))

    def _scores(self, X: Examples) -> StackedParts:
        """Return the scores of inputs as training had them."""
        return model_scores(self.task, self.model_, X)

    def predict(self, X: Examples) -> list[Any]:
        """Return the best output of each input.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs, at least one.

        Returns
        -------
        outputs : list, shape (n_examples,)
            Result of :meth:`structboost.Task.predict` for each input.

        Raises
        ------
        NotFittedError, ValueError, TypeError, TaskError
            As :meth:`scores` does.
        """
        return model_predictions(self.task, self._fitted(), self._inputs(X))

    def predict_marginals(self, X: Examples) -> list[Any]:
        """Return the marginals of each input, which are probabilities of its parts.

        An output has the probability ``~ exp(score)``, which likelihoods fit.  Scores are first
        multiplied by the temperature of the model, if it has one.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs, at least one.

        Returns
        -------
        marginals : list, shape (n_examples,)
            The expected joint feature of each input (:class:`structboost.contract.Sums`), as an
            array of shape (n_parts, n_channels), or a dict of such arrays by kind if there are
            several.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As :meth:`scores` does.
        TaskError
            If the task has no marginals, or the entries of ``X`` are not inputs of it.
        """
        model = self._fitted()
        factor = saved_temperature(model.metadata) or 1.0
        return model_marginals(self.task, model, self._inputs(X), factor)

    def score(self, X: Examples, Y: Examples, sample_weight: Any = None) -> float:
        """Return minus the mean loss of the predictions, so larger is better.

        Parameters
        ----------
        X, Y : sequences
            Inputs, and their true outputs.
        sample_weight : array-like, shape (n_examples,), optional
            Weight of each example in the mean.

        Returns
        -------
        score : float
            At most 0.

        Raises
        ------
        ValueError
            If lengths differ or weights are out of their range, and as :meth:`predict` does.
        """
        model, X, Y = self._fitted(), self._inputs(X), by_position(Y)
        check_examples(X, Y)
        weights = None if sample_weight is None else checked_weights(sample_weight, len(Y))
        outputs = model_predictions(self.task, model, X)
        check_truths(self.task, X, Y)
        return -mean_loss(self.task, Y, outputs, weights)

    @override
    def save(self, path: PathName) -> None:
        self._fitted().save(path)

    @classmethod
    def load(cls, path: PathName, task: Task | None = None) -> Self:
        """Read a model that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The file.
        task : Task
            A task with the same kinds of parts as in training, which no file holds; required.

        Returns
        -------
        trainer : Trainer
            A trainer with the model, history and parameters of the file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If :meth:`save` of this class did not write it, it is damaged, or is of another version.
        TypeError, TaskError
            If ``task`` is no task, or has other kinds of parts.
        """
        task = checked_task(task)
        model = read_model(path)
        trainer = model.metadata.get("trainer")
        if "history" not in model.metadata or trainer not in [of.__name__ for of in cls.__mro__]:
            raise ModelFileError(f"{path} was not written by {cls.__name__}.save.")
        if dict(model.kinds) != dict(task.kinds):
            raise TaskError(
                f"The model in {path} has the kinds {dict(model.kinds)}, the task "
                f"{dict(task.kinds)}."
            )
        with FORMAT.damage(path):
            return cls.from_model(model, task)

    @classmethod
    def from_model(cls, model: Ensemble, task: Task) -> Self:
        """Make a fitted trainer from a model and the task that it was trained on.

        Parameters
        ----------
        model : Ensemble
            The ``model_`` of a trainer.
        task : Task
            A task with the same kinds of parts as in training, which is not checked.

        Returns
        -------
        trainer : Trainer
            A trainer with the history and parameters in the metadata of the model.
        """
        facts = model.metadata
        trainer = cls(task, **cls._parameters_in(facts))
        trainer.model_ = model
        trainer.history_ = list(facts["history"])
        trainer.objective_ = float(facts["objective"])
        trainer.interrupted_ = bool(facts.get("interrupted", False))
        trainer.ending_ = str(facts.get("ending", ""))
        trainer.C_ = float(facts["C"])
        trainer._keep_columns(facts.get("columns"))
        return trainer

    @classmethod
    def _parameters_in(cls, facts: Facts) -> dict[str, Any]:
        """Return the parameters in the metadata of a model."""
        return {"C": facts["C"]}

    def _keep_columns(self, labels: Any) -> None:
        """Keep the labels of columns, if there are any."""
        if labels is not None:
            if not isinstance(labels, list) or not are_labels(labels):
                raise DamagedFileError(f"its columns have the labels {shown(labels)}")
            self.columns_ = labels

    def _training_inputs(self, X: Examples) -> Any:
        """Return the inputs of a fit by position, and keep the labels of a data frame."""
        if frame_of(X) is not None:
            self._keep_columns(plain_labels(labels_of(X)))
        return by_position(X)

    def _inputs(self, X: Examples) -> Any:
        """Return later inputs by position, with the columns of a data frame as in training."""
        if frame_of(X) is None:
            X = by_position(X)
            if self.columns_ is None:
                return X
        return by_position(by_name(X, self.columns_, "X", type(self).__name__))

    def _fitted(self) -> Ensemble:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet; call fit(X, Y) first."
            )
        return self.model_


def iterated_Cs(
    Cs: Any, check: Callable[[Any, str], Any] = checked_regularisation
) -> Iterator[Any]:
    """Iterate over the values of C of a path, each after a check that it is a number above 0."""
    is_list = hasattr(Cs, "__iter__") and getattr(Cs, "ndim", 1) != 0
    if isinstance(Cs, str | bytes | Mapping | type) or not is_list:
        raise TypeError(f"Cs is {shown(Cs)}; give a list of numbers above 0.")
    for i, C in enumerate(Cs):
        check(C, f"Cs[{i}]")
        yield C
