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
_KEYWORD = inspect.Parameter.KEYWORD_ONLY

_HEADING = re.compile(r"\n(Parameters|Attributes|Examples)\n-+\n")
# A heading such as ``tol : float``, and the indented lines below it.
_ENTRY = re.compile(r"^(\w+) : .*(?:\n(?:[ ].*)?)*", re.MULTILINE)


def estimator(*parts: type) -> Callable[[type[T]], type[T]]:
    """Turn annotated attributes of a class and of its parts into keyword-only parameters.

    A class inherits the parameters of its bases with their defaults, and the entries of their
    docstrings under *Parameters* and *Attributes*, unless it overrides them.  In signature and
    docstring, the parameters of the class come before those of its bases.  *Examples* are not
    inherited.  Parts are classes that only declare: their parameters and entries are those of the
    class, and they are not among its bases.

    A class with several objectives takes all parameters of these, too, each of which is None unless
    it is set.
    """

    def decorate(cls: type[T]) -> type[T]:
        annotations = inspect.get_annotations(cls)
        for part in parts:
            for name, of in inspect.get_annotations(part).items():
                if name not in annotations:
                    annotations[name] = of
                    setattr(cls, name, getattr(part, name))
        declared: Any = cls
        flat: dict[str, list[str]] = {}
        for objective in map(OBJECTIVES.__getitem__, vars(cls).get("_objectives", ())):
            for name in objective.parameters():
                if not hasattr(cls, name):
                    flat.setdefault(name, []).append(objective.__name__)
        for name in flat:
            annotations[name] = Any
            setattr(cls, name, None)
        if flat:
            declared._flat_names = tuple(flat)
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
        decorated.__init__.__signature__ = signature.replace(parameters=ordered)
        texts = {
            name: f"{name} : optional\n    Parameter of {', '.join(owners)} "
            "(:mod:`structboost.objectives`)."
            for name, owners in flat.items()
        }
        decorated.__doc__ = _documentation(decorated, parts, list(names), texts)
        return names_calls(cls)

    return decorate


def _documentation(
    cls: Any, parts: Sequence[type], parameters: Sequence[str], flat: dict[str, str]
) -> str:
    """Return the docstring of a class with the entries of its parts and its bases."""
    summary, sections = _sections(cls)
    examples = sections.pop("Examples", "")
    cls._described = {}
    for section in ("Parameters", "Attributes"):
        entries: dict[str, str] = dict(flat) if section == "Parameters" else {}
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
