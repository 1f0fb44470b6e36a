"""StructBoost with and without the tree of the classes: sections 3.4 and 4.3 of the paper."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from benchmarks.methods.base import Table
from benchmarks.methods.structboost import Multiclass


class Flat(Multiclass):
    """The standard multi-class formulation; the paper's grid for this experiment."""

    name = "structboost_flat"
    candidates: ClassVar[list[dict[str, Any]]] = [{"C": float(C)} for C in np.logspace(0, 3, 6)]

    def __init__(self, gap: float) -> None:
        super().__init__(gap)
        self.name = type(self).name


class Tree(Flat):
    """Codes with ancestors, tree loss."""

    name = "structboost_tree"
    task_module = "structboost.tasks.taxonomy"

    def __init__(self, gap: float, taxonomy: Any) -> None:
        super().__init__(gap)
        self.taxonomy = taxonomy

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        """One example a row."""
        from structboost.tasks import TaxonomyTask

        return TaxonomyTask(self.taxonomy), train.X, train.y

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Labels."""
        if not hasattr(model, "compiled_for_benchmark"):
            model.compiled_for_benchmark = model.model_.compile()
        return model.task.class_scores(model.compiled_for_benchmark.scores(X)).argmax(axis=1)

    def warm_up(self) -> None:
        """Compile all kernels on a made table."""
        Flat(self.gap).warm_up()
