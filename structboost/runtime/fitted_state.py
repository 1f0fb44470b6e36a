"""Fitted attributes, which every ``fit`` replaces in one step at its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from structboost.runtime.compiled import announce_compilation
from structboost.runtime.interrupts import deferred_interrupts
from structboost.validation import check_parameters

Face = TypeVar("Face", bound=Any)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Attribute that holds the names of the attributes that the last fit set.
_NAMES = "_names_of_fit"
# Message of Ctrl-C in a fit that has no model yet.
_WITHOUT_MODEL = "fit was interrupted before it had a model; the object is as it was before fit."
# Beginnings of private attributes that scikit-learn and recipes set before a fit.
_SET_BY_OTHERS = (
    "_metadata_request", "_sklearn_", "_skl_callbacks", "_parent_callback_ctx", "_objective",
    "_keeps_only_whole",
)  # fmt: skip


def committed(
    fit: Callable[Concatenate[Face, Arguments], Result],
) -> Callable[Concatenate[Face, Arguments], Result]:
    """Make a method such as ``fit`` train a draft of its object, and keep all of it or nothing.

    The draft has the parameters of the object, and no fitted attributes.  Afterwards the object
    takes over the attributes of the draft in a single assignment.  So a fit that raises an error,
    or that Ctrl-C ends without a model, leaves the previous model as it was, and KeyboardInterrupt
    gets a message.  Of several fits in threads, the last one to end determines all attributes.

    The first Ctrl-C is deferred as in :func:`structboost.runtime.interrupts.deferred_interrupts`,
    and a second one is raised at once.  A compilation is announced.
    Parameters are checked first against their ranges.
    """

    @wraps(fit)
    def fit_and_commit(self: Face, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            check_parameters(self, self.get_params(deep=False))
            announce_compilation()
            draft = unfitted_copy(self)
            before = frozenset(vars(draft))
            with deferred_interrupts():
                result = fit(draft, *args, **kwargs)
            fitted = {name: value for name, value in vars(draft).items() if name not in before}
            state = {**_settings(self), **fitted, _NAMES: frozenset(fitted)}
        except KeyboardInterrupt as stopped:
            stopped.args = stopped.args or (_WITHOUT_MODEL,)
            raise
        self.__dict__ = state
        return self if result is draft else result

    return fit_and_commit


def unfitted_copy(face: Face) -> Face:
    """Return a shallow copy without fitted attributes."""
    draft = object.__new__(type(face))
    draft.__dict__.update(_settings(face))
    return draft


def fitted_attributes(face: Any) -> dict[str, Any]:
    """Return the attributes that a fit has set."""
    settings = _settings(face)
    return {name: value for name, value in vars(face).items() if name not in settings}


def _settings(face: Any) -> dict[str, Any]:
    """Return the attributes of an object that no fit has set."""
    state = vars(face)
    parameters = face.get_params(deep=False)
    of_fit = state.get(_NAMES, ())
    # A model that was read from a file has no list of names.
    is_read = _NAMES not in state and any(map(_is_public_fitted, state))
    return {
        name: value
        for name, value in state.items()
        if name in parameters
        or not (
            _is_public_fitted(name)
            or name == _NAMES
            or name in of_fit
            or (is_read and name.startswith("_") and not name.startswith(_SET_BY_OTHERS))
        )
    }


def _is_public_fitted(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")
