"""Trainer of structured prediction by column generation, with a certificate (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from math import inf
from typing import Any, Self

from structboost._typing import Examples, Facts, PathName, override
from structboost.contract.calls import warn_of_one_output
from structboost.contract.task import Task, checked_task
from structboost.learners.pricing import Pricing, PricingRule
from structboost.learners.registry import WeakLearners, alternatives, works_in_threads
from structboost.model.ensemble import Ensemble, model_predictions
from structboost.objectives.base import FORMULATIONS, Formulation, FormulationName, formulation_of
from structboost.objectives.master import saved_temperature
from structboost.objectives.values import trainer_of_objective
from structboost.progress import Progress, ProgressBar
from structboost.runtime.called_class import names_calls
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.fitted_state import committed, fitted_attributes, unfitted_copy
from structboost.runtime.interrupts import deferred_interrupts
from structboost.selection.folds import Fold, random_folds
from structboost.selection.held_out import Score
from structboost.training.choice_of_c import choose_C, warn_of_empty_models
from structboost.training.engines import Engine, EngineName, engine_of, warn_of_idle_jobs
from structboost.training.examples import is_in_memory
from structboost.training.history import (
    Record,
    ending_in_words,
    warn_of_interruption,
    warn_of_open_gap,
)
from structboost.training.loop import Loop
from structboost.training.plan import Plan
from structboost.training.trainer import Trainer, iterated_Cs
from structboost.validation import (
    AUTO,
    by_position,
    check_declares,
    check_examples,
    check_parameters,
    checked_callbacks,
    is_text,
    shown,
)

# C by which the formulation of a path over C is chosen: most of its time is spent at larger ones.
_TYPICAL_C = 100.0

Callback = Callable[[Mapping[str, Any], "StructBoost"], Any]


@names_calls
@dataclass(eq=False, repr=False)
class StructBoost(Trainer):
    """Trainer of structured prediction by boosting, with a bound on the distance to the optimum.

    Minimises ``sum(w) + C/m sum_i max_y [Delta(y_i, y) - w'(Psi(x_i, y_i) - Psi(x_i, y))]`` over
    ``w >= 0`` and over a family of weak learners (StructBoost, (3) and (9)).

    Parameters
    ----------
    task : Task
        The problem, with parts, joint feature, loss and argmax.
    C : float, "auto" or None
        Weight of the training loss against the l1 norm of the weights.  Infinity requires a
        formulation that takes it, as the exponential, the logistic and the stage-wise ones
        do.  ``"auto"`` chooses the best C on held-out examples, by coarse fits along a path, and
        then trains on all examples (docs/decisions.md); it requires ``can_choose_C``.  If
        one family of a union is clearly better alone, it replaces the union, and gap and bound are
        those of that family.  None means ``"auto"``, as with classifiers.
    tol : float
        Relative gap ``(primal - bound) / primal``, below 1, at which training stops.  With 0 it
        stops only when pricing finds no more columns.  Families that price by search (trees,
        perceptron, SVM, LDA) have no bound.  Training then stops when the primal fell by less than
        this fraction over 20 rounds, or when three rounds in a row had no violated column.
    max_rounds : int
        Maximum number of rounds of column generation.
    weak_learner : str, callable, list of these, or dict of these by kind
        Family of weak learners: "stump", "linear", "tree", "perceptron", "svm", "lda", "feature",
        or a callable that makes the family from the training parts, as
        :class:`structboost.learners.StumpFamily` does
        (:func:`structboost.learners.register_weak_learner`). With trees the objective of
        "one_slack" has a ridge (:class:`structboost.objectives.OneSlack`). A list is the union of
        families, as ``["linear", "stump"]``.  A dict has the families of each kind of part:
        ``{"token": ["linear", "stump"], "transition": "stump"}``.
    formulation : {"auto", "one_slack", "m_slack", "exponential", "log"} or Formulation
        The restricted master.  ``"one_slack"`` and ``"m_slack"`` minimise the hinge loss and have
        the same optimum (Theorem 2.1), and ``"auto"`` takes the faster one
        (:class:`structboost.objectives.HingeBySize`).  ``OneSlack(stabilize=False)`` is
        Algorithm 2 as printed.  ``"exponential"`` minimises the exponential
        loss over all outputs (:class:`structboost.objectives.Exponential`), and ``"log"`` maximises
        the conditional likelihood (:class:`structboost.objectives.ConditionalLikelihood`).
    objective : {"hinge", "svm", "exponential", "l1_log_loss"}, Objective or None
        An objective with parameters of its own, which take the place of those of the trainer, as
        ``Hinge(C=10)`` of :class:`structboost.objectives.Hinge`.  ``SVM()``, and ``LogLoss()`` with
        ``weak_learner="linear"``, fit one linear function instead of boosting.
    exact : bool or None
        Whether stumps are searched over all distinct thresholds, or over at most 255 per feature.
        None (default) means all, if there are at most 20,000 parts.  The bound of the optimum
        holds for the stumps that are searched.
    pricing : {"own", "best"} or PricingRule
        Whether each channel has separate weak learners, or all channels share them.
    columns_per_channel : int
        Maximum number of columns added per channel and round, each on another feature.
    spread : float
        If positive, training ends by exchanging the weights for ones of small Euclidean norm within
        this relative gap, which must be above ``tol``: similar columns then share the weight, which
        usually lowers the test error.  Without a bound, the primal rises by at most this fraction.
        Requires a formulation whose master has ``spread``, as the stabilised 1-slack form does.
    random_state : int, RandomState or None
        Seed for randomised weak learners (stumps use none), and for the parts that are held out to
        choose C.  With None, these parts are the same in each fit.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Engine of computations on the training set, which does not change the result.
        ``"processes"`` is for tasks whose argmax is Python, ``"dask"`` uses the current
        :class:`distributed.Client`; only formulations that declare ``works_on_shards``
        ("one_slack", NormBoundedHinge) support them.
    n_jobs : int or None
        Number of threads or processes.  None means 1, or the value of ``joblib.parallel_config``;
        -1 means all cores.  Formulations that do not declare ``works_on_shards`` use them for
        stumps only, and warn elsewhere.
    checkpoint : str or path, optional
        File to write the run to once per minute.  If it exists, :meth:`fit` resumes; the result is
        identical to an uninterrupted run.  It must be of the same data and parameters, but
        ``max_rounds`` may be larger than before.  With ``C="auto"`` it is that of the last fit.
        Requires plug-ins that declare ``can_resume``, as the stabilised 1-slack form,
        :class:`structboost.objectives.Exponential`, stumps and trees do.
    verbose : int
        1 shows a progress bar.
    callbacks : sequence of callables, optional
        Called as ``callback(record, fitted)`` after every round, but not while C is chosen.
        ``fitted`` is a StructBoost with the model of that round.  A callback that returns True
        stops training.

    Attributes
    ----------
    model_ : Ensemble
        The fitted model.
    history_ : list of dict
        One record per round: round, primal, bound, gap, certified, cross_fitted, held_out_loss,
        bound_all, gap_all, smallest_C, cuts, columns, oracle_calls, seconds
        (:func:`structboost.training.history.record`).
    objective_ : float
        Primal objective of the model, in the paper's units.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    ending_ : str
        Reason why the fit ended, a key of :data:`structboost.training.history.ENDINGS`.
    ending_text_ : str
        Sentence that explains why the fit ended.
    gap_text_ : str
        Weak learners that the last gap covers, in words; empty without a gap.
    formulation_ : str
        Name of the formulation that trained, where ``formulation="auto"`` took one.
    temperature_ : float or None
        Factor of the scores in :meth:`predict_marginals`, fitted on examples that rounds left out.
        None if none were left out, or the formulation does not use them.
    C_ : float
        The C of the model, from the parameter or from a choice on held-out data.
    columns_ : list of str or int, or None
        Labels of the columns, if ``X`` was a data frame with labels.  The columns of later frames
        are put in this order.
    C_path_ : list of dict
        Only with ``C="auto"``.  A record for each C: weak_learner (a name), C, loss (mean held-out
        loss), losses (of each fold), surrogate, surrogates (the criterion, which is the
        likelihood or the hinge after a fit of the scale of the scores), is_constant (whether the
        predictions do not depend on the input), columns, rounds (means over the folds), seconds;
        with ``score`` also score and scores.
    C_path_end_ : str
        Only with ``C="auto"``.  Reason why no larger C was tried.

    See Also
    --------
    structboost.StructBoostClassifier : Classifier of tables, with the same training.
    structboost.StructuredSVM : Trainer of one linear function.
    structboost.check_task : Test of a task before it is trained.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MulticlassTask, StructBoost
    >>> X, y = load_iris(return_X_y=True)
    >>> trainer = StructBoost(MulticlassTask(3), C=10.0).fit(X, y)
    >>> -trainer.score(X, y) < 0.1  # the mean loss
    True
    >>> trainer.history_[-1]["certified"]
    True
    """

    task: Any = None
    _: KW_ONLY
    C: Any = None
    tol: float = 0.01
    max_rounds: int = 200
    weak_learner: WeakLearners = "stump"
    formulation: FormulationName | Formulation = "one_slack"
    objective: Any = None
    exact: bool | None = None
    pricing: Pricing | PricingRule = "own"
    columns_per_channel: int = 5
    spread: float = 0.0
    random_state: Any = None
    engine: EngineName | Engine = "threads"
    n_jobs: int | None = None
    checkpoint: PathName | None = None
    verbose: int = 0
    callbacks: Sequence[Callback] | None = None

    boosts = True

    temperature_: float | None = field(init=False)
    C_path_: list[Record] = field(init=False)
    C_path_end_: str = field(init=False)
    # Formulation that trains, which ``formulation="auto"`` takes by the examples and C.
    _trained_by: Formulation = field(init=False)

    @committed
    def fit(
        self,
        X: Examples,
        Y: Examples,
        sample_weight: Any = None,
        *,
        folds: Sequence[Fold] | None = None,
        can_split: bool = True,
        score: Score | None = None,
    ) -> Self:
        """Train on examples ``(X[i], Y[i])``.

        Parameters
        ----------
        X, Y : sequence
            Inputs and true outputs, as the task takes them.
        sample_weight : array-like, shape (n_examples,), optional
            Weight of each example in the mean loss.
        folds : sequence of Fold, optional
            Folds on which ``C="auto"`` is chosen.  By default a fifth of the examples is held out,
            each in turn if there are fewer than 2,000.
        can_split : bool
            Whether ``C="auto"`` may replace a union by one of its families that is clearly better
            alone.  With False, the certificate always covers the union.
        score : callable, optional
            ``score(model, fold)`` of an :class:`Ensemble` and a fold, which ``C="auto"`` maximises
            instead of its default criterion.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range.
        TaskError
            If the task breaks its contract.
        SolverError
            If a restricted master cannot be solved.
        KeyboardInterrupt
            On Ctrl-C before the first round has ended, or while C is chosen.

        Warns
        -----
        ConvergenceWarning
            If a certified fit uses up ``max_rounds`` before its gap is ``tol``.
        EmptyModelWarning
            If C is too small for any weak learner.
        ConstantPredictionWarning
            If one output is predicted for all examples, whose true outputs differ.
        InterruptedFitWarning
            On Ctrl-C later.  The model is that of the last complete round.
        """
        table, X, Y = X, self._training_inputs(X), by_position(Y)
        trainer = trainer_of_objective(self)
        if trainer is not self:
            more: dict[str, Any] = {"folds": folds, "score": score}
            if trainer.boosts:
                more["can_split"] = can_split
            elif is_text(trainer.C, AUTO) and folds is None:
                more["folds"] = random_folds(X, Y, sample_weight, random_state=self.random_state)
            trainer.fit(table, Y, sample_weight, **more)  # which reads the names of columns, too
            self.__dict__.update(fitted_attributes(trainer))
            metadata = {"formulation": trainer._objective, **self.model_.metadata}
            metadata["trainer"] = StructBoost.__name__
            self.model_ = replace(self.model_, metadata=metadata)
            return self
        if self.C is None or is_text(self.C, AUTO):
            tried = alternatives(self.weak_learner) if can_split else [self.weak_learner]
            _fit_choosing(self, tried, X, Y, sample_weight, folds, score)
        else:
            _fit([self], X, Y, sample_weight)
        if not self.interrupted_ and self.model_.weights.any() and is_in_memory(X):
            warn_of_one_output(self.task, X, Y, self._scores)
        return self

    def path(
        self, X: Examples, Y: Examples, Cs: Iterable[float], *, sample_weight: Any = None
    ) -> list[StructBoost]:
        """Fit a trainer for each C, each warm-started from the one before.

        Parameters
        ----------
        X, Y, sample_weight
            As for :meth:`fit`.
        Cs : iterable of float
            At least one C.

        Returns
        -------
        trainers : list of StructBoost
            Fitted copies of this one, in the order of ``Cs``.  After Ctrl-C, only the first ones.

        Raises
        ------
        ValueError, TypeError
            If ``Cs`` is empty or no iterable, or ``checkpoint`` is set, and as :meth:`fit` does.
        """
        Cs = list(iterated_Cs(Cs))
        if not Cs:
            raise ValueError("Cs is empty; give at least one C.")
        if self.checkpoint is not None:
            raise ValueError("checkpoint is for fit(X, Y); leave it None for a path.")
        trainer = trainer_of_objective(self)
        if not trainer.boosts:
            raise TypeError("path boosts weak learners; take that of StructuredSVM, or fit each C.")
        check_parameters(trainer, trainer.get_params(deep=False))
        trainers = [unfitted_copy(trainer) for _ in Cs]
        for trainer, C in zip(trainers, Cs, strict=True):
            trainer.C = C
            inputs = trainer._training_inputs(X)
        _fit(trainers, inputs, by_position(Y), sample_weight)
        return [trainer for trainer in trainers if hasattr(trainer, "model_")]

    def staged_predict(self, X: Examples) -> Any:
        """Iterate over the predictions after each round, with the weights of that round.

        Parameters
        ----------
        X : sequence, shape (n_examples,)
            Inputs, at least one.

        Returns
        -------
        stages : iterator of list
            One list of outputs per round, each as :meth:`predict` returns it.

        Raises
        ------
        NotFittedError
            If the trainer is not fitted yet.
        """
        stages, X = self.staged_models(), self._inputs(X)
        return (model_predictions(self.task, model, X) for model in stages)

    def staged_models(self) -> Iterator[Ensemble]:
        """Iterate over the models after each round, with the weights of that round.

        Returns
        -------
        models : iterator of Ensemble

        Raises
        ------
        NotFittedError
            If the trainer is not fitted yet.
        """
        return self._fitted().staged()

    @classmethod
    @override
    def from_model(cls, model: Ensemble, task: Task) -> Self:
        trainer = super().from_model(model, task)
        trainer.temperature_ = saved_temperature(model.metadata)
        return trainer

    @property
    @override
    def _shares_work(self) -> bool:
        formulation = formulation_of(self.formulation)
        return formulation.works_on_shards or works_in_threads(self.weak_learner)

    def _plan(self) -> Plan:
        checked_task(self.task)
        if self.C is None or isinstance(self.C, str):
            raise TypeError(f"C is {shown(self.C)}; give a number above 0, or {AUTO!r}.")
        values = {field.name: getattr(self, field.name) for field in fields(Plan)}
        values["formulation"] = formulation_of(self.formulation)
        values["engine"] = engine_of(self.engine, self.n_jobs)
        return Plan(**values)

    def _name_of_formulation(self) -> str:
        """Return the name of the formulation that trains, or its text without a name."""
        if not is_text(self.formulation, AUTO):
            return str(self.formulation)
        return FORMULATIONS.name_of(type(self._trained_by)) or str(self._trained_by)

    @property
    def formulation_(self) -> str:
        """Formulation of the fit, where ``formulation="auto"`` took one."""
        return str(self._fitted().metadata.get("formulation", ""))

    def _summary(self, loop: Loop) -> str:
        """Describe objective or formulation, families of weak learners and C in words."""
        by_name = isinstance(self.formulation, str)
        name = self._name_of_formulation() if by_name else type(self.formulation).__name__
        families = dict.fromkeys(family.name for family in loop.columns.families.values())
        C = f", C {loop.plan.C:.4g}" if loop.plan.C < inf else ""
        return f"{self._objective or name} over {', '.join(families)}{C}"

    def _keep(self, loop: Loop) -> None:
        """Run a loop, and set the fitted attributes."""
        self.history_, self.interrupted_ = [], False
        callbacks = checked_callbacks(self.callbacks)

        def observe(record: Facts) -> str:
            self.history_ = loop.state.history
            fitted = _AfterRound.of(self, loop)
            ending = [callback for callback in callbacks if callback(record, fitted) is True]
            return str(getattr(ending[0], "ending", "callback")) if ending else ""

        with ExitStack() as shown_bar:
            if self.verbose:
                bar = ProgressBar(self.tol, self.max_rounds, f"{self._summary(loop)}  ")
                shown_bar.callback(bar.close)
                callbacks.insert(0, bar)
            loop.run(observe if callbacks else None)
            if self.verbose:
                bar.end(ending_in_words(loop.state.ending))
        self.history_, self.interrupted_ = loop.state.history, loop.state.interrupted
        self.objective_, self.C_ = self.history_[-1]["primal"], float(loop.plan.C)
        if self._keeps_only_whole and self.interrupted_:
            raise KeyboardInterrupt
        temperature = loop.temperature()
        self.ending_ = loop.state.ending
        self.temperature_ = None if temperature is None else temperature.factor
        metadata = {
            "formulation": self._name_of_formulation(),
            "trainer": StructBoost.__name__,
            "ending": self.ending_,
            "temperature": self.temperature_,
            "columns": self.columns_,
        }
        self.model_ = loop.final_model(metadata)


class _AfterRound(StructBoost):
    """Fitted trainer with the weights of the last round, for callbacks."""

    _loop: Loop

    @classmethod
    def of(cls, trainer: StructBoost, loop: Loop) -> Self:
        """Return the trainer after the last round, with its parameters."""
        fitted = cls.__new__(cls)
        fitted.__dict__.update(vars(trainer))
        fitted.objective_ = fitted.history_[-1]["primal"]
        fitted._loop = loop
        return fitted

    @override
    def _fit_in_words(self) -> str:
        return f"after round {len(self.history_)}"

    def __getattr__(self, name: str) -> Any:
        # The model is made on first access, because most callbacks read only the record.
        if name != "model_":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        self.model_ = self._loop.current_model()
        return self.model_

    @override
    def staged_models(self) -> Iterator[Ensemble]:
        return self._loop.final_model({}).staged()


# Texts and errors call it as users do.
_AfterRound.__name__ = StructBoost.__name__


@deferred_interrupts()
def _fit(trainers: Sequence[StructBoost], X: Examples, Y: Examples, sample_weight: Any) -> None:
    """Fit trainers that differ only in C in turn, each warm started from the one before.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C before the first round of the first fit has ended.

    Warns
    -----
    InterruptedFitWarning
        On Ctrl-C later.
    EmptyModelWarning
        If a model is empty, for which the warning gives a remedy.
    ConvergenceWarning
        If a certified fit uses up its rounds before its gap is ``tol``.
    """
    first, Cs = trainers[0], [trainer._plan().C for trainer in trainers]
    plan = first._plan()
    checked_callbacks(first.callbacks)
    plan.check(Cs)
    about = f"formulation={shown(first.formulation)}"
    warn_of_idle_jobs(first.n_jobs, first.engine, about, shares_work=first._shares_work)
    plan = plan.suited(Cs, X)
    loop = None
    empty = []
    with one_blas_thread():
        with ExitStack() as resources:
            for trainer in trainers:
                trainer._trained_by = plan.formulation
                try:
                    if loop is None:
                        loop = Loop.start(plan, X, Y, sample_weight, resources)
                    else:
                        loop = loop.repeat(C=trainer.C)
                    trainer._keep(loop)
                except KeyboardInterrupt:
                    # This C has no model yet; those before it are complete.
                    if trainer is first:
                        raise
                    return warn_of_interruption(0)
                history = loop.state.history
                if loop.state.interrupted:
                    return warn_of_interruption(len(history))
                if loop.is_empty:
                    empty.append(loop)
                gap = history[-1]["gap"]
                if not loop.state.done and gap is not None and gap > max(plan.tol, plan.spread):
                    warn_of_open_gap(gap, plan.tol, plan.max_rounds)
        if empty:
            warn_of_empty_models(empty)


@contextmanager
def loop_without_model(
    trainer: StructBoost, X: Examples, Y: Examples, sample_weight: Any
) -> Iterator[Loop]:
    """Set up the loop of a fit whose model nobody needs.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    plan = trainer._plan()
    plan.check([plan.C])
    with deferred_interrupts(), one_blas_thread(), ExitStack() as resources:
        loop = Loop.start(plan.suited([plan.C], X), X, Y, sample_weight, resources)
        loop.is_trial = True
        yield loop
    if loop.state.interrupted:
        raise KeyboardInterrupt


def _fit_choosing(
    trainer: StructBoost,
    weak_learners: Sequence[WeakLearners],
    X: Examples,
    Y: Examples,
    sample_weight: Any,
    folds: Sequence[Fold] | None,
    score: Score | None,
) -> None:
    """Choose C and weak learners on folds, then fit."""
    with_C = copy(trainer)
    with_C.C = 1.0
    plan = with_C._plan()
    plan.check([plan.C])
    checked_callbacks(trainer.callbacks)
    remedy = "take formulation='one_slack', for example, or give C as a number"
    check_declares(plan.formulation, "can_choose_C", "C='auto'", remedy)
    if folds is None:
        if not is_in_memory(X):
            raise ValueError(
                f"C is {AUTO!r}, which picks examples, and X is a {type(X).__name__}; give C as a "
                "number."
            )
        check_examples(X, Y)
        folds = random_folds(X, Y, sample_weight, random_state=trainer.random_state)
    progress = Progress(visible=bool(trainer.verbose))
    try:
        report = partial(progress.show, fraction=None)
        chosen = choose_C(plan.suited([_TYPICAL_C], X), weak_learners, folds, report, score)
    finally:
        progress.close()
    with_C.C, with_C.weak_learner = chosen.C, chosen.weak_learner
    _fit([with_C], X, Y, sample_weight)
    trainer.__dict__.update(fitted_attributes(with_C))
    trainer.C_path_, trainer.C_path_end_ = chosen.records, chosen.end
