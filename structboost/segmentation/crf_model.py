"""Trained CRF, with energies of superpixels and edges and the labels of least energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from structboost._typing import FloatArray, IntArray
from structboost.files.archive import Arrays
from structboost.files.schema import Array, DamagedFileError
from structboost.inference.superpixel_crf import expanded_labels
from structboost.model.ensemble import FORMAT, Ensemble
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.described import described
from structboost.tasks.superpixel_crf import SuperpixelGraph
from structboost.training.trainer import Trainer

_LOG_FACTORS = (-7.0, 7.0)
_NODE, _EDGE = "node", "edge"


@dataclass(frozen=True, repr=False)
class CRFModel:
    """Model of the energies (22) of images, with their minima.

    Attributes
    ----------
    n_labels : int
    model : Ensemble
        Kinds of parts are ``node`` and, unless edges were left out, ``edge``.
    """

    schema: ClassVar[Mapping[str, Array]] = {"ensemble": Array("uint8", ("n_bytes",))}

    n_labels: int
    model: Ensemble

    def __repr__(self) -> str:
        return described(self)

    @classmethod
    def of(cls, trainer: Trainer) -> CRFModel:
        """Build the energies of a trainer of :class:`structboost.tasks.SuperpixelCRFTask`."""
        return cls(trainer.task.n_labels, trainer.model_)  # type: ignore[attr-defined]

    def energies(self, graph: SuperpixelGraph) -> tuple[FloatArray, FloatArray]:
        """Compute the energies of labels, shape (n_superpixels, n_labels), and of edges.

        An edge has its cost if its ends have different labels.
        """
        rows = graph.potentials.reshape(-1, graph.potentials.shape[2])
        with one_blas_thread():
            nodes = self.model.scorer(_NODE).raw_scores(rows).reshape(-1, self.n_labels)
            if _EDGE not in self.model.members or not len(graph.edges):
                return nodes, np.zeros(len(graph.edges))
            edges = self.model.scorer(_EDGE).raw_scores(graph.edge_potentials)[:, 0]
        return nodes, np.maximum(edges, 0.0)  # sums of steps may be negative by rounding

    def labels_and_costs(
        self, graph: SuperpixelGraph, fixed: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Find the labels of least energy, and the costs of others.

        Parameters
        ----------
        graph : SuperpixelGraph
        fixed : ndarray of int64, shape (n_superpixels,), optional
            Labels that the result must have, -1 where any is allowed.

        Returns
        -------
        labels : ndarray of int64, shape (n_superpixels,)
        costs : ndarray, shape (n_superpixels, n_labels)
            Energy of each label of a superpixel, with the best labels of the others; terms that are
            common to all labels of a superpixel are left out.
        """
        nodes, edges = self.energies(graph)
        if fixed is not None:
            indices = np.flatnonzero(fixed >= 0)
            more_than_can_be_saved = 1.0 + np.ptp(nodes, axis=1).sum() + edges.sum()
            nodes[indices] += more_than_can_be_saved
            nodes[indices, fixed[indices]] -= more_than_can_be_saved
        labels = expanded_labels(nodes, graph.edges, edges)
        return labels, conditional_costs(nodes, graph.edges, edges, labels)

    def to_arrays(self) -> Arrays:
        """Return the arrays for a model file."""
        return {"ensemble": np.frombuffer(FORMAT.to_bytes(*self.model.to_arrays()), np.uint8)}

    @classmethod
    def from_arrays(
        cls, n_labels: int, arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
    ) -> CRFModel:
        """Build the model from arrays of :meth:`to_arrays` that fit its schema.

        ModelFileError or DamagedFileError if the ensemble is damaged, or is not of superpixels and
        edges.
        """
        with FORMAT.damage("crf/ensemble"):
            model = Ensemble.from_arrays(
                *FORMAT.from_bytes(arrays["ensemble"].tobytes(), "crf/ensemble")
            )
        widths = {kind: member.n_features for kind, member in model.members.items()}
        if _NODE not in widths or not widths.items() <= sizes.items():
            raise DamagedFileError("the ensemble of its energies is of other potentials")
        if any(kind.n_channels != 1 for kind in model.kinds.values()):
            raise DamagedFileError("the ensemble of its energies has several scores")
        return cls(n_labels, model)


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
