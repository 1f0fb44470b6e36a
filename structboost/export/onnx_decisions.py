"""Predicted costs of decisions in ONNX graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.decisions.model import STD_OF_START, DecisionModel, Preparation
from structboost.export.onnx_graph import Graph
from structboost.export.onnx_inputs import GraphInputs, encoded
from structboost.export.onnx_scorers import scores_of
from structboost.export.onnx_trees import Subtree, rounded


def costs_of(model: DecisionModel, inputs: GraphInputs) -> str:
    """Add the predicted costs of all items, shape (n, n_items).

    Features of instances, shape (n, n_features), are the input ``X``, and so are those of items,
    shape (n, n_items, n_features).  Where there are both, they are ``instance`` and ``items``.
    """
    graph, preparation = inputs.graph, model.preparation
    trained: Any = model.trainer
    n_items, several = trained.task.n_items, len(model.reader.columns) > 1
    tables = {}
    for kind, columns in model.reader.columns.items():
        width = columns.n_features
        shape = ["n", width] if kind == "instance" else ["n", n_items, width]
        if several:
            rows = graph.input(kind, shape)
        elif kind == "instance":
            rows = inputs.numbers(width, columns.names, columns.categories)
        else:
            rows = inputs.rows(shape)
        rows = rows if kind == "instance" else graph.add("Flatten", rows, axis=2)
        if columns.categories:
            graph.facts.setdefault("categories", {})[kind] = columns.categories
        if columns.names is not None:
            graph.facts.setdefault("feature_names", {})[kind] = columns.names
        tables[kind] = _scaled(graph, encoded(graph, rows, columns.encoding), preparation, kind)
    if "start" in preparation.arrays:
        _add_start(graph, tables, preparation, n_items)
    terms = []
    for kind, rows in tables.items():
        n_channels = trained.task.kinds[kind].n_channels
        scores = scores_of(graph, trained.model_.scorer(kind), rows, n_channels)
        terms.append(_by_instance(graph, scores, n_items))
    total = terms[0] if len(terms) == 1 else graph.add("Add", *terms)
    return graph.add("Mul", total, graph.constant(float(model.scale)))


def _scaled(graph: Graph, rows: str, preparation: Preparation, kind: str) -> str:
    """Add standardised features, where missing ones are 0."""
    mean, std = (graph.constant(preparation.arrays[f"{kind}_{of}"]) for of in ("mean", "spread"))
    scaled = graph.add("Div", graph.add("Sub", rows, mean), std)
    return graph.add("Where", graph.add("IsNaN", rows), graph.constant(0.0), scaled)


def _add_start(
    graph: Graph, tables: dict[str, str], preparation: Preparation, n_items: int
) -> None:
    """Append the start to the features of items."""
    terms = []
    for kind, rows in tables.items():
        if kind in preparation.trees:
            predicted = _boosted(graph, preparation.trees[kind], rows)
        else:
            table = preparation.arrays[f"of_{kind}"]
            product = graph.add("MatMul", rows, graph.constant(table[:, :-1].T))
            predicted = graph.add("Add", product, graph.constant(table[:, -1]))
        terms.append(_by_instance(graph, predicted, n_items))
    total = terms[0] if len(terms) == 1 else graph.add("Add", *terms)
    center, std = preparation.arrays["start"].tolist()
    total = graph.add("Sub", total, graph.constant(center))
    total = graph.add("Mul", total, graph.constant(STD_OF_START / std))
    column = graph.add("Reshape", total, graph.constant(np.array([-1, 1])))
    items = tables.get("items")
    tables["items"] = column if items is None else graph.add("Concat", items, column, axis=1)


def _by_instance(graph: Graph, values: str, n_items: int) -> str:
    return graph.add("Reshape", values, graph.constant(np.array([-1, n_items])))


def _boosted(graph: Graph, model: Any, rows: str) -> str:
    """Add the predictions of boosted trees, one channel for each output."""
    models = getattr(model, "estimators_", [model])
    trees = [
        _subtree(predictor.nodes, graph.dtype, np.arange(len(models)) == channel)
        for channel, one in enumerate(models)
        for (predictor,) in one._predictors
    ]
    predicted = graph.ensemble(rows, trees, len(models))
    bases = [float(one._baseline_prediction.item()) for one in models]
    return graph.add("Add", predicted, graph.constant(bases))


def _subtree(
    nodes: NDArray[Any], dtype: np.dtype[Any], is_channel: NDArray[np.bool_], at: int = 0
) -> Subtree:
    """Return the subtree at a node of scikit-learn's histogram trees."""
    node = nodes[at]
    if node["is_leaf"]:
        return node["value"] * is_channel
    sides = (_subtree(nodes, dtype, is_channel, node[side]) for side in ("left", "right"))
    (threshold,) = rounded(node["num_threshold"][None], dtype).tolist()
    return (int(node["feature_idx"]), threshold, *sides, int(node["missing_go_to_left"]))
