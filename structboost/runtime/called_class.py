"""Errors of calls that name the class that was called, and the closest parameter.

Names of other libraries come with what to write here in their place.  All constructors and
``set_params`` look a name up here.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from structboost.validation import shown

# Name of further keywords in signatures.  scikit-learn's checks give it as if it were a parameter.
MORE = "parameters"
# Names of one thing in several classes.
_ALIKE = ("max_iter", "max_rounds", "max_epochs")
# Names of other libraries by that of the parameter that means the same.
_SAME = {
    "max_iter": "n_estimators num_iterations num_iteration num_boost_round iterations "
    "max_iterations",
    "tol": "delta",
    "learning_rate": "eta shrinkage_rate",
    "objective": "loss algorithm boosting_type boosting",
    "min_samples_leaf": "min_child_samples min_data_in_leaf min_child_weight",
    "l2_regularization": "reg_lambda lambda_l2 l2_leaf_reg",
    "max_features": "colsample_bynode colsample_bytree feature_fraction rsm",
    "random_state": "seed random_seed",
    "n_jobs": "num_threads nthread thread_count",
    "verbose": "verbosity verbose_eval silent",
    "categorical_features": "categorical_feature cat_features",
    "monotonic_cst": "monotone_constraints monotonic_constraints",
    "scoring": "eval_metric metric first_metric_only",
    "class_weight": "scale_pos_weight is_unbalance class_weights",
}
# Names of other libraries, a parameter of the classes that the advice is for, and the advice.
_ADVICE = (
    ("c1 c2", "scheme",
     "for n sequences in training write C=n / (2 * c2), or objective='l1_log_loss', C=n / c1"),
    ("epsilon", "scheme",
     "tol=... is the gap to the optimum at which a fit ends, and no bound of a slope: leave "
     "it out at first"),
    ("all_possible_transitions", "scheme",
     "every pair of tags has a weight; forbidden=... and scheme=... exclude pairs"),
    ("all_possible_states", "scheme", "every feature has a weight for every tag; leave it out"),
    ("early_stopping_rounds early_stopping_round", "n_iter_no_change",
     "write early_stopping=True, n_iter_no_change=... in the constructor"),
    ("num_leaves max_leaf_nodes max_leaves", "max_depth",
     "trees are grown to a depth: max_depth=5 has up to 32 leaves"),
    ("subsample bagging_fraction bagging_freq", "max_depth",
     "each round of trees draws half of the rows by itself"),
    ("reg_alpha lambda_l1", "C", "C weighs the loss against the l1 norm, with objective='hinge'"),
    ("max_bin", "exact", "exact=False bins stumps; trees have at most 255 bins for each feature"),
    ("num_class n_classes", "random_state",
     "classes are those of y in fit; classes_ lists them"),
    ("importance_type", "weak_learner",
     "feature_importances_ is the fraction of the weight on each feature; "
     "sklearn.inspection.permutation_importance(model, X, y) measures the effect of each"),
    ("init_model warm_start", "checkpoint", "checkpoint=path resumes a run from its file"),
)  # fmt: skip
_TARGETS = {name: target for target, names in _SAME.items() for name in names.split()}
_ADVICE_ON = {name: (needed, text) for names, needed, text in _ADVICE for name in names.split()}


def hint(name: str, names: Sequence[str]) -> str:
    """Suggest what to write in place of a name that does not exist, among ``names`` that do."""
    target = _TARGETS.get(name, name)
    alike = _ALIKE if target in _ALIKE else (target,)
    close = [same for same in alike if same in names]
    needed, text = _ADVICE_ON.get(name, ("", ""))
    if not close and needed in names:
        return f"{text}."
    close = close or get_close_matches(name, names, 1, 0.6)
    return f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(names) or 'none'}."


T = TypeVar("T")


class _SignatureOfInit:
    """Signature of the ``__init__`` of a class, not of the ``__new__`` that checks it."""

    def __get__(self, instance: object | None, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return inspect.Signature(_constructor_parameters(owner))


def names_parameters(cls: type[T]) -> type[T]:
    """Make the constructor of a class, and of its subclasses, refuse arguments that it lacks.

    The TypeError names the class that was called, which may inherit its constructor, and what it
    takes.
    """
    decorated: Any = cls
    decorated.__signature__ = _SignatureOfInit()
    decorated.__new__ = _checked_new
    return cls


def _checked_new(cls: type, *args: Any, **kwargs: Any) -> Any:
    """Make an object, after a check of the arguments of its constructor."""
    if not (args or kwargs):
        return object.__new__(cls)
    named = {name: value for name, value in kwargs.items() if name != MORE}
    try:
        inspect.Signature(parameters_of(cls)).bind(*args, **named)
    except TypeError as error:
        names = [parameter.name for parameter in parameters_of(cls)]
        unknown = [name for name in named if name not in names]
        text = f"{cls.__name__}: {error}; it takes {', '.join(names) or 'nothing'}."
        if unknown:
            text = f"{cls.__name__} has no parameter {unknown[0]!r}; {hint(unknown[0], names)}"
        raise TypeError(text) from None
    return object.__new__(cls)


@cache
def parameters_of(cls: Any) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of the constructor of a class, further keywords by their names."""
    named = [of for of in _constructor_parameters(cls) if of.name != MORE]
    names, keyword = [of.name for of in named], inspect.Parameter.KEYWORD_ONLY
    further = [name for name in getattr(cls, "_flat_names", ()) if name not in names]
    return (*named, *(inspect.Parameter(name, keyword, default=None) for name in further))


