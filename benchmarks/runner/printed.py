"""Tables as they stand on a page: for pages that were written before records were kept beside it.

A page that is measured again has its records in NAME.json, and nothing here is needed for it.
"""

import re
from itertools import pairwise

Row = dict[str, str]
DASHES = re.compile(r"^-+(  +-+)+$")
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def tables_of(text: str) -> list[list[Row]]:
    """Rows of each table of a page, by the heads of its columns; the second "a" is "a 2".

    The label of a row has the key ``""``. The key ``"title"`` holds the head above the labels, or
    else the line above the table.
    """
    lines = text.splitlines()
    return [_table(lines, at) for at, line in enumerate(lines) if at > 1 and DASHES.match(line)]


def _table(lines: list[str], at: int) -> list[Row]:
    # Columns are flush right, so a cell ends where the dashes of its column do.
    ends = [found.end() for found in re.finditer("-+", lines[at])]
    cuts = [0, *ends]
    first, *heads = _cells(lines[at - 1], cuts)
    counts = [heads[: k + 1].count(head) for k, head in enumerate(heads)]
    named = [head if n == 1 else f"{head} {n}" for head, n in zip(heads, counts, strict=True)]
    title = first or lines[at - 2].strip()
    rows = []
    for line in lines[at + 1 :]:
        if len(line) > ends[-1] or not all(line[end : end + 2] == "  " for end in ends[:-1]):
            break  # an empty line, or a note
        cells = _cells(line, cuts)
        rows.append({**dict(zip(["", *named], cells, strict=True)), "title": title})
    return rows


def _cells(line: str, cuts: list[int]) -> list[str]:
    return [line[begin:end].strip() for begin, end in pairwise(cuts)]


def first_number(cell: str | None) -> float | None:
    """The first number of a cell, before any deviation; None for a dash or a missing cell."""
    found = NUMBER.search(cell or "")
    return float(found.group()) if found and cell != "-" else None
