"""Inputs and outputs of decisions, one by one and as tables of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.decisions.problem import DecisionProblem


class DecisionInput(NamedTuple):
    """An input of :class:`PredictThenOptimizeTask` that needs more than one array.

    Parameters
    ----------
    instance : ndarray, shape (n_features,), optional
        Features of the instance.
    items : ndarray, shape (n_items, n_item_features), optional
        Features of its items.
    problem : DecisionProblem, optional
        Problem of this instance, where instances differ in what is feasible.
    """

    instance: NDArray[Any] | None = None
    items: NDArray[Any] | None = None
    problem: DecisionProblem | None = None


class Decision(NamedTuple):
    """An output of :class:`PredictThenOptimizeTask`.

    Parameters
    ----------
    chosen : ndarray, shape (n_items,)
        The decision z.
    costs : ndarray, shape (n_items,), optional
        The true costs c of a true output; None in a predicted one.
    """

    chosen: FloatArray
    costs: FloatArray | None = None


class _Tables(Sequence[Any]):
    """Examples of one shape, as tables that have a row for each and are attributes, too."""

    entry: type[Any]

    def __init__(self, **tables: NDArray[Any]) -> None:
        self.tables = tables
        vars(self).update(tables)

    def __len__(self) -> int:
        return len(next(iter(self.tables.values())))

    def __getitem__(self, index: Any) -> Any:
        rows = {name: table[index] for name, table in self.tables.items()}
        return (self.entry if isinstance(index, int | np.integer) else type(self))(**rows)


class DecisionInputs(_Tables):
    """Inputs of finite features, as tables of the ``instance``, of the ``items``, or of both.

    ``features`` names the kinds for the task, and ``n_items`` is None where items have no features.
    """

    entry = DecisionInput

    def __init__(self, **tables: NDArray[Any]) -> None:
        super().__init__(**tables)
        self.features = "both" if len(tables) > 1 else next(iter(tables))
        self.n_items = tables["items"].shape[1] if "items" in tables else None


class TrueDecisions(_Tables):
    """True outputs of problems with equally many items, as tables ``chosen`` and ``costs``."""

    entry = Decision
    chosen: FloatArray
    costs: FloatArray
