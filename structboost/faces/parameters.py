"""Declaration of the parameters of estimators, with their documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from structboost.objectives.values import OBJECTIVES
from structboost.runtime.called_class import names_calls

T = TypeVar("T")

_HEADING = re.compile(r"\n(Parameters|Attributes|Examples)\n-+\n")
# A heading such as ``tol : float``, and the indented lines below it.
_ENTRY = re.compile(r"^([\w*]+) : .*(?:\n(?:[ ].*)?)*", re.MULTILINE)


def estimator(*parts: type) -> Callable[[type[T]], type[T]]:
    """Turn annotated attributes of a class and of its parts into keyword-only parameters.

    A class inherits the parameters of its bases with their defaults, and the entries of their
    docstrings under *Parameters* and *Attributes*, unless it overrides them.  In signature and
    docstring, the parameters of the class come before those of its bases.  *Examples* are not
    inherited.  Parts are classes that only declare: their parameters and entries are those of the
    class, and they are not among its bases.

    A class with several objectives takes ``objective`` by position, too, and any parameter of its
    objectives, which is None unless it is set.
    """

    def decorate(cls: type[T]) -> type[T]:
        annotations = inspect.get_annotations(cls)
        for part in parts:
            for name, of in inspect.get_annotations(part).items():
                if name not in annotations and "ClassVar" not in str(of):
                    annotations[name] = of
                    setattr(cls, name, getattr(part, name))
        cls.__annotations__ = annotations
        decorated: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
        init, objectives = vars(decorated)["__init__"], getattr(decorated, "_objectives", ())
        signature = inspect.signature(init)
        of_self = signature.parameters["self"]
        names = dict.fromkeys(
            name
            for base in decorated.__mro__
            for name in inspect.get_annotations(base)
            if name in signature.parameters
        )
        ordered = [signature.parameters[name] for name in names]
        flat = dict.fromkeys(f for of in objectives for f in OBJECTIVES[of].parameters())
        decorated._flat_names = tuple(name for name in flat if name not in names)
        if objectives:
            for name in decorated._flat_names:
                if not hasattr(cls, name):
                    setattr(cls, name, None)
            init = _init_with_flat(init, decorated._flat_names)
            decorated.__init__ = init
            ordered.sort(key=lambda parameter: parameter.name != "objective")
            ordered[0] = ordered[0].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
            ordered.append(inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD))
        init.__signature__ = signature.replace(parameters=[of_self, *ordered])
        shown = [f"{'**' if of.kind is of.VAR_KEYWORD else ''}{of.name}" for of in ordered]
        decorated.__doc__ = _documentation(decorated, parts, shown)
        return names_calls(cls)

    return decorate


def _init_with_flat(init: Callable[..., None], flat: Sequence[str]) -> Any:
    """Return a constructor that takes parameters of objectives, too."""

    def __init__(self: Any, *objective: Any, **parameters: Any) -> None:
        for name in flat:
            if name in parameters:
                setattr(self, name, parameters.pop(name))
        init(self, **dict(zip(("objective",), objective, strict=False)), **parameters)

    __init__.takes = flat  # type: ignore[attr-defined]
    return __init__


def _documentation(cls: Any, parts: Sequence[type], parameters: Sequence[str]) -> str:
    """Return the docstring of a class with the entries of its parts and its bases."""
    summary, sections = _sections(cls)
    examples = sections.pop("Examples", "")
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
        blocks.append("\n".join((section, "-" * len(section), *(entries[name] for name in names))))
    if examples:
        blocks.append(f"Examples\n--------\n{examples.rstrip()}")
    return "\n\n".join(blocks) + "\n"


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring before its sections, and the sections by their headings."""
    summary, *sections = _HEADING.split(inspect.cleandoc(cls.__doc__ or ""))
    return summary, dict(zip(sections[::2], sections[1::2], strict=True))
