"""Base class of boosted estimators, with declared parameters, fitted attributes and files."""

from __future__ import annotations

import inspect
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray, PathName, override
from structboost.contract.task import Task
from structboost.errors import ModelFileError, warn_user
from structboost.faces.labels import plain_classes, without_learners
from structboost.faces.recipe import EarlyStopping, Fitted, Recipe
from structboost.files.archive import DamagedFileError, LoadedFromFile, finite_number, whole_number
from structboost.learners.pricing import PricingRule
from structboost.learners.registry import WeakLearners
from structboost.model.ensemble import FORMAT, Ensemble, read_model
from structboost.objectives.base import Formulation, SoftmaxLink
from structboost.objectives.master import saved_temperature
from structboost.objectives.values import OBJECTIVES, Objective, flat_parameters
from structboost.runtime.called_class import MORE, names_calls, set_params
from structboost.selection.folds import Fold
from structboost.selection.held_out import Score, score_by
from structboost.training.boosting import StructBoost
from structboost.training.history import coverage_in_words, ending_in_words, fit_in_words
from structboost.validation import checked_callbacks, is_same, shown

T = TypeVar("T")
_KEYWORD = inspect.Parameter.KEYWORD_ONLY

_HEADING = re.compile(r"\n(Parameters|Attributes|See Also|Examples)\n-+\n")
# A heading such as ``tol : float``, and the indented lines below it.
_ENTRY = re.compile(r"^(\w+) : .*(?:\n(?:[ ].*)?)*", re.MULTILINE)


def estimator(*parts: type) -> Callable[[type[T]], type[T]]:
    """Turn annotated attributes of a class and of its parts into keyword-only parameters.

    A class inherits the parameters of its bases with their defaults, and the entries of their
    docstrings under *Parameters* and *Attributes*, unless it overrides them.  In signature and
    docstring, the parameters of the class come before those of its bases.  *See Also* and
    *Examples* are not inherited.  Parts are classes that only declare: their parameters and entries
    are those of the class, and they are not among its bases.

    A class with several objectives takes all parameters of these as further keywords, too.  An
    object has those that were set.
    """

    def decorate(cls: type[T]) -> type[T]:
        annotations = inspect.get_annotations(cls)
        for part in parts:
            for name, of in inspect.get_annotations(part).items():
                if name not in annotations:
                    annotations[name] = of
                    setattr(cls, name, getattr(part, name))
        cls.__annotations__ = annotations
        decorated: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
        signature = inspect.signature(decorated.__init__)
        of_self = signature.parameters["self"]
        names = dict.fromkeys(
            name
            for base in decorated.__mro__
            for name in inspect.get_annotations(base)
            if name in signature.parameters
        )
        by_position = [n for n in names if signature.parameters[n].kind is not _KEYWORD]
        names = dict.fromkeys((*by_position, *names))
        ordered = [of_self, *(signature.parameters[name] for name in names)]
        flat = list(getattr(cls, "_flat_names", ()))
        for objective in vars(cls).get("_objectives", ()):
            flat += [of for of in OBJECTIVES[objective].parameters() if not hasattr(cls, of)]
            for name in flat:
                setattr(cls, name, getattr(cls, name, None))
        decorated._flat_names = tuple(flat)
        if flat:
            decorated.__init__ = _takes_more(decorated.__init__, names)
            ordered.append(inspect.Parameter(MORE, inspect.Parameter.VAR_KEYWORD))
        decorated.__init__.__signature__ = signature.replace(parameters=ordered)
        if sys.flags.optimize < 2:  # which leaves docstrings out
            decorated.__doc__ = _documentation(decorated, parts, list(names))
        return names_calls(cls)

    return decorate


def _takes_more(init: Callable[..., None], names: Mapping[str, Any]) -> Callable[..., None]:
    """Return a constructor that keeps further keywords as attributes."""

    @wraps(init)
    def keeps_all(self: Any, *args: Any, **parameters: Any) -> None:
        init(self, *args, **{name: of for name, of in parameters.items() if name in names})
        vars(self).update({name: of for name, of in parameters.items() if name not in names})

    return keeps_all


