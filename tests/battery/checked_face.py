"""Face under check, with its examples, a model of them, and the list of behaviours."""

import inspect
import re
import traceback
import warnings
from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

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
# Behaviours by name: ``faults(face)`` iterates over the faults of a face.
BEHAVIOURS = {}


def behaviour(name):
    """Add a function to the behaviours of this name."""

    def add(faults):
        BEHAVIOURS[name] = faults
        return faults

    return add


class Face:
    """Estimator or trainer under check, with the kind of its inputs.

    ``lacks`` has the names of behaviours that only this class does not have.
    """

    def __init__(self, estimator, kind, lacks=()):
        self.estimator = clone(estimator)
        if estimator.get_params(deep=False).get("random_state", 0) is None:
            self.estimator.set_params(random_state=0)
        self.kind = kind
        self.name = type(estimator).__name__
        self.lacks = {*kind.lacks, *lacks}
        if hasattr(type(estimator), "predict_proba") and not hasattr(estimator, "predict_proba"):
            self.lacks.add("probabilities")
        self.examples = kind.draw(np.random.default_rng(0))
        self.input_name, self.output_name = [*inspect.signature(estimator.fit).parameters][:2]
        first = next(iter(inspect.signature(self.method(estimator)).parameters))
        # Names by which a message may name an input of a prediction.
        self.input_names = [self.input_name, first]

    def has(self, parameter):
        """Whether the estimator has a parameter."""
        return parameter in self.estimator.get_params(deep=False)

    def call(self, function, *arguments, **named):
        """Call a method without its warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **named)

    def fresh(self, **parameters):
        """Return an estimator that is not fitted."""
        return clone(self.estimator).set_params(**parameters)

    def fit(self, model, examples, **more):
        """Fit an estimator."""
        return self.call(model.fit, examples.X, examples.y, **{**examples.more, **more})

    @cached_property
    def _model(self):
        return self.fit(self.fresh(), self.examples)

    def model(self):
        """Return a copy of the model of the examples."""
        return deepcopy(self._model)

    @cached_property
    def expected(self):
        """Responses of the model on its examples."""
        return self.responses(self._model, self.examples.X)

    def responses(self, model, X):
        """Return what the methods of a model return for inputs."""
        names = [name for name in _METHODS if hasattr(model, name) and not _is_without(model, name)]
        values = {name: self.call(self.kind.ask, getattr(model, name), X) for name in names}
        # Parts that are stacked have arrays of rows.
        return {name: getattr(value, "rows", value) for name, value in values.items()}

    def difference(self, model, X=None, expected=None):
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

    def respond(self, model, X):
        """Predict, or transform."""
        return self.call(self.kind.ask, self.method(model), X)

    @staticmethod
    def method(model):
        """Return the method that every face has, predict or transform."""
        return model.predict if hasattr(model, "predict") else model.transform

    def refusal(self, names, call, *arguments):
        """Return the fault in the way in which a call is refused, or None."""
        try:
            result = self.call(call, *arguments)
        except Exception as error:
            return fault_of_error(error, names)
        return f"was not refused, but gave {shortened(result)}"

    def equal_or_refused(self, names, call, expected=None):
        """Return the fault, unless responses are the expected ones or clearly refused."""
        try:
            responses = self.call(call)
        except Exception as error:
            return fault_of_error(error, names)
        difference = unequal(self.expected if expected is None else expected, responses)
        return difference and f"other results of {difference}, and no word"


def _is_without(model, name):
    """Whether a method exists, but this model has no probabilities to sum."""
    return name == "predict_marginals" and not hasattr(model, "classes_")


def fault_of_error(error, names):
    """Return why an error is no clear refusal, or None.

    A clear refusal is a ValueError or TypeError raised by this package, with one of ``names`` in
    its message or in its notes.
    """
    message = "\n".join((str(error), *getattr(error, "__notes__", ())))
    said = f"{type(error).__name__}: {shortened(message)}"
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = frame.f_globals.get("__name__", "")
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


def shortened(value):
    """Return a short text of a value, on one line."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) < 160 else text[:157] + "..."


def unequal(expected, responses):
    """Return the name of the first response that differs, or an empty string."""
    for name, response in expected.items():
        if name not in responses or not same(response, responses[name]):
            return name
    return ""


def same(a, b):
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


def _has_parts(value):
    is_array = isinstance(value, np.ndarray)
    return (
        isinstance(value, list | tuple)
        or hasattr(value, "__dataclass_fields__")
        or (is_array and value.dtype == object and value.ndim > 0)
    )


def _parts(value):
    if hasattr(value, "__dataclass_fields__"):
        return iter([getattr(value, name) for name in value.__dataclass_fields__])
    return iter(value if isinstance(value, list | tuple | np.ndarray) else [value])
