"""List of the behaviours of a face, which modules of behaviours fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from structboost.conformance.checked_face import Face, shortened
from structboost.conformance.face_report import ReportRow

# Faults of a face, each in one sentence.
Faults = Iterator[str]


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of all faces.

    Parameters
    ----------
    kind, name : str
        Its name, by which a class declares that it lacks it.
    faults : callable
        ``faults(face)`` iterates over the faults of a face.
    refused : callable, optional
        ``refused(face)`` returns how a face that lacks it refuses it wrongly, or None.
    """

    kind: str
    name: str
    faults: Callable[[Face], Faults]
    refused: Callable[[Face], str | None] | None = None

    def row(self, face: Face) -> ReportRow:
        """Return the result of a face."""
        reason = face.declared.get(self.name)
        messages: list[str] = []
        try:
            messages += self.faults(face) if reason is None else self._faults_of_refusal(face)
        except Exception as error:
            messages.append(f"raised {type(error).__name__}: {shortened(str(error))}")
        if messages:
            return ReportRow(self.kind, self.name, "no", tuple(messages))
        if reason is not None:
            return ReportRow(self.kind, self.name, "declared", (reason,))
        return ReportRow(self.kind, self.name, "yes")

    def _faults_of_refusal(self, face: Face) -> Faults:
        fault = None
        if self.refused and self.name not in face.kind.lacks:
            fault = self.refused(face)
        if fault:
            yield f"is declared not to work, but: {fault}"


BEHAVIOURS: list[Behaviour] = []


def behaviour(
    kind: str, name: str, refused: Callable[[Face], str | None] | None = None
) -> Callable[[Any], Any]:
    """Add a function to the list."""

    def add(faults: Callable[[Face], Faults]) -> Callable[[Face], Faults]:
        BEHAVIOURS.append(Behaviour(kind, name, faults, refused))
        return faults

    return add


def faults_of(named: Any, fault: Callable[[Any], str | None]) -> Faults:
    """Iterate over the faults of named values."""
    for name, value in named:
        message = fault(value)
        if message:
            yield f"{name}: {message}"
