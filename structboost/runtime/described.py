"""Text that describes objects."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from scipy import sparse

from structboost.runtime.called_class import names_parameters
from structboost.validation import shown

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
