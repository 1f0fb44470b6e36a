"""Trained CRF, with energies of superpixels and edges and the labels of least energy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from structboost._typing import FloatArray, IntArray
from structboost.files.archive import Arrays
from structboost.files.schema import Array, DamagedFileError, Part, Schema, below, prefixed
from structboost.inference.superpixel_crf import expanded_labels
from structboost.learners.lookup_table import LinearAndSteps, LookupTable
from structboost.model.ensemble import FORMAT, Ensemble
from structboost.runtime.blas_threads import one_blas_thread
from structboost.runtime.described import described
from structboost.tasks.superpixel_crf import SuperpixelGraph
from structboost.training.trainer import Trainer

_LOG_FACTORS = (-7.0, 7.0)
_NODE, _EDGE = "node", "edge"
_ENSEMBLE = "ensemble"


@dataclass(frozen=True, repr=False)
class CRFModel:
    """Model of the energies (22) of images, with their minima.

    Attributes
    ----------
    n_labels : int
    model : Ensemble or dict of str to LinearAndSteps
        By kind of part, ``node`` and, unless edges were left out, ``edge``.  An ensemble stays an
        ensemble if its energy is not a linear function with steps.
    """

    n_labels: int
    model: Ensemble | Mapping[str, LinearAndSteps]

    def __repr__(self) -> str:
        return described(self)

    @classmethod
    def of(cls, trainer: Trainer) -> CRFModel:
        """Build the energies of a trainer of :class:`structboost.tasks.SuperpixelCRFTask`."""
        n_labels: int = trainer.task.n_labels  # type: ignore[attr-defined]
        model, by_kind = trainer.model_, {}
        for kind in model.members:
            table = LinearAndSteps.of(model.scorer(kind))
            if table is None:
                return cls(n_labels, model)
            by_kind[kind] = table
        return cls(n_labels, by_kind)

    def energies(self, graph: SuperpixelGraph) -> tuple[FloatArray, FloatArray]:
        """Compute the energies of labels, shape (n_superpixels, n_labels), and of edges.

        An edge has its cost if its ends have different labels.
        """
        scorers = (
            {kind: self.model.scorer(kind) for kind in self.model.members}
            if isinstance(self.model, Ensemble)
            else self.model
        )
        rows = graph.potentials.reshape(-1, graph.potentials.shape[2])
        with one_blas_thread():
            nodes = scorers[_NODE].raw_scores(rows).reshape(-1, self.n_labels)
            if _EDGE not in scorers or not len(graph.edges):
                return nodes, np.zeros(len(graph.edges))
            edges = scorers[_EDGE].raw_scores(graph.edge_potentials)[:, 0]
        return nodes, np.maximum(edges, 0.0)  # sums of steps may be negative by rounding

    def labels(self, graph: SuperpixelGraph, fixed: IntArray | None = None) -> IntArray:
        """Find the labels of least energy.

        ``fixed`` are labels that the result must have, -1 where any is allowed.
        """
        nodes, edges = self._energies(graph, fixed)
        return expanded_labels(nodes, graph.edges, edges)

    def label_costs(self, graph: SuperpixelGraph, fixed: IntArray | None = None) -> FloatArray:
        """Compute the energy of each label of a superpixel, with the best labels of the others.

        Terms that are common to all labels of a superpixel are left out.  The energies have the
        shape (n_superpixels, n_labels).
        """
        nodes, edges = self._energies(graph, fixed)
        labels = expanded_labels(nodes, graph.edges, edges)
        return conditional_costs(nodes, graph.edges, edges, labels)

    def _energies(
        self, graph: SuperpixelGraph, fixed: IntArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the energies of an image, in which labels other than the fixed ones never pay."""
        nodes, edges = self.energies(graph)
        if fixed is not None:
            indices = np.flatnonzero(fixed >= 0)
            more_than_can_be_saved = 1.0 + np.ptp(nodes, axis=1).sum() + edges.sum()
            nodes[indices] += more_than_can_be_saved
            nodes[indices, fixed[indices]] -= more_than_can_be_saved
        return nodes, edges

    def margins(self, graph: SuperpixelGraph) -> FloatArray:
        """Compute the energy that foreground saves on each superpixel."""
        costs = self.label_costs(graph)
        return np.asarray(costs[:, 0] - costs[:, 1])

    def to_arrays(self) -> Arrays:
        """Return the arrays for a model file."""
        if isinstance(self.model, Ensemble):
            return {_ENSEMBLE: np.frombuffer(FORMAT.to_bytes(*self.model.to_arrays()), np.uint8)}
        arrays: Arrays = {}
        for kind, energy in self.model.items():
            arrays[f"{kind}_linear"] = energy.coefficients[:, 0]
            for name in LookupTable.schema:
                arrays[f"{kind}_steps_{name}"] = getattr(energy.steps, name)
        return arrays

    @classmethod
    def from_arrays(
        cls, n_labels: int, arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
    ) -> CRFModel:
        """Build the model from arrays of :meth:`to_arrays` that fit its schema.

        ModelFileError or DamagedFileError if an ensemble is damaged, or is not of superpixels and
        edges.
        """
        if _ENSEMBLE in arrays:
            with FORMAT.damage("crf/ensemble"):
                model = Ensemble.from_arrays(
                    *FORMAT.from_bytes(arrays[_ENSEMBLE].tobytes(), "crf/ensemble")
                )
            widths = {kind: member.n_features for kind, member in model.members.items()}
            if _NODE not in widths or not widths.items() <= sizes.items():
                raise DamagedFileError("the ensemble of its energies is of other potentials")
            if any(kind.n_channels != 1 for kind in model.kinds.values()):
                raise DamagedFileError("the ensemble of its energies has several scores")
            return cls(n_labels, model)
        by_kind = {}
        for kind in (_NODE, _EDGE):
            if f"{kind}_linear" in arrays:
                weights = arrays[f"{kind}_linear"]
                steps: dict[str, Any] = below(f"{kind}_steps_", arrays)
                table = LookupTable(**steps, n_features=len(weights))
                by_kind[kind] = LinearAndSteps(weights[:, None], table)
        return cls(n_labels, by_kind)

    @staticmethod
    def schema(names: Collection[str], n_potentials: int, n_edge_potentials: int) -> Schema:
        """Return the schema of the arrays of a file that has arrays of these names."""
        if _ENSEMBLE in names:
            return {"": Part({_ENSEMBLE: Array("uint8", ("n_bytes",))})}
        parts = {}
        for kind, size in ((_NODE, n_potentials), (_EDGE, n_edge_potentials)):
            if kind == _NODE or any(name.startswith(f"{kind}_") for name in names):
                linear = {"linear": Array("float64", ("n_features",))}
                parts[f"{kind}_"] = Part(
                    linear | prefixed("steps_", LookupTable.schema),
                    {"n_features": size, "n_channels": 1},
                )
        return parts


def conditional_costs(
    nodes: FloatArray, edges: IntArray, weights: FloatArray, labels: IntArray
) -> FloatArray:
    """Compute the energy of each label of a node, with all other labels as they are.

    The energies are correct up to a constant per node.
    """
    agreeing = np.zeros_like(nodes)
    for here, there in (edges.T, edges.T[::-1]):
        np.add.at(agreeing, (here, labels[there]), weights)
    return np.asarray(nodes - agreeing, np.float64)


def calibrated_sharpness(costs: Sequence[FloatArray], counts: Sequence[IntArray]) -> float:
    """Return the factor of the energies whose softmax makes the true labels most likely.

    Each image has energies and pixels of each class, shape (n_superpixels, n_labels).
    """
    energies = np.concatenate(costs)
    weights = np.concatenate(counts).astype(np.float64)
    weights /= max(weights.sum(), 1.0)

    def loss(log_factor: float) -> float:
        return -float((weights * log_softmax(-np.exp(log_factor) * energies, axis=1)).sum())

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_FACTORS, method="bounded").x))
