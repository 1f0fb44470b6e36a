"""Records as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first flush left, the others flush right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def number(value: float | None, form: str) -> str:
    """A number, or a dash for null."""
    return "-" if value is None else form.format(value)


def share(value: float | None) -> str:
    """A gap in percent."""
    return number(value, "{:.2%}")


def percent(r: dict[str, Any], digits: int) -> str:
    """Value and standard deviation of a record, in percent."""
    if r.get("value") is None:
        return "-"
    text = f"{100 * r['value']:.{digits}f}"
    return text if r.get("std") is None else f"{text} ±{100 * r['std']:.{digits}f}"
