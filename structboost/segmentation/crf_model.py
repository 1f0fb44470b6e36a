"""A trained CRF as plain arrays: energies of superpixels and edges, and the labels of least energy."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.boosting import StructBoost
from structboost.ensemble import Ensemble
from structboost.inference.alpha_expansion import expanded_labels
from structboost.model_file import load_model, save_model
from structboost.structured_svm import StructuredSVM
from structboost.tasks.superpixel_crf import SuperpixelGraph
from structboost.weak.stump import StumpTable

_NODE, _EDGE = "node", "edge"


@dataclass(frozen=True)
class LinearEnergy:
    """Linear scores of parts: weights of the potentials, and a constant."""

    weights: NDArray[np.float64]
    constant: float

    def scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Shape (n_parts, 1)."""
        return (rows @ self.weights + self.constant)[:, None]


@dataclass(frozen=True)
class CRFModel:
    """Energies (22) of images and their minima.

    Attributes
    ----------
    n_labels : int
    model : Ensemble or dict of str to LinearEnergy
        What boosting or the linear SVM learned, by kind of part: ``node``, and ``edge`` unless edges were left out.
    """

    n_labels: int
    model: Ensemble | Mapping[str, LinearEnergy]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scorers", {kind: self._scorer(kind) for kind in self.kinds})

    @classmethod
    def of(cls, trainer: StructBoost | StructuredSVM) -> CRFModel:
        """What a trainer of :class:`structboost.SuperpixelCRFTask` has learned."""
        n_labels: int = trainer.task.n_labels  # type: ignore[attr-defined]
        if isinstance(trainer, StructBoost):
            return cls(n_labels, trainer.model_)
        by_kind = trainer.w_ if isinstance(trainer.w_, dict) else {_NODE: trainer.w_}
        linear = {_NODE: LinearEnergy(by_kind[_NODE][:-1, 0], float(by_kind[_NODE][-1, 0]))}
        if _EDGE in by_kind:
            linear[_EDGE] = LinearEnergy(by_kind[_EDGE][:, 0], 0.0)
        return cls(n_labels, linear)

    @property
    def kinds(self) -> list[str]:
        """Kinds of parts."""
        return list(self.model.members if isinstance(self.model, Ensemble) else self.model)

    def energies(self, graph: SuperpixelGraph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each superpixel and label, shape (n, n_labels), and of each edge whose ends differ, shape (n_edges,)."""
        rows = graph.potentials.reshape(-1, graph.potentials.shape[2])
        nodes = self._scorers[_NODE].scores(rows).reshape(-1, self.n_labels)  # type: ignore[attr-defined]
        if _EDGE not in self.kinds or not len(graph.edges):
            return nodes, np.zeros(len(graph.edges))
        edges = self._scorers[_EDGE].scores(graph.edge_potentials)[:, 0]  # type: ignore[attr-defined]
        # Weights and answers are not negative; sums of table steps may be, by rounding.
        return nodes, np.maximum(edges, 0.0)

    def labels(self, graph: SuperpixelGraph, known: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Labels of least energy.

        Parameters
        ----------
        graph : SuperpixelGraph
        known : ndarray of int64, shape (n,), optional
            Labels that are given, -1 where they are not.
        """
        nodes, edges = self.energies(graph)
        if known is not None:
            fixed = np.flatnonzero(known >= 0)
            more_than_can_be_saved = 1.0 + np.ptp(nodes, axis=1).sum() + edges.sum()
            nodes[fixed] += more_than_can_be_saved
            nodes[fixed, known[fixed]] -= more_than_can_be_saved
        return expanded_labels(nodes, graph.edges, edges)

    def margins(self, graph: SuperpixelGraph) -> NDArray[np.float64]:
        """How much dearer background is than foreground for each superpixel, given the best labels of the others."""
        nodes, weights = self.energies(graph)
        labels = expanded_labels(nodes, graph.edges, weights)
        return neighbour_margins(nodes, graph.edges, weights, labels)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays a model file holds."""
        if isinstance(self.model, Ensemble):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                save_model(self.model, path)
                return {"ensemble": np.frombuffer(path.read_bytes(), np.uint8)}
        arrays = {kind: np.append(energy.weights, energy.constant) for kind, energy in self.model.items()}
        return {f"linear_{kind}": array for kind, array in arrays.items()}

    @classmethod
    def from_arrays(cls, n_labels: int, arrays: Mapping[str, NDArray[Any]]) -> CRFModel:
        """What :meth:`to_arrays` gave.

        Raises
        ------
        ModelFileError, KeyError
            If the arrays are damaged.
        """
        if "ensemble" in arrays:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                path.write_bytes(arrays["ensemble"].tobytes())
                return cls(n_labels, load_model(path))
        linear = {
            kind: LinearEnergy(arrays[f"linear_{kind}"][:-1], float(arrays[f"linear_{kind}"][-1]))
            for kind in (_NODE, _EDGE)
            if f"linear_{kind}" in arrays
        }
        if _NODE not in linear:
            raise KeyError(_NODE)
        return cls(n_labels, linear)

    def _scorer(self, kind: str) -> Any:
        """The fastest thing that scores parts of a kind."""
        if not isinstance(self.model, Ensemble):
            return self.model[kind]
        if isinstance(self.model.members[kind].learners, StumpTable):
            return self.model.compile(kind)
        return _OfKind(self.model, kind)


@dataclass(frozen=True)
class _OfKind:
    model: Ensemble
    kind: str

    def scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return self.model.scores(rows, self.kind)


def neighbour_margins(
    nodes: NDArray[np.float64], edges: NDArray[np.int64], weights: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """E(y_p = 0) - E(y_p = 1) with all other labels as they are, shape (n,); positive where 1 is better.

    Parameters
    ----------
    nodes : ndarray, shape (n, 2)
    edges : ndarray of int64, shape (n_edges, 2)
    weights : ndarray, shape (n_edges,)
    labels : ndarray of int64, shape (n,)
    """
    margins = nodes[:, 0] - nodes[:, 1]
    for here, there in (edges.T, edges.T[::-1]):
        margins = margins + np.bincount(here, weights * (2 * labels[there] - 1), len(nodes))
    return np.asarray(margins, np.float64)
