"""Records as text: tables of columns, each of which says its head and what stands in a cell."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.runner.records import side_by_side


class Column(NamedTuple):
    """A column of a table: its head, and the text of a cell."""

    head: str
    cell: Callable[[Any], str]


def field(head: str, name: str, form: str = "{}", factor: float | None = None) -> Column:
    """A field of a record, perhaps times a factor; a dash where it is null or missing."""

    def cell(r: dict[str, Any]) -> str:
        value = r.get(name)
        return number(value if value is None or factor is None else factor * value, form)

    return Column(head, cell)


def value(head: str, digits: int, factor: float = 1) -> Column:
    """The value of a record and its standard deviation."""
    return Column(head, lambda r: with_std(r, digits, factor))


def of(key: Any, column: Column) -> Column:
    """A column of one of the records that stand `side_by_side` in a row; a dash without it."""
    return Column(column.head, lambda row: column.cell(row["of"].get(key, {})))


def table(rows: Iterable[Any], columns: Sequence[Column]) -> str:
    """One line for each row; empty if there are none."""
    lines = [[column.cell(row) for column in columns] for row in rows]
    return aligned([column.head for column in columns], lines) if lines else ""


def pivot(
    made: Iterable[Any],
    row: str,
    column: str,
    cell: Callable[[Any], str],
    columns: Sequence[Any],
    head: str = "",
) -> str:
    """Records in a table by the values of two fields; ``columns`` that no record has are left out.

    A cell without a record is given an empty dict.
    """
    rows = side_by_side(made, [row], column)
    present = {name for one in rows for name in one["of"]}
    shown = [of(name, Column(str(name), cell)) for name in columns if name in present]
    return table(rows, [field(head, row), *shown])


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    signs = "<" + ">" * (len(widths) - 1)
    forms = [f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True)]
    return "\n".join("  ".join(forms).format(*line) for line in lines)


def blocks(*parts: str) -> str:
    """Parts of a page with a blank line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def number(value: Any, form: str) -> str:
    """A number, or a dash for null."""
    return "-" if value is None else form.format(value)


def with_std(r: dict[str, Any], digits: int, factor: float = 1, sign: str = "") -> str:
    """Value and standard deviation of a record, perhaps in percent; a dash without a value."""
    text = field("", "value", f"{{:{sign}.{digits}f}}", factor).cell(r)
    std = None if r.get("value") is None else r.get("std")
    return text if std is None else f"{text} ±{factor * std:.{digits}f}"
