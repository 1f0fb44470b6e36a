"""Inheritance of parameters of the estimators, with their documentation."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

import numpy as np

T = TypeVar("T")

_HEADING = re.compile(r"\n(Parameters|Attributes|Examples)\n-+\n")
# A heading such as ``tol : float``, and the indented lines below it.
_ENTRY = re.compile(r"^(\w+) : .*(?:\n(?:[ ].*)?)*", re.MULTILINE)


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Turn annotated class attributes into keyword-only parameters of ``__init__``.

    A class inherits the parameters of its bases with their defaults, and the entries of their
    docstrings under *Parameters* and *Attributes*, unless it overrides them.  In signature and
    docstring, the parameters of the class come before those of its bases.  *Examples* are not
    inherited.
    """
    decorated: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    signature = inspect.signature(decorated.__init__)
    of_self = signature.parameters["self"]
    names = dict.fromkeys(
        name
        for base in decorated.__mro__
        for name in inspect.get_annotations(base)
        if name in signature.parameters
    )
    ordered = [of_self, *(signature.parameters[name] for name in names)]
    decorated.__init__.__signature__ = signature.replace(parameters=ordered)
    decorated.__doc__ = _documentation(decorated, list(names))
    return cls


def _documentation(cls: Any, parameters: list[str]) -> str:
    """Return the docstring of a class with the entries of its bases."""
    summary, *sections = _HEADING.split(inspect.cleandoc(cls.__doc__ or ""))
    texts = dict(zip(sections[::2], sections[1::2], strict=True))
    examples = texts.pop("Examples", "")
    cls._described = {
        section: {entry[1]: entry[0].rstrip() for entry in _ENTRY.finditer(text)}
        for section, text in texts.items()
    }
    blocks = [summary.rstrip()]
    for section in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for base in cls.__mro__:
            entries = vars(base).get("_described", {}).get(section, {}) | entries
        names = parameters if section == "Parameters" else sorted(entries)
        blocks.append("\n".join((section, "-" * len(section), *(entries[name] for name in names))))
    if examples:
        blocks.append(f"Examples\n--------\n{examples.rstrip()}")
    return "\n\n".join(blocks) + "\n"


def is_same(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same object or equal plain values."""
    plain = (str, int, float)
    value, other = _unboxed(value), _unboxed(other)
    return value is other or (
        isinstance(value, plain) and type(value) is type(other) and value == other
    )


def _unboxed(value: Any) -> Any:
    """Convert a scalar of numpy to one of Python."""
    return value.item() if isinstance(value, np.generic) else value