def _documentation(cls: Any, parts: Sequence[type], parameters: Sequence[str]) -> str:
    """Return the docstring of a class with the entries of its parts and its bases."""
    summary, sections = _sections(cls)
    cls._described = {}
    for section in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for text in (*(_sections(part)[1] for part in reversed(parts)), sections):
            entries |= {e[1]: e[0].rstrip() for e in _ENTRY.finditer(text.get(section, ""))}
        cls._described[section] = entries
    blocks = [summary.rstrip()]
    for section in ("Parameters", "Attributes"):
        entries = {}
        for base in cls.__mro__:
            entries = vars(base).get("_described", {}).get(section, {}) | entries
        names = parameters if section == "Parameters" else sorted(entries)
        lines = [section, "-" * len(section), *(entries[name] for name in names)]
        if section == "Parameters" and cls._flat_names:
            further = ", ".join(name for name in cls._flat_names if name not in parameters)
            lines.append(
                f"**{MORE}\n    Parameters of the objective by their names, which have defaults of "
                f"their own\n    (:mod:`structboost.objectives`): {further}."
            )
        blocks.append("\n".join(lines))
    blocks += [
        f"{section}\n{'-' * len(section)}\n{sections[section].rstrip()}"
        for section in ("See Also", "Examples")
        if section in sections
    ]
    return "\n\n".join(blocks) + "\n"


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring before its sections, and the sections by their headings."""
    summary, *sections = _HEADING.split(inspect.cleandoc(cls.__doc__ or ""))
    return summary, dict(zip(sections[::2], sections[1::2], strict=True))


# Keys of the forms of tuples and dicts in files.
_TUPLE, _DICT = "tuple", "dict"


def save_estimator(face: Any, path: PathName) -> None:
    """Write the model of an estimator to a file, with its parameters and facts in the metadata."""
    check_is_fitted(face)
    metadata = {
        **face.model_.metadata,
        "estimator": type(face).__name__,
        "parameters": plain_parameters(flat_parameters(face)),
    }
    if hasattr(face, "classes_"):
        metadata |= plain_classes(face.classes_)
    replace(face.model_, metadata={**metadata, **face._facts()}).save(path)


def load_estimator(cls: Any, path: PathName) -> Any:
    """Read an estimator from a file, whose metadata may be damaged."""
    model = read_model(path)
    facts = model.metadata
    if facts.get("estimator") != cls.__name__:
        name = facts.get("estimator", facts.get("trainer", "StructBoost"))
        raise ModelFileError(f"{path} holds a {name} model; load it with that class.")
    with FORMAT.damage(path):
        loaded = cls(**restored_parameters(facts["parameters"]))
        loaded.model_ = model
        loaded._restore(facts)
    return loaded


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a file can hold, for :func:`restored_parameters`."""
    plain = {}
    for name, value in parameters.items():
        with suppress(TypeError, RecursionError):  # lists that hold themselves
            plain[name] = _plain(value)
    return plain