def _constructor_parameters(cls: type) -> tuple[inspect.Parameter, ...]:
    init = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
    if init is object.__init__:
        return ()
    return tuple(inspect.signature(init).parameters.values())[1:]


def names_calls(cls: type[T]) -> type[T]:
    """Make the constructor and ``set_params`` of an estimator suggest names for unknown ones."""
    decorated: Any = names_parameters(cls)
    # scikit-learn reads the signature anew for each get_params.
    decorated._get_param_names = classmethod(lambda of: list(_names(of)))  # type: ignore[arg-type]
    if decorated.set_params.__module__ == "sklearn.base":
        decorated.set_params = set_params
    return cls


def set_params(estimator: Any, /, **params: Any) -> Any:
    """Set parameters of this estimator, and return it.

    Raises
    ------
    ValueError
        If there is no such parameter.  The message names the closest one.
    """
    cls: Any = type(estimator)
    names = [parameter.name for parameter in parameters_of(cls)]
    for name in params:
        if "__" not in name and name not in (*names, MORE):
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {cls.__name__}; {hint(name, names)}"
            )
    from sklearn.base import BaseEstimator  # workers import this module without scikit-learn

    further = params.keys() & {*getattr(cls, "_flat_names", ()), MORE}
    vars(estimator).update({name: params.pop(name) for name in sorted(further)})
    return BaseEstimator.set_params(estimator, **params)


@cache
def _names(cls: Any) -> list[str]:
    from sklearn.base import BaseEstimator

    names: list[str] = BaseEstimator._get_param_names.__func__(cls)
    return names


_LONGEST = 60


@names_parameters
class Described:
    """Base of objects whose repr is a call of their class, with the arguments that were given.

    Arguments are attributes of their name, or of their name after an underscore.  Those with the
    default of the class, and those that the object does not keep, are left out.
    """

    def __repr__(self) -> str:
        return described(self)


def described(value: Any) -> str:
    """Write an object as a call of its class."""
    # Properties may compute, and methods are no arguments.
    arguments, state = [], getattr(value, "__dict__", {})
    for name, parameter in _parameters(type(value)).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        names = [of for of in (name, f"_{name}", f"{name}_name") if of in state]
        if names and not _is_default(state[names[0]], parameter.default):
            arguments.append(f"{name}={_short(state[names[0]])}")
    return f"{type(value).__name__}({', '.join(arguments)})"


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        return {}


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    plain = (bool, int, float, str, tuple)
    return isinstance(value, plain) and type(value) is type(default) and value == default


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"<array of shape {value.shape}>"
    if inspect.isroutine(value):
        return f"<{value.__qualname__}>"
    text = shown(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
