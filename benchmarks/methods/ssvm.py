"""Structured SVM on the features themselves: the linear baseline of every table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.methods.base import Method, Table


class Fitted(NamedTuple):
    """Scaler and machine."""

    scaler: StandardScaler
    machine: Any


class SSVM(Method):
    """`StructuredSVM` on standardised features and a constant one, which stands for the intercept."""

    name = "ssvm"
    packages = ("numba",)
    candidates = [{"C": float(C)} for C in np.logspace(1, 3, 6)]

    def fit(self, train: Table, params: dict[str, Any]) -> Fitted:
        """Scale, then train."""
        from structboost.structured_svm import StructuredSVM
        from structboost.tasks import MulticlassTask

        scaler = StandardScaler().fit(train.X)
        machine = StructuredSVM(MulticlassTask(int(train.y.max()) + 1), C=params["C"], random_state=0)
        return Fitted(scaler, machine.fit(with_constant(scaler.transform(train.X)), train.y))

    def output(self, model: Fitted, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return np.asarray(model.machine.predict(with_constant(model.scaler.transform(X))))

    def warm_up(self) -> None:
        """Compile all kernels on a made table."""
        X = np.arange(12.0, dtype=np.float32).reshape(6, 2)
        self.output(self.fit(Table(X, np.array([0, 0, 1, 1, 2, 2])), {"C": 10.0}), X)

    def sources(self) -> list[Path]:
        """This file and the whole package."""
        import structboost

        return [*super().sources(), Path(structboost.__file__).parent]


def with_constant(X: np.ndarray) -> np.ndarray:
    """The table with a column of ones behind it."""
    return np.column_stack([X, np.ones(len(X), X.dtype)])