def restored_parameters(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters from a file, with tuples and dicts as they were."""
    return {name: _restored(value) for name, value in plain.items()}


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it, or raise TypeError if it cannot.

    Sets and arrays become lists.  A tuple is ``{"tuple": items}``, and a dict ``{"dict": pairs}``,
    because its keys need not be strings.
    """
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if type(value) is tuple:
        return {_TUPLE: [_plain(item) for item in value]}
    if isinstance(value, dict):
        return {_DICT: [[_plain(key), _plain(item)] for key, item in value.items()]}
    raise TypeError(f"{shown(value)} is not plain")


def _restored(value: Any) -> Any:
    """Return the value that :func:`_plain` took."""
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and isinstance(items := value.get(_TUPLE), list):
        return tuple(map(_restored, items))
    pairs = value.get(_DICT)
    if len(value) != 1 or not isinstance(pairs, list):
        raise DamagedFileError(f"a parameter is {shown(value)}")
    return {_restored(key): _restored(item) for key, item in pairs}


def saved_link(values: Any) -> SoftmaxLink | None:
    """Return the link of a saved classifier, or None if it has no probabilities."""
    if values is None:
        return None
    pair = [finite_number(value, "link to probabilities") for value in values]
    if len(pair) != 2:
        raise DamagedFileError(f"its link to probabilities is {shown(values)}")
    return SoftmaxLink(*pair)


def saved_names(names: Any, n_features: int) -> list[str] | None:
    """Return the names of features in a file, if there are any, and check that none is missing."""
    if names is None:
        return None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or len(names) != n_features:
        raise DamagedFileError(f"its features have the names {shown(names)}")
    return list(names)


def saved_indices(indices: Any, n_features: int) -> IntArray:
    """Return the indices of features in a file, and check that each is of one."""
    return np.array(
        [
            whole_number(index, "index of a feature", low=0, high=n_features - 1)
            for index in indices
        ],
        np.int64,
    )


# Fitted attributes that report a choice on held-out data, if there was one.
_CHOSEN = (
    "C_path_", "C_path_end_", "validation_losses_", "max_depth_", "max_features_",
    "category_penalty_", "l2_regularization_",
    "theta_", "theta_path_", "theta_path_end_",
)  # fmt: skip
# Choices that the text of a fitted estimator names, in its words.
_IN_WORDS = {
    "learning_rate_": "learning rate", "max_features_": "max_features", "max_depth_": "depth",
    "category_penalty_": "category_penalty", "outside_offset_": "outside_offset",
    "l2_regularization_": "l2_regularization",
}  # fmt: skip
# Parameters of the trainer that are those of an estimator, or of its objective.
_OF_TRAINER = (
    "C", "tol", "max_rounds", "exact", "pricing", "columns_per_channel", "spread",
    "random_state", "engine", "n_jobs", "checkpoint", "verbose", "callbacks",
)  # fmt: skip


@estimator()
class BoostedFace(BaseEstimator):
    """Base of the scikit-learn estimators on top of :class:`structboost.StructBoost`.

    Parameters
    ----------
    weak_learner : str, callable or list of these
        Family of weak learners, or the union of several, as ``["linear", "stump"]``
        (:class:`structboost.StructBoost`).
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round.  Where errors are equal, the best is
        that of the least surrogate (docs/decisions.md).  ``history_`` ends with that round,
        so that its certificate is that of the model.  Where only the number of rounds keeps a fit
        from following its examples too far, as in stage-wise boosting, so many rounds are then
        trained on the whole set.  ``fit(X, y, eval_set=(X_val, y_val))`` stops by examples of your
        own instead, on which it trains never.
    validation_fraction : float
        Fraction of the training set that is held out with ``early_stopping``.  Held-out examples
        count with their weights.
    n_iter_no_change : int
        Rounds without improvement after which training stops early, with ``early_stopping``.
    random_state : int, RandomState or None
        Seed for held-out parts and randomised weak learners.
    n_jobs : int or None
        Number of threads or processes.  None means 1, or the value of ``joblib.parallel_config``;
        -1 means all cores.  Trees and linear functions of other objectives than ``"hinge"`` are
        trained on one core, and warn if it means several; trees predict large tables by all.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    model_ : Ensemble
        The fitted model.
    history_ : list of dict
        One record per round, with the certificate and the held-out loss
        (:func:`structboost.training.history.record`).
    objective_ : float
        Primal objective of the model.
    n_iter_ : int
        Rounds in the model.
    ending_ : str
        Reason why training ended, a key of :data:`structboost.training.history.ENDINGS`.
    ending_text_ : str
        Sentence that explains why training ended.
    gap_text_ : str
        Weak learners that the last gap covers, in words; empty without a gap.
    temperature_ : float or None
        Factor of the scores before they become probabilities, below 1 if they are too confident.
        Rows that rounds left out give an estimate.  Rows that fits of folds did not see correct
        it, up to 6,000 examples, and for classifiers of at most 64 features.  These alone decide
        where no row is left out, as with fewer than 50 distinct ones, or each distinct row occurs
        at least twice on average.  Classifiers of more than 20,000 rows set one of 30 aside, which
        has no weight in the fit and corrects the estimate; with early stopping, the held-out rows
        do from 6,000 rows on.  None if the objective has no probabilities, or no row can be held
        out.
    validation_losses_ : list of float
        Loss of the held-out examples after each round, only with early stopping.
    feature_importances_ : ndarray, shape (n_features,)
        Fraction of the total weight on each feature.
    C_ : float
        The C of the model, from the parameter or from a choice on held-out data.
    learner_ : str
        Names of the families of weak learners in the model.
    formulation_ : str
        Formulation that trained, empty for one linear function without boosting.
    """

    weak_learner: WeakLearners = "stump"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    model_: Ensemble = field(init=False)
    task_: Task = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)
    objective_: float = field(init=False)
    C_: float = field(init=False)
    ending_: str = field(init=False)
    temperature_: float | None = field(init=False)
    n_iter_: int = field(init=False)

    # Names of objectives, and the parameters of these that the constructor takes, too.  Objects
    # have those that were set.
    _objectives: ClassVar[tuple[str, ...]] = ()
    _flat_names: ClassVar[tuple[str, ...]] = ()
    # Parameters of some classes.
    objective = None
    scoring = None

    if TYPE_CHECKING:
        max_iter: Any

        def __init__(self, objective: Any = ..., **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by their names, those of the objective only where they were set.

        Parameters
        ----------
        deep : bool
            Whether to add the parameters of parameters, as ``objective__C``.

        Returns
        -------
        params : dict of str to object
        """
        state, params = vars(self), dict(super().get_params(deep))
        return params | {of: state[of] for of in (*self._flat_names, MORE) if of in state}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, where ``objective__C`` makes an objective of a name.

        Parameters
        ----------
        **params
            Parameters of the estimator, and of its objective by their names or after
            ``objective__``.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            If there is no such parameter.  The message names the closest one.
        """
        name = params.get("objective", self.objective)
        if any(of.startswith("objective__") for of in params) and name in self._objectives:
            params["objective"] = OBJECTIVES[name]()
        updated: Self = set_params(self, **params)
        return updated

    def save(self, path: PathName) -> None:  # noqa: D102
        save_estimator(self, path)

    @classmethod
    def load(cls, path: PathName) -> Self:  # noqa: D102
        loaded: Self = load_estimator(cls, path)
        return loaded

    save.__doc__ = LoadedFromFile.save.__doc__
    load.__func__.__doc__ = LoadedFromFile.load.__doc__  # type: ignore[attr-defined]

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return what a file holds beside the model and the parameters."""

    @property
    def learner_(self) -> str:
        """Names of the families of weak learners in the model."""
        check_is_fitted(self)
        return self.model_.families

    @property
    def formulation_(self) -> str:
        """Formulation of the fit, empty if one linear function was fitted without boosting."""
        check_is_fitted(self)
        return str(self.model_.metadata.get("formulation", ""))

    @override
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        try:
            text = str(super().__repr__(N_CHAR_MAX))
        except RecursionError:  # lists are nested too deeply in a parameter
            text = f"{type(self).__name__}(...)"
        if self._objectives and "objective=" not in text:
            name, arguments = text.split("(", 1)
            comma = "" if arguments.startswith(")") else ", "
            text = f"{name}(objective={self.objective!r}{comma}{arguments}"
        return f"{text}  # {self._summary()}" if hasattr(self, "minimised_") else text

    def __sklearn_clone__(self) -> Self:
        try:
            return super().__sklearn_clone__()  # type: ignore[no-any-return]
        except RecursionError:  # such a parameter is shared instead of copied
            return type(self)(**self.get_params(deep=False))

    def _summary(self) -> str:
        """Describe objective, weak learners, choices and ending of the fit in words."""
        values = vars(self)
        choices = [f"{of} {values[name]:.3g}" for name, of in _IN_WORDS.items() if name in values]
        if self.temperature_ is not None:
            choices.append(f"temperature {self.temperature_:.3g}")
        minimised = values["minimised_"]
        formulation = self.formulation_ if minimised == "hinge" else ""
        return fit_in_words(self, minimised, self.n_iter_, formulation, choices)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def ending_text_(self) -> str:
        """Sentence that explains why training ended."""
        check_is_fitted(self)
        return ending_in_words(self.ending_)

    @property
    def gap_text_(self) -> str:
        """Names of the weak learners that the last gap covers, empty without a gap."""
        check_is_fitted(self)
        return coverage_in_words(self.history_)

    @property
    def feature_importances_(self) -> FloatArray:
        """Fraction of the total weight on each feature, shape (n_features,)."""
        check_is_fitted(self)
        return self.model_.feature_importances()

    def _check_held_parameters(self, eval_set: Any, recipe: Recipe) -> None:
        """Raise if the fit does not read held-out examples of the user, or a parameter of these."""
        if eval_set is not None and recipe.linear is not None and not recipe.chooses_C:
            raise ValueError(
                "eval_set is set, and one linear function has no rounds that it could end; "
                "leave it out, or write C='auto', which it then chooses."
            )
        if self.early_stopping or eval_set is not None:
            return
        if self.scoring is not None and not recipe.chooses_C:
            raise ValueError(
                f"scoring is {shown(self.scoring)}, and nothing is chosen by it; set "
                "early_stopping=True, or C='auto' with an objective that reads C, such as 'hinge'."
            )
        for name in ("validation_fraction", "n_iter_no_change"):
            if is_same(value := getattr(self, name), getattr(type(self), name)):
                continue
            message = (
                f"{name} is {shown(value)}, which only early_stopping=True reads; leave it out, or "
                "write early_stopping=True, too."
            )
            if name == "validation_fraction":
                raise ValueError(message)
            # scikit-learn's own checks of classifiers set n_iter_no_change alone.
            warn_user(message, UserWarning)

    @contextmanager
    def _own_held_out(self, eval_set: Any, wanted: str = "(X, y)") -> Iterator[Any]:
        """Yield the parts of held-out examples of the user, and name them in errors."""
        if not isinstance(eval_set, tuple | list) or len(eval_set) != wanted.count(",") + 1:
            raise TypeError(f"eval_set is {shown(eval_set)}; give {wanted} of held-out examples.")
        if not is_same(self.validation_fraction, BoostedFace.validation_fraction):
            raise ValueError(
                f"validation_fraction is {self.validation_fraction!r}, which a fit with eval_set "
                "does not read; leave one of the two out."
            )
        try:
            yield eval_set
        except (TypeError, ValueError) as error:
            error.args = (f"eval_set: {error}",)
            raise

    def _plain_recipe(
        self,
        formulation: str | Formulation,
        prices: Callable[[Task], PricingRule] | None = None,
        *,
        are_shared: bool = False,
        **settings: Any,
    ) -> Recipe:
        """Return a fit of one formulation, with other settings of its trainer than parameters.

        ``prices(task)`` makes the pricing rule of a run, and weak learners may be ``are_shared`` by
        all classes.
        """
        return Recipe(
            type(self).__name__,
            self.weak_learner,
            formulation,
            trainer_settings(self) | settings,
            patience=self.n_iter_no_change,
            pricing=prices,
            shares_learners=are_shared,
        )

    def _keep(self, task: Task, fitted: Fitted, **attributes: Any) -> None:
        """Set the fitted attributes."""
        self.__dict__.update({"task_": task, **fitted.attributes, **attributes})

    def _keep_constant(
        self, task: Task, n_features: Mapping[str, int], objective: str, **attributes: Any
    ) -> None:
        """Set the fitted attributes of a model whose scores are 0, which predicts one output."""
        metadata = {"history": [], "C": np.inf, "objective": 0.0}
        model = without_learners(task.kinds, n_features, metadata)
        fitted = Fitted(model, [], 0.0, np.inf, "one_class")
        if objective:
            fitted.chosen["minimised_"] = objective
        self._keep(task, fitted, **attributes)

    def _held_out_score(
        self,
        task: Task,
        as_given: Callable[[Any], Any],
        prepared: Callable[[Ensemble], Mapping[str, Any]],
    ) -> Score | None:
        """Return a function that applies the user's scorer, if any, to held-out parts.

        ``as_given(Y)`` returns true outputs in the form of ``y``, and ``prepared(model)`` the
        attributes by which a model reads held-out inputs.
        """
        scoring = self.scoring
        if scoring is None:
            return None

        def held_out(model: Ensemble, fold: Fold) -> tuple[Any, Any, Any]:
            twin = copy(self)
            twin.__dict__.pop("feature_names_in_", None)
            state = {"model_": model, "task_": task, "temperature_": None}
            twin.__dict__.update(state | dict(prepared(model)))
            return twin, fold.held_X, as_given(fold.held_Y)

        return score_by(scoring, held_out)


# scikit-learn's checks look up the attributes that a constructor sets in the signatures of its
# class and of all bases.
_FURTHER = dict.fromkeys(name for of in OBJECTIVES.values() for name in of.parameters())
setattr(  # noqa: B010
    BoostedFace,
    "__signature__",
    inspect.Signature([inspect.Parameter(name, _KEYWORD, default=None) for name in _FURTHER]),
)


def trainer_settings(face: BoostedFace, objective: Objective | None = None) -> dict[str, Any]:
    """Return the parameters of the trainer, which are those of a face and of its objective."""
    values = {"engine": StructBoost.engine, "callbacks": None}
    of_face = face.get_params(deep=False)
    values |= {name: value for name, value in of_face.items() if name not in face._flat_names}
    values |= {} if objective is None else objective.get_params(deep=False)
    if any(isinstance(of, EarlyStopping) for of in checked_callbacks(values["callbacks"])):
        raise TypeError(
            "callbacks has an EarlyStopping, which is for trainers and examples of their task; "
            "write fit(X, y, eval_set=(X_val, y_val)) with labels as in y."
        )
    return {name: values[name] for name in _OF_TRAINER if name in values}


def facts_of_fit(face: BoostedFace) -> dict[str, Any]:
    """Return what a file holds of a fit beside its model."""
    facts = {
        "objective": face.objective_,
        "ending": face.ending_,
        "n_iter": face.n_iter_,
        "temperature": face.temperature_,
        "chosen": {name: getattr(face, name) for name in _CHOSEN if hasattr(face, name)},
    }
    if hasattr(face, "minimised_"):
        facts["objective_name"] = face.minimised_
        facts["learning_rate"] = getattr(face, "learning_rate_", None)
    return facts


def fit_of_facts(model: Ensemble, facts: Mapping[str, Any], task: Task) -> Fitted:
    """Return the fit of the model of a task, from the facts of its file, which may be damaged."""
    if dict(task.kinds) != dict(model.kinds):
        raise DamagedFileError("its model is of other outputs")
    chosen = {name: of for name, of in dict(facts.get("chosen", {})).items() if name in _CHOSEN}
    if "objective_name" in facts:
        chosen["minimised_"] = str(facts["objective_name"])
    if (learning_rate := facts.get("learning_rate")) is not None:
        chosen["learning_rate_"] = float(learning_rate)
    low = max(1, model.n_stages)
    return Fitted(
        model,
        list(facts["history"]),
        float(facts["objective"]),
        float(facts["C"]),
        str(facts.get("ending", "")),
        saved_temperature(facts),
        whole_number(facts.get("n_iter", low), "number of rounds", low=1),
        chosen,
    )
