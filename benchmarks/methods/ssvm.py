"""Structured SVM on the features themselves: the linear baseline of every table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.imports import imported_sources
from benchmarks.methods.base import Method, Table, uninterrupted


class Fitted(NamedTuple):
    """Scaler and machine."""

    scaler: StandardScaler
    machine: Any


class SSVM(Method):
    """`StructuredSVM` on features standardised on the training part.

    The grid is wider than the paper's 10..1000, whose ends are the best values on half of the sets.
    """

    name = "ssvm"
    packages = ("numba",)
    candidates = [{"C": float(C)} for C in np.logspace(0, 5, 6)]

    def fit(self, train: Table, params: dict[str, Any]) -> Fitted:
        """Scale, then train."""
        from structboost import MulticlassTask, StructuredSVM

        scaler = StandardScaler().fit(train.X)
        machine = StructuredSVM(MulticlassTask(int(train.y.max()) + 1), C=params["C"], random_state=0)
        return Fitted(scaler, uninterrupted(machine.fit(scaler.transform(train.X), train.y)))

    def output(self, model: Fitted, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return np.asarray(model.machine.predict(model.scaler.transform(X)))

    def warm_up(self) -> None:
        """Compile all kernels on a made table."""
        X = np.arange(12.0, dtype=np.float32).reshape(6, 2)
        self.output(self.fit(Table(X, np.array([0, 0, 1, 1, 2, 2])), {"C": 10.0}), X)

    def facts(self, model: Fitted) -> dict[str, Any]:
        """The certificate of the last pass."""
        last = model.machine.history_[-1]
        return {"rounds": last["round"], "gap": last["gap"], "certified": last["certified"]}

    def sources(self) -> list[Path]:
        """This file and what it uses of the package."""
        return [*super().sources(), *imported_sources("structboost.structured_svm", "structboost.tasks.multiclass")]
