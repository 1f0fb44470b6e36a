"""Targets, and whether a page meets them: each page says so from its own records."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

WORDS = {True: "met", False: "**missed**", None: "not measured"}
RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Target(NamedTuple):
    """A target of the project; ``met`` is None if the page does not have what it takes to tell."""

    wanted: str
    measured: str
    met: bool | None


def as_table(targets: Sequence[Target]) -> str:
    """A sentence on how many are missed, and all targets as a table."""
    said = f"Targets missed: {sum(target.met is False for target in targets)} of {len(targets)}."
    rows = [f"| {wanted} | {measured} | {WORDS[met]} |" for wanted, measured, met in targets]
    return "\n".join([said, "", "| target | measured | |", "| --- | --- | --- |", *rows])


def reach(
    wanted: str, value: float | None, relation: str, limit: float | None, form: str = "{:.3g}"
) -> Target:
    """A target for one number: ``<``, ``<=``, ``>`` or ``>=`` a limit."""
    if value is None or limit is None:
        return Target(wanted, "-", None)
    return Target(wanted, form.format(value), bool(RELATIONS[relation](value, limit)))


def each(
    at: Callable[..., Any],
    names: Iterable[str],
    holds: Callable[..., bool],
    *methods: str,
    name: str = "value",
) -> list[tuple[str, bool]]:
    """Whether something holds for a field of some learners, on each data set that has them all.

    ``at(dataset, method, name=)`` looks a field up.
    """
    rows = {one: [at(one, method, name=name) for method in methods] for one in names}
    return [(one, bool(holds(*values))) for one, values in rows.items() if None not in values]


def all_of(
    wanted: str, holds: Iterable[tuple[str, bool]], n: int | None = None, least: int | None = None
) -> Target:
    """A target for each of ``n`` sets, or for at least some; the sets where it fails are named.

    Without ``n`` it is for those that are on the page.
    """
    results = list(holds)
    n = n or max(1, len(results))
    failing = [name for name, holds_there in results if not holds_there]
    n_met = len(results) - len(failing)
    least = n if least is None else least
    is_possible = n_met + n - len(results) >= least
    measured = f"{n_met} of {n}" + (f"; not {', '.join(failing)}" if failing else "")
    return Target(wanted, measured, True if n_met >= least else None if is_possible else False)
