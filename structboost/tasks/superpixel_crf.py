"""Labels of superpixels by a conditional random field (StructBoost, section 3.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.contract.parts import PartKind, SparseFeature, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Decomposes, Lists, Searches, Separates, Task, Validates
from structboost.errors import TaskError
from structboost.inference.arguments import check_has, labels_of, node_pairs, not_negative, passes
from structboost.inference.superpixel_crf import alpha_expansion_labels
from structboost.tasks.base import exchange, indicator
from structboost.validation import checked_flag, checked_whole_number

Labels = IntArray


@dataclass(frozen=True, eq=False)
class SuperpixelGraph:
    """Potentials of one image, the input of :class:`SuperpixelCRFTask`.

    Parameters
    ----------
    potentials : ndarray, shape (n_superpixels, n_labels, n_unary)
        U(y, x) of each superpixel and label.
    edges : ndarray of int64, shape (n_edges, 2)
        Superpixels that touch; there may be none.
    edge_potentials : ndarray, shape (n_edges, n_pairwise)
        V(x) of an edge whose ends have different labels; nothing is paid where they agree.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an edge does not join two superpixels.
    """

    potentials: AnyArray
    edges: IntArray
    edge_potentials: AnyArray

    def __post_init__(self) -> None:
        if self.potentials.ndim != 3 or not len(self.potentials):
            raise ValueError(
                f"potentials has shape {self.potentials.shape}; give (n_superpixels, n_labels, "
                "n_unary), at least one superpixel."
            )
        edges = node_pairs(self.edges, "edges", len(self.potentials))
        object.__setattr__(self, "edges", edges)
        if self.edge_potentials.ndim != 2 or len(self.edge_potentials) != len(edges):
            raise ValueError(
                f"edge_potentials has shape {self.edge_potentials.shape} for {len(edges)} edges; "
                "give a row for each."
            )

    @property
    def n_superpixels(self) -> int:
        """Number of nodes."""
        return len(self.potentials)

    def restricted(self, is_left: BoolArray) -> SuperpixelGraph:
        """Return the graph of the superpixels that are not void in the truth."""
        places = np.cumsum(is_left) - 1
        whole = is_left[self.edges].all(axis=1)
        return SuperpixelGraph(
            self.potentials[is_left], places[self.edges[whole]], self.edge_potentials[whole]
        )


@dataclass(frozen=True, eq=False)
class TrueLabels:
    """A true output with the cost of a wrong label of each superpixel.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_superpixels,)
        Label of each superpixel.
    areas : ndarray, shape (n_superpixels,)
        Costs, not negative; such as fractions of the image, so that the loss is a fraction of the
        pixels.

    Raises
    ------
    ValueError
        If the shapes differ, or an area is negative or not finite.
    """

    labels: Labels
    areas: FloatArray

    def __post_init__(self) -> None:
        not_negative(self.areas, "areas", (len(self.labels),))


class SuperpixelCRFTask(Task, Searches, Decomposes, Lists, Separates, Validates):
    """A label for every superpixel, with node parts (superpixel, label) and edge parts.

    The energy (22) of an output is the sum of the scores of the chosen node parts and of the edges
    whose ends differ; an output scores minus its energy.  Edge learners return 0 or 1 and weights
    are not negative, so that the energy is submodular (24): for two labels the argmax is an exact
    :func:`minimum cut <structboost.inference.min_cut_labels>`.  For more labels it is
    :func:`alpha-expansion <structboost.inference.alpha_expansion_labels>`, primal values are
    estimates, and nothing is certified.  Of equally good labels the argmax takes the same ones in
    every call; without edges the first label.

    A true output is an array of labels, and the loss is the number of wrong ones (26); or
    :class:`TrueLabels`, and it is the area of the wrong ones.

    Parameters
    ----------
    n_labels : int
        Labels are 0..n_labels-1.
    pairwise : bool
        False leaves the edges out: superpixels are labelled one by one.

    Raises
    ------
    ValueError, TypeError
        If ``n_labels`` is out of its range.

    Notes
    -----
    StructBoost, section 3.6.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.tasks import SuperpixelCRFTask
    >>> task = SuperpixelCRFTask(2)
    >>> task.loss(np.array([0, 1, 1]), np.array([0, 0, 1]))
    1.0
    """

    separates_in_batches = True

    def __init__(self, n_labels: int = 2, *, pairwise: bool = True) -> None:
        self.n_labels = checked_whole_number(n_labels, "n_labels", least=2)
        self.pairwise = checked_flag(pairwise, "pairwise")
        self.exact_argmax = self.n_labels == 2 or not pairwise
        self.kinds = {"node": PartKind(1, (-1.0, 1.0))}
        if pairwise:
            self.kinds["edge"] = PartKind(1, (0.0, 1.0))

    @override
    def parts(self, x: SuperpixelGraph) -> dict[str, AnyArray]:
        check_has(x, ("potentials", "edges", "edge_potentials"), "a SuperpixelGraph")
        n, n_labels, n_unary = x.potentials.shape
        if n_labels != self.n_labels:
            raise TaskError(
                f"The potentials are of {n_labels} labels; the task has {self.n_labels}."
            )
        parts = {"node": x.potentials.reshape(n * n_labels, n_unary)}
        return parts | {"edge": x.edge_potentials} if self.pairwise else parts

    @override
    def stack(self, X: Sequence[SuperpixelGraph]) -> StackedParts:
        if self.pairwise and not any(len(getattr(x, "edges", (x,))) for x in X):
            raise TaskError(
                "X has no image with two superpixels that touch; use "
                "SuperpixelCRFTask(pairwise=False)."
            )
        return super().stack(X)

    @override
    def joint_feature(self, x: SuperpixelGraph, y: Labels | TrueLabels) -> dict[str, SparseFeature]:
        labels, _ = self._truth(y, x)
        chosen = np.arange(len(labels)) * self.n_labels + labels
        measures = {"node": indicator(chosen, value=-1.0)}
        cut = np.flatnonzero(_differ(labels, x.edges))
        return measures | {"edge": indicator(cut, value=-1.0)} if self.pairwise else measures

    @override
    def loss(self, y: Labels | TrueLabels, y_pred: Labels | TrueLabels) -> float:
        (true, areas), (predicted, _) = self._truth(y), self._truth(y_pred)
        if len(true) != len(predicted):
            raise TaskError(
                f"One output has {len(true)} labels, the other {len(predicted)}; give one for each "
                "superpixel."
            )
        return float(areas[true != predicted].sum())

    @override
    def loss_scores(self, x: SuperpixelGraph, y: Labels | TrueLabels) -> dict[str, FloatArray]:
        # On a true node part the joint feature is -1, so the others gain its area.
        zeros = np.zeros((x.n_superpixels, self.n_labels))
        return {"node": _minus_loss(zeros, *self._truth(y, x)).reshape(-1, 1)}

    @override
    def argmax(self, x: SuperpixelGraph, scores: Any) -> Labels:
        energies = scores["node"] if self.pairwise else scores
        energies = energies.reshape(x.n_superpixels, self.n_labels)
        if not self.pairwise:
            return np.asarray(np.argmin(energies, axis=1), np.int64)
        return alpha_expansion_labels(energies, x.edges, scores["edge"][:, 0])

    @override
    def outputs(self, x: SuperpixelGraph) -> Iterator[Labels]:
        for labels in product(range(self.n_labels), repeat=x.n_superpixels):
            yield np.array(labels, np.int64)

    @override
    def is_valid(self, x: SuperpixelGraph, y: Labels | TrueLabels) -> bool:
        return passes(self._truth, y, x)

    @override
    def separate(
        self, X: Sequence[SuperpixelGraph], Y: Sequence[Labels | TrueLabels], scores: StackedParts
    ) -> Separation:
        # One cut of all graphs side by side; the energy minus the loss is (30).
        truths = [self._truth(y, x, i) for i, (x, y) in enumerate(zip(X, Y, strict=True))]
        true, areas = (np.concatenate(column) for column in zip(*truths, strict=True))
        sizes = np.array([x.n_superpixels for x in X])
        owners, bounds = np.repeat(np.arange(len(X)), sizes), np.arange(len(X) + 1)
        energies = _minus_loss(scores.rows["node"].reshape(-1, self.n_labels), true, areas)
        if self.pairwise:
            edges = np.concatenate(
                [x.edges + first for x, first in zip(X, np.cumsum(sizes) - sizes, strict=True)]
            )
            labels = alpha_expansion_labels(energies, edges, scores.rows["edge"][:, 0], owners)
        else:
            labels = np.argmin(energies, axis=1)
        wrong = np.flatnonzero(labels != true)
        # The true part, of weight -1, leaves, and the other one enters.
        first = wrong * self.n_labels
        differences = {"node": exchange((first + true[wrong], first + labels[wrong]), value=-1.0)}
        indptr = {"node": np.searchsorted(np.repeat(owners[wrong], 2), bounds)}
        if self.pairwise:
            change = _differ(labels, edges).astype(np.float64) - _differ(true, edges)
            changed = np.flatnonzero(change)
            differences["edge"] = SparseFeature(
                changed, np.zeros(len(changed), np.int64), change[changed]
            )
            indptr["edge"] = np.searchsorted(owners[edges[changed, 0]], bounds)
        losses = np.bincount(owners[wrong], areas[wrong], len(X)).astype(np.float64)
        return Separation(losses, differences, indptr)

    def _truth(
        self, y: Labels | TrueLabels, x: SuperpixelGraph | None = None, sample: int | None = None
    ) -> tuple[Labels, FloatArray]:
        """Return labels, checked, and areas, ones by default."""
        labels = labels_of(
            y.labels if isinstance(y, TrueLabels) else y,
            "An output" if sample is None else "Y[{sample}]",
            None if x is None else x.n_superpixels,
            self.n_labels - 1,
            more=". Leave void superpixels out with SuperpixelGraph.restricted",
            sample=sample,
        )
        return labels, y.areas if isinstance(y, TrueLabels) else np.ones(len(labels))


def _differ(labels: Labels, edges: IntArray) -> BoolArray:
    """Mark the edges whose ends have different labels."""
    return np.asarray(labels[edges[:, 0]] != labels[edges[:, 1]])


def _minus_loss(energies: FloatArray, true: Labels, areas: FloatArray) -> FloatArray:
    """Add to the energy of a true label the gain of another, which is the loss up to a constant."""
    out = energies.copy()
    out[np.arange(len(true)), true] += areas
    return out
