"""Face under check, with its examples, a model of them, and the calls of its methods."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from types import FrameType
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from structboost.conformance.examples import Examples, Kind
from structboost.conformance.kinds import KINDS
from structboost.contract.task import Task
from structboost.errors import ExampleNote
from structboost.validation import shown

# Methods whose results describe a model.
_METHODS = (
    "predict",
    "predict_proba",
    "decision_function",
    "predict_costs",
    "predict_marginals",
    "scores",
    "transform",
)
# Packages whose errors are ours; sklearn's checks of arguments name them as we do.
_OURS = (
    "structboost.",
    "sklearn.base",
    "sklearn.utils.validation",
    "sklearn.utils._param_validation",
)

# Some checks change example 37.
_FEWEST = 40


class Face:
    """Estimator or trainer under check."""

    def __init__(self, estimator: Any, X: Any, y: Any, kind: str | None) -> None:
        kind = _kind_name(estimator, kind)
        self.estimator = clone(estimator)
        parameters = self.estimator.get_params(deep=False)
        if parameters.get("random_state", 0) is None:
            self.estimator.set_params(random_state=0)
        self.kind: Kind = KINDS[kind]
        self.name = type(estimator).__name__
        self.examples = self.kind.draw(np.random.default_rng(0)) if X is None else _checked(X, y)
        arguments = list(inspect.signature(estimator.fit).parameters)
        self.input_name, self.output_name = arguments[:2]
        first = next(iter(inspect.signature(self.method(estimator)).parameters))
        # Names by which a message may name an input of a prediction.
        self.input_names = [self.input_name, first]
        self.n_calls = 0

    @property
    def declared(self) -> Mapping[str, str]:
        """Behaviours that the class does not have, and why."""
        declared: dict[str, str] = dict(self.kind.lacks)
        cls = type(self.estimator)
        if hasattr(cls, "predict_proba") and not hasattr(self.estimator, "predict_proba"):
            declared["probabilities"] = "its objective has none"
        # What a trainer refuses is up to its task, which may be the user's.
        task = type(getattr(self.estimator, "task", None))
        for base in (*reversed(cls.__mro__), *reversed(task.__mro__)):
            declared |= vars(base).get("_declares", {})
        return declared

    def has(self, parameter: str) -> bool:
        """Whether the estimator has a parameter."""
        return parameter in self.estimator.get_params(deep=False)

    def takes(self, argument: str) -> bool:
        """Whether ``fit`` takes an argument."""
        return argument in inspect.signature(self.estimator.fit).parameters

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a method, and count the call."""
        self.n_calls += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **named)

    def fresh(self, **parameters: Any) -> Any:
        """Return an estimator that is not fitted."""
        return clone(self.estimator).set_params(**parameters)

    def fit(self, model: Any, examples: Examples, **more: Any) -> Any:
        """Fit an estimator."""
        return self.call(model.fit, examples.X, examples.y, **{**examples.more, **more})

    @cached_property
    def _model(self) -> Any:
        return self.fit(self.fresh(), self.examples)

    def model(self) -> Any:
        """Return a copy of the model of the examples."""
        return deepcopy(self._model)

    @cached_property
    def expected(self) -> dict[str, Any]:
        """Responses of the model on its examples."""
        return self.responses(self._model, self.examples.X)

    def responses(self, model: Any, X: Any) -> dict[str, Any]:
        """Return what the methods of a model return for inputs."""
        names = [name for name in _METHODS if hasattr(model, name) and not _is_without(model, name)]
        values = {name: self.call(self.kind.ask, getattr(model, name), X) for name in names}
        # Parts that are stacked have arrays of rows.
        return {name: getattr(value, "rows", value) for name, value in values.items()}

    def difference(
        self, model: Any, X: Any = None, expected: Mapping[str, Any] | None = None
    ) -> str:
        """Return in words how a model differs on inputs, or an empty string.

        By default these are the examples, and the responses those of their model.
        """
        X = self.examples.X if X is None else X
        try:
            name = unequal(
                self.expected if expected is None else expected, self.responses(model, X)
            )
        except Exception as error:
            return f"raises {type(error).__name__}: {shortened(str(error))}"
        return name and f"gives other results of {name}"

    def respond(self, model: Any, X: Any) -> Any:
        """Predict, or transform."""
        return self.call(self.kind.ask, self.method(model), X)

    @staticmethod
    def method(model: Any) -> Any:
        """Return the method that every face has, predict or transform."""
        return model.predict if hasattr(model, "predict") else model.transform

    def refusal(
        self, names: Sequence[str], call: Callable[..., Any], *arguments: Any
    ) -> str | None:
        """Return the fault in the way in which a call is refused, or None."""
        return refusal(names, lambda: self.call(call, *arguments))

    def equal_or_refused(
        self,
        names: Sequence[str],
        call: Callable[[], Mapping[str, Any]],
        expected: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Return the fault, unless responses are the expected ones or clearly refused."""
        try:
            responses = self.call(call)
        except Exception as error:
            return fault_of_error(error, names)
        difference = unequal(self.expected if expected is None else expected, responses)
        return difference and f"other results of {difference}, and no word"


def _checked(X: Any, y: Any) -> Examples:
    """Return the examples of the user, or raise ValueError if there are too few."""
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_samples < _FEWEST:
        raise ValueError(f"X has {n_samples} examples; give at least {_FEWEST}.")
    return Examples(X, y)


def _kind_name(estimator: Any, kind: str | None) -> str:
    kinds = getattr(type(estimator), "_face_kinds", ())
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator is the class {estimator.__name__}; give an object of it, such as "
            f"{estimator.__name__}(...)."
        )
    if isinstance(estimator, Task):
        raise TypeError(
            f"estimator is {shown(estimator)}, a task; check it by check_task, and then the "
            "trainer with it, such as StructuredSVM(task)."
        )
    if not kinds:
        raise TypeError(
            f"estimator is {shown(estimator)}; give an object of a class of structboost, or of "
            "a subclass of one."
        )
    if kind is not None and kind not in kinds:
        raise ValueError(f"kind is {kind!r}; give one of {', '.join(kinds)}.")
    return str(kinds[0] if kind is None else kind)


def _is_without(model: Any, name: str) -> bool:
    """Whether a method exists, but this model has no probabilities to sum."""
    return name == "predict_marginals" and not hasattr(model, "classes_")


def refusal(names: Sequence[str], call: Callable[[], Any]) -> str | None:
    """Return the fault in the way in which a call is refused, or None."""
    try:
        result = call()
    except Exception as error:
        return fault_of_error(error, names)
    return f"was not refused, but gave {shortened(result)}"


def fault_of_error(error: BaseException, names: Sequence[str]) -> str | None:
    """Return why an error is no clear refusal, or None.

    A clear refusal is a ValueError or TypeError raised by this package, with one of ``names`` in
    its message.  An error of a method of a user's task keeps its class; a note names the example.
    """
    message = "\n".join((str(error), *getattr(error, "__notes__", ())))
    said = f"{type(error).__name__}: {shortened(message)}"
    frames = list(traceback.walk_tb(error.__traceback__))
    module = frames[-1][0].f_globals.get("__name__", "")
    if _is_of_users_task(error, [frame for frame, _ in frames]):
        return None
    is_ours = type(error).__module__.startswith("structboost.")
    is_kind = isinstance(error, ValueError | TypeError) or is_ours
    if not is_kind or isinstance(error, UnicodeError):
        return f"raw error {said} (in {module})"
    if not module.startswith(_OURS):
        return f"raw error of {module}: {said}"
    if isinstance(error, NotFittedError):
        return f"was not refused as an argument: {said}"
    if names and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names):
        wanted = names[0] if len(names) == 1 else "the argument"
        return f"error does not name {wanted}: {said}"
    return None


def _is_of_users_task(error: BaseException, frames: Sequence[FrameType]) -> bool:
    """Whether a method of a task outside this package raised an error that names the example."""
    methods = {n.method for n in getattr(error, "__notes__", ()) if isinstance(n, ExampleNote)}
    return any(
        frame.f_code.co_name in methods
        and not frame.f_globals.get("__name__", "").startswith("structboost.")
        for frame in frames
    )


def shortened(value: Any) -> str:
    """Return a short text of a value, on one line."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) < 160 else text[:157] + "..."


def unequal(expected: Mapping[str, Any], responses: Mapping[str, Any]) -> str:
    """Return the name of the first response that differs, or an empty string."""
    for name, response in expected.items():
        if name not in responses or not same(response, responses[name]):
            return name
    return ""


def same(a: Any, b: Any) -> bool:
    """Whether two responses are equal, up to rounding."""
    if isinstance(a, Mapping):
        return (
            isinstance(b, Mapping)
            and len(a) == len(b)
            and all(key in b and same(value, b[key]) for key, value in a.items())
        )
    if isinstance(a, str) or not _has_parts(a):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind in "fiub" and b.dtype.kind in "fiub":
            return a.shape == b.shape and bool(
                np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
            )
        return a.shape == b.shape and bool(np.all(a == b))
    a, b = list(_parts(a)), list(_parts(b))
    return len(a) == len(b) and all(map(same, a, b))


def _has_parts(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray)
    return (
        isinstance(value, list | tuple)
        or hasattr(value, "__dataclass_fields__")
        or (is_array and value.dtype == object and value.ndim > 0)
    )


def _parts(value: Any) -> Iterator[Any]:
    if hasattr(value, "__dataclass_fields__"):
        return iter([getattr(value, name) for name in value.__dataclass_fields__])
    return iter(value if isinstance(value, list | tuple | np.ndarray) else [value])
