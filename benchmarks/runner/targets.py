"""What was to be shown, and whether a page shows it: each page says so from its own records."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from benchmarks.runner.records import Record, by

WORDS = {True: "met", False: "**missed**", None: "not measured"}
RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Target(NamedTuple):
    """A target of the project; ``met`` is None if the page does not have what it takes to tell."""

    wanted: str
    measured: str
    met: bool | None


def as_table(targets: Sequence[Target]) -> str:
    """A sentence on what is missed, and all targets as a table."""
    missed = "; ".join(target.wanted for target in targets if target.met is False)
    said = f"Targets missed: {missed}." if missed else "No measured target is missed."
    rows = [f"| {wanted} | {measured} | {WORDS[met]} |" for wanted, measured, met in targets]
    return "\n".join([said, "", "| target | measured | |", "| --- | --- | --- |", *rows])


def reach(
    wanted: str, value: float | None, relation: str, limit: float, form: str = "{:.3g}"
) -> Target:
    """A target for one number: ``<``, ``<=``, ``>`` or ``>=`` a limit."""
    if value is None:
        return Target(wanted, "-", None)
    return Target(wanted, form.format(value), bool(RELATIONS[relation](value, limit)))


def each(
    made: Iterable[Record],
    names: Iterable[str],
    holds: Callable[..., bool],
    *methods: str,
    key: str = "value",
) -> list[tuple[str, bool]]:
    """Whether something holds for a field of some methods, on each data set that has them all."""
    records = by(made, "dataset", "method")
    found = {name: [records.get((name, m), {}).get(key) for m in methods] for name in names}
    return [(name, bool(holds(*values))) for name, values in found.items() if None not in values]


def all_of(
    wanted: str, holds: Iterable[tuple[str, bool]], n: int | None = None, least: int | None = None
) -> Target:
    """A target for each of ``n`` sets, or for at least some; the sets where it fails are named.

    Without ``n`` it is for those that are on the page.
    """
    found = list(holds)
    n = n or max(1, len(found))
    failing = [name for name, holds_there in found if not holds_there]
    n_met = len(found) - len(failing)
    least = n if least is None else least
    is_possible = n_met + n - len(found) >= least
    measured = f"{n_met} of {n}" + (f"; not {', '.join(failing)}" if failing else "")
    return Target(wanted, measured, True if n_met >= least else None if is_possible else False)
