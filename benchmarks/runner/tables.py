"""Records as text: tables of columns, each of which says its head and what stands in a cell."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


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


def table(rows: Iterable[Any], columns: Sequence[Column]) -> str:
    """One line for each row; empty if there are none."""
    lines = [[column.cell(row) for column in columns] for row in rows]
    return aligned([column.head for column in columns], lines) if lines else ""


def pivot(
    made: Iterable[Any],
    row: str,
    column: str,
    cell: Callable[[Any], str],
    columns: Sequence[Any] | None = None,
    head: str = "",
) -> str:
    """Records in a table by the values of two fields; ``columns`` that no record has are left out.

    A cell without a record is given an empty dict.
    """
    by_key = {(r[row], r[column]): r for r in made}
    present = {key[1] for key in by_key}
    names = [name for name in (columns or sorted(present)) if name in present]
    rows = [
        [str(key), *(cell(by_key.get((key, name), {})) for name in names)]
        for key in dict.fromkeys(key[0] for key in by_key)
    ]
    return aligned([head, *map(str, names)], rows)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first flush left, the others flush right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(_justified(line, widths)) for line in lines)


def _justified(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    others = zip(line[1:], widths[1:], strict=True)
    return [line[0].ljust(widths[0]), *(text.rjust(width) for text, width in others)]


def blocks(*parts: str) -> str:
    """Parts of a page with a blank line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def number(value: Any, form: str) -> str:
    """A number, or a dash for null."""
    return "-" if value is None else form.format(value)


def share(value: float | None) -> str:
    """A gap in percent."""
    return number(value, "{:.2%}")


def percent(r: dict[str, Any], digits: int) -> str:
    """Value and standard deviation of a record, in percent."""
    return with_std(r, digits, 100)


def with_std(r: dict[str, Any], digits: int, factor: float = 1) -> str:
    """Value and standard deviation of a record; a dash without a value."""
    value, std = r.get("value"), r.get("std")
    text = number(None if value is None else factor * value, f"{{:.{digits}f}}")
    return text if value is None or std is None else f"{text} ±{factor * std:.{digits}f}"
