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
from structboost.lookup_table import LookupTable
from structboost.model_file import load_model, save_model
from structboost.segmentation.linear_and_stumps import LinearAndStumpTable
from structboost.structured_svm import StructuredSVM
from structboost.tasks.superpixel_crf import SuperpixelGraph
from structboost.weak.stump import StumpTable

_NODE, _EDGE = "node", "edge"
_STEPS = ("bias", "features", "thresholds", "indptr", "values")


@dataclass(frozen=True)
class AdditiveEnergy:
    """Scores of parts: a weight for each potential, a constant, and steps of single potentials.

    Attributes
    ----------
    weights : ndarray, shape (n_potentials,)
    constant : float
    steps : LookupTable or None
        What stumps add.
    """

    weights: NDArray[np.float64]
    constant: float
    steps: LookupTable | None = None

    @classmethod
    def of_stumps(cls, model: Ensemble, kind: str) -> AdditiveEnergy:
        """Of an ensemble of stumps, or of linear functions and stumps."""
        member, matrix = model.members[kind], model.matrix(kind)
        table, weights = member.learners, np.zeros(member.n_features)
        if isinstance(table, LinearAndStumpTable):
            weights = matrix[:, 0] @ table.coefficients
            table = table.stumps
        assert isinstance(table, StumpTable)
        return cls(weights, 0.0, LookupTable.of_stumps(table, matrix, member.n_features))

    def scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Shape (n_parts, 1)."""
        linear = (rows @ self.weights + self.constant)[:, None]
        return linear if self.steps is None else linear + self.steps.scores(rows)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays a model file holds."""
        arrays: dict[str, NDArray[Any]] = {"linear": np.append(self.weights, self.constant)}
        if self.steps is None:
            return arrays
        return arrays | {f"steps_{name}": getattr(self.steps, name) for name in _STEPS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> AdditiveEnergy:
        """What :meth:`to_arrays` gave, checked: a damaged file never makes scoring read outside of the arrays.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        weights, constant = arrays["linear"][:-1], float(arrays["linear"][-1])
        if "steps_features" not in arrays:
            return cls(weights, constant)
        steps = LookupTable(**{name: arrays[f"steps_{name}"] for name in _STEPS}, n_features=len(weights))
        used, indptr = steps.features, steps.indptr
        fits = (
            indptr.shape == (len(used) + 1,)
            and indptr[0] == 0
            and (np.diff(indptr) >= 0).all()
            and indptr[-1] == len(steps.thresholds)
            and steps.values.shape == (len(steps.thresholds) + len(used), 1)
            and steps.bias.shape == (1,)
            and ((used >= 0) & (used < len(weights))).all()
        )
        if not fits:
            raise ValueError("the steps of its energies are damaged")
        return cls(weights, constant, steps)


@dataclass(frozen=True)
class CRFModel:
    """Energies (22) of images and their minima.

    Attributes
    ----------
    n_labels : int
    model : Ensemble or dict of str to AdditiveEnergy
        By kind of part: ``node``, and ``edge`` unless edges were left out.  Trees stay an ensemble.
    """

    n_labels: int
    model: Ensemble | Mapping[str, AdditiveEnergy]

    @classmethod
    def of(cls, trainer: StructBoost | StructuredSVM) -> CRFModel:
        """What a trainer of :class:`structboost.SuperpixelCRFTask` has learned."""
        n_labels: int = trainer.task.n_labels  # type: ignore[attr-defined]
        if isinstance(trainer, StructBoost):
            return cls._of_ensemble(n_labels, trainer.model_)
        by_kind = trainer.w_ if isinstance(trainer.w_, dict) else {_NODE: trainer.w_}
        linear = {_NODE: AdditiveEnergy(by_kind[_NODE][:-1, 0], float(by_kind[_NODE][-1, 0]))}
        if _EDGE in by_kind:
            linear[_EDGE] = AdditiveEnergy(by_kind[_EDGE][:, 0], 0.0)
        return cls(n_labels, linear)

    @classmethod
    def _of_ensemble(cls, n_labels: int, model: Ensemble) -> CRFModel:
        additive = (StumpTable, LinearAndStumpTable)
        if not all(isinstance(member.learners, additive) for member in model.members.values()):
            return cls(n_labels, model)
        return cls(n_labels, {kind: AdditiveEnergy.of_stumps(model, kind) for kind in model.members})

    @property
    def kinds(self) -> list[str]:
        """Kinds of parts."""
        return list(self.model.members if isinstance(self.model, Ensemble) else self.model)

    def energies(self, graph: SuperpixelGraph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each superpixel and label, shape (n, n_labels), and of each edge whose ends differ, shape (n_edges,)."""
        rows = graph.potentials.reshape(-1, graph.potentials.shape[2])
        nodes = self._scores(rows, _NODE).reshape(-1, self.n_labels)
        if _EDGE not in self.kinds or not len(graph.edges):
            return nodes, np.zeros(len(graph.edges))
        edges = self._scores(graph.edge_potentials, _EDGE)[:, 0]
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
        return {
            f"{kind}_{name}": array for kind, energy in self.model.items() for name, array in energy.to_arrays().items()
        }

    @classmethod
    def from_arrays(cls, n_labels: int, arrays: Mapping[str, NDArray[Any]]) -> CRFModel:
        """What :meth:`to_arrays` gave.

        Raises
        ------
        ModelFileError, KeyError, ValueError
            If the arrays are damaged.
        """
        if "ensemble" in arrays:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                path.write_bytes(arrays["ensemble"].tobytes())
                return cls._of_ensemble(n_labels, load_model(path))
        by_kind = {
            kind: {name[len(kind) + 1 :]: array for name, array in arrays.items() if name.startswith(f"{kind}_")}
            for kind in (_NODE, _EDGE)
        }
        if not by_kind[_NODE]:
            raise KeyError(_NODE)
        return cls(n_labels, {kind: AdditiveEnergy.from_arrays(own) for kind, own in by_kind.items() if own})

    def _scores(self, rows: NDArray[Any], kind: str) -> NDArray[np.float64]:
        return self.model.scores(rows, kind) if isinstance(self.model, Ensemble) else self.model[kind].scores(rows)


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
