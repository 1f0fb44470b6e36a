"""Structured SVM on the features themselves: the linear baseline of every table."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.ours.hinge import grid, uninterrupted
from benchmarks.peers.method import Method, Params, made_classes
from benchmarks.runner.datasets import Table
from structboost import MulticlassTask, StructuredSVM


class Fitted(NamedTuple):
    """Scaler and machine."""

    scaler: StandardScaler
    machine: Any

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.machine.predict(self.scaler.transform(X)))


class SSVM(Method):
    """`StructuredSVM` on features standardised on the training part.

    The grid is wider than the paper's 10..1000, whose ends are the best values on half of the sets.
    """

    name = "ssvm"
    packages = ("numba",)
    candidates = grid(0, 5)

    def fit(self, train: Table, params: Params) -> Fitted:
        scaler = StandardScaler().fit(train.X)
        task = MulticlassTask(int(train.y.max()) + 1)
        machine = StructuredSVM(task, C=params["C"], random_state=0)
        return Fitted(scaler, uninterrupted(machine.fit(scaler.transform(train.X), train.y)))

    def warm_up(self) -> None:
        train = made_classes()
        self.output(self.fit(train, {"C": 10.0}), train.X)

    def facts(self, model: Fitted) -> dict[str, Any]:
        last = model.machine.history_[-1]
        return {"rounds": last["round"], "gap": last["gap"], "certified": last["certified"]}
