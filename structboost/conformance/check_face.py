"""Check of an estimator against the behaviours that all faces share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structboost.conformance import (
    input_behaviours,
    result_behaviours,
    state_behaviours,
    value_behaviours,
)
from structboost.conformance.behaviours import BEHAVIOURS
from structboost.conformance.checked_face import Face
from structboost.conformance.face_report import FaceReport
from structboost.errors import FaceError

__all__ = ["check_face", "face_report"]

# Their behaviours are on the list.
_MODULES = (input_behaviours, value_behaviours, state_behaviours, result_behaviours)


def check_face(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    kind: str | None = None,
    only: Iterable[str] | None = None,
) -> FaceReport:
    """Check that an estimator or trainer behaves like every other.

    Whoever learns one of them learns all: columns are matched by name, equal values give equal
    results in any type and container, bad values are refused by the name of their argument, a fit
    that fails leaves the old model, files give the same model, and so on.  The fits are small, and
    take as long as the parameters of the estimator let them: give few rounds.

    A class that does not have a behaviour declares it with a reason, in a dict ``_declares``.  For
    a trainer, the class of its task may do so.  An error that a method of this task raises for a
    bad example is as good as one of this package: ``fit`` and ``predict`` add the name of the
    example.

    Parameters
    ----------
    estimator : estimator or trainer
        Object of a class of this package, or of a subclass.  It is not changed.
    X, y : sequence, optional
        Examples, at least 40.  Trainers need them; for others there are small ones.
    kind : str, optional
        Kind of inputs, where a class takes several.  By default the first.
    only : iterable of str, optional
        Names of the behaviours to check, or of their kinds.  By default all.

    Returns
    -------
    report : FaceReport
        One row per behaviour; it can be printed.

    Raises
    ------
    FaceError
        If a behaviour is missing.  The message has all faults; ``report`` is an attribute.
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from structboost import StructBoostClassifier, check_face
    >>> report = check_face(StructBoostClassifier(max_iter=3), only=["repr"])
    >>> report.rows[0].status
    'yes'
    """
    report = face_report(estimator, X, y, kind=kind, only=only)
    if report.faults:
        raise FaceError(report)
    return report


def face_report(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    kind: str | None = None,
    only: Iterable[str] | None = None,
) -> FaceReport:
    """Return the report of :func:`check_face`, whatever it has, with the same arguments."""
    names = {name for b in BEHAVIOURS for name in (b.kind, b.name)}
    chosen = names if only is None else set(only)
    if not chosen <= names:
        raise ValueError(f"only has {sorted(chosen - names)}; give some of {sorted(names)}.")
    face = Face(estimator, X, y, kind)
    report = FaceReport(face.name)
    for behaviour in BEHAVIOURS:
        if behaviour.name in chosen or behaviour.kind in chosen:
            report.rows.append(behaviour.row(face))
    report.n_calls = face.n_calls
    return report
