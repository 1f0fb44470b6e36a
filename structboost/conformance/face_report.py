"""Report of the battery of a face."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["FaceReport", "ReportRow"]

Status = Literal["yes", "declared", "no"]


@dataclass(frozen=True)
class ReportRow:
    """Result of one behaviour.

    Parameters
    ----------
    kind, behaviour : str
        Kind of behaviour, such as ``"state"``, and its name.
    status : {"yes", "declared", "no"}
        ``"declared"`` if the class declares that it does not do this.
    messages : tuple of str
        Faults, or the reason that the class gives.
    """

    kind: str
    behaviour: str
    status: Status
    messages: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join((f"{self.kind}, {self.behaviour}: {self.status}", *self.messages))


@dataclass
class FaceReport:
    """Results of :func:`structboost.check_face`.

    Parameters
    ----------
    face : str
        Name of the class.
    rows : list of ReportRow
        One per behaviour.
    n_calls : int
        Number of calls of fit, predict and the other methods.
    """

    face: str
    rows: list[ReportRow] = field(default_factory=list)
    n_calls: int = 0

    @property
    def faults(self) -> list[str]:
        """Messages of all behaviours that fail."""
        return [
            f"{row.kind}, {row.behaviour}: {message}"
            for row in self.rows
            if row.status == "no"
            for message in row.messages
        ]

    def __str__(self) -> str:
        return "\n".join((f"{self.face}, {self.n_calls} calls", *map(str, self.rows)))
