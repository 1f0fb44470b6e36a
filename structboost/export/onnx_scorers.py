"""Conversion of scorers to nodes of ONNX graphs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatchmethod
from typing import Any

import numpy as np

from structboost.export.onnx_graph import Graph
from structboost.export.onnx_trees import Subtree, trees_of_ensemble, trees_of_table, used_channels
from structboost.learners.active_feature import ActiveFeatureScores
from structboost.learners.linear import HyperplaneTable
from structboost.learners.lookup_table import LinearAndSteps, LookupTable, SumOfScorers
from structboost.learners.table import Scorer, WeightedLearners
from structboost.learners.weighted_trees import TreesWithSets, WeightedTrees


def scores_of(graph: Graph, scorer: Scorer, rows: str, n_channels: int) -> str:
    """Add the scores of rows, shape (n, n_channels).

    Raises
    ------
    TypeError
        If the scorer has no form in ONNX.
    """
    terms = _Terms(graph, rows, n_channels)
    terms.take(scorer)
    outputs = list(terms.outputs)
    if terms.trees:
        outputs.append(graph.ensemble(rows, terms.trees, n_channels))
    if not outputs or np.any(terms.bias):
        outputs.append(graph.repeated(np.broadcast_to(terms.bias, n_channels) * 1.0, rows))
    return outputs[0] if len(outputs) == 1 else graph.add("Sum", *outputs)


class _Terms:
    """Terms of a scorer while they are collected, with a method for each form of scorer.

    Attributes
    ----------
    outputs : list of str
        Names of scores in the graph.
    trees : list of Subtree
        Trees that read the rows, of all terms together.
    bias : ndarray or float
        Constant that is added to all scores.
    """

    def __init__(self, graph: Graph, rows: str, n_channels: int) -> None:
        self._graph, self._rows, self._n_channels = graph, rows, n_channels
        self.outputs: list[str] = []
        self.trees: list[Subtree] = []
        self.bias: Any = 0.0

    @singledispatchmethod
    def take(self, scorer: Any) -> None:
        """Collect a scorer.

        Raises
        ------
        TypeError
            If ``scorer`` has no form in ONNX.
        """
        learners = getattr(scorer, "learners", scorer)
        raise TypeError(
            f"Weak learners of the type {type(learners).__name__} have no form in ONNX; train with "
            "'stump', 'pair_tree', 'tree', 'linear', 'feature', 'lda', 'svm', 'perceptron', or a "
            "list of these."
        )

    @take.register
    def _take_sum(self, scorer: SumOfScorers) -> None:
        for term in scorer.terms:
            self.take(term)

    @take.register
    def _take_trees(self, scorer: WeightedTrees) -> None:
        self._add_trees(trees_of_ensemble(scorer, self._graph.dtype))

    @take.register
    def _take_trees_with_sets(self, scorer: TreesWithSets) -> None:
        """Add trees that read columns of sets after the features."""
        rows = self._graph.hstack_sets(self._rows, scorer.columns)
        self.outputs.append(scores_of(self._graph, scorer.trees, rows, self._n_channels))

    @take.register
    def _take_steps(self, scorer: LookupTable) -> None:
        self._add_trees(trees_of_table(scorer, self._graph.dtype))
        self.bias = self.bias + scorer.bias

    @take.register
    def _take_linear_and_steps(self, scorer: LinearAndSteps) -> None:
        self._take_steps(scorer.steps)
        if not scorer.coefficients.any():
            return
        # Around the middle of the features, products are small, so rounding loses less.
        middle = np.zeros(len(scorer.coefficients))
        if scorer.span is not None:
            middle = scorer.span.mean(axis=0).astype(self._graph.dtype)
        rows = self._graph.add("Sub", self._rows, self._graph.constant(middle))
        self._add_product(rows, scorer.coefficients)
        self.bias = self.bias + middle @ scorer.coefficients

    @take.register
    def _take_active(self, scorer: ActiveFeatureScores) -> None:
        """Add the weights of features of 0 and 1, of which some have none."""
        used = np.flatnonzero(scorer.place >= 0)
        if len(used):
            rows = self._graph.columns(self._rows, used)
            self._add_product(rows, scorer.gains[scorer.place[used]])
        self.bias = self.bias + scorer.base

    @take.register
    def _take_learners(self, scorer: WeightedLearners) -> None:
        if not isinstance(scorer.learners, HyperplaneTable):
            self.take(scorer.learners)
        planes: Any = scorer.learners
        graph = self._graph
        side = graph.add("MatMul", self._rows, graph.constant(planes.coefficients.T))
        is_right = graph.add("Greater", side, graph.constant(-planes.intercept))
        step = (planes.right - planes.left)[:, None] * scorer.weights
        self._add_product(graph.cast(is_right), step)
        self.bias = self.bias + planes.left @ scorer.weights

    def _add_product(self, rows: str, coefficients: Any) -> None:
        self.outputs.append(self._graph.add("MatMul", rows, self._graph.constant(coefficients)))

    def _add_trees(self, added: Iterable[Subtree]) -> None:
        self.trees += [tree for tree in added if used_channels(tree).any()]
