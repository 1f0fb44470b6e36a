"""Parameters of the estimators: each is declared and described once, on the class that adds it."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

import numpy as np

T = TypeVar("T")

_HEADING = re.compile(r"\n(Parameters|Attributes)\n-+\n")
# A head such as ``tol : float``, and the indented lines below it.
_ENTRY = re.compile(r"^(\w+) : .*(?:\n(?:[ ].*)?)*", re.MULTILINE)


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Class decorator: annotated class attributes become keyword-only parameters of ``__init__``.

    A class inherits the parameters of its bases with their defaults, and the entries of their
    docstrings under *Parameters* and *Attributes*, unless it gives its own.  In signature and
    docstring the parameters of the class stand before those of its bases.
    """
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    signature = inspect.signature(made.__init__)
    of_self = signature.parameters["self"]
    names = dict.fromkeys(
        name
        for base in made.__mro__
        for name in inspect.get_annotations(base)
        if name in signature.parameters
    )
    ordered = [of_self, *(signature.parameters[name] for name in names)]
    made.__init__.__signature__ = signature.replace(parameters=ordered)
    made.__doc__ = _documentation(made, list(names))
    return cls


def _documentation(cls: Any, parameters: list[str]) -> str:
    """Docstring of a class, with the entries of its bases."""
    summary, *sections = _HEADING.split(inspect.cleandoc(cls.__doc__ or ""))
    cls._described = {
        section: {entry[1]: entry[0].rstrip() for entry in _ENTRY.finditer(text)}
        for section, text in zip(sections[::2], sections[1::2], strict=True)
    }
    blocks = [summary.rstrip()]
    for section in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for base in cls.__mro__:
            entries = vars(base).get("_described", {}).get(section, {}) | entries
        names = parameters if section == "Parameters" else sorted(entries)
        blocks.append("\n".join((section, "-" * len(section), *(entries[name] for name in names))))
    return "\n\n".join(blocks) + "\n"


def is_same(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are one: the same object, or equal plain values."""
    plain = (str, int, float)
    value, other = _unboxed(value), _unboxed(other)
    return value is other or (
        isinstance(value, plain) and type(value) is type(other) and value == other
    )


def _unboxed(value: Any) -> Any:
    """A scalar of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
