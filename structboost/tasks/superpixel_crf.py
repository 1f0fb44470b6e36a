"""Labels of superpixels by a conditional random field (StructBoost, section 3.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.measures import Measure
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.inference.alpha_expansion import expanded_labels

Labels = IntArray


@dataclass(frozen=True, eq=False)
class SuperpixelGraph:
    """An input of :class:`SuperpixelCRFTask`: the potentials of one image.

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
        If the shapes do not fit, or an edge names a superpixel that is not there.
    """

    potentials: NDArray[Any]
    edges: IntArray
    edge_potentials: NDArray[Any]

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, np.int64).reshape(-1, 2)
        object.__setattr__(self, "edges", edges)
        if self.potentials.ndim != 3 or not len(self.potentials):
            raise ValueError(
                f"potentials has shape {self.potentials.shape}; give (n_superpixels, n_labels, "
                "n_unary), at least one "
                "superpixel."
            )
        n = len(self.potentials)
        if self.edge_potentials.ndim != 2 or len(self.edge_potentials) != len(edges):
            raise ValueError(
                f"edge_potentials has shape {self.edge_potentials.shape} for {len(edges)} edges."
            )
        if len(edges) and not (0 <= edges.min() and edges.max() < n):
            raise ValueError(
                f"edges go from {edges.min()} to {edges.max()}; there are {n} superpixels."
            )

    @property
    def n_superpixels(self) -> int:
        """Number of nodes."""
        return len(self.potentials)

    def restricted(self, kept: NDArray[np.bool_]) -> SuperpixelGraph:
        """The graph of the ``kept`` superpixels: training leaves out those void in the truth."""
        number = np.cumsum(kept) - 1
        whole = kept[self.edges].all(axis=1)
        return SuperpixelGraph(
            self.potentials[kept], number[self.edges[whole]], self.edge_potentials[whole]
        )


@dataclass(frozen=True, eq=False)
class TrueLabels:
    """A true output with what a wrong label of each superpixel costs.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_superpixels,)
        Label of each superpixel.
    areas : ndarray, shape (n_superpixels,)
        Not negative; such as shares of the image, so that the loss is a share of the pixels.

    Raises
    ------
    ValueError
        If the shapes differ, or an area is negative or not finite.
    """

    labels: Labels
    areas: FloatArray

    def __post_init__(self) -> None:
        if self.labels.shape != self.areas.shape or self.labels.ndim != 1:
            raise ValueError(
                f"labels has shape {self.labels.shape} and areas {self.areas.shape}; give one of "
                "each."
            )
        wrong = np.flatnonzero(~(np.isfinite(self.areas) & (self.areas >= 0)))
        if len(wrong):
            raise ValueError(
                f"areas[{wrong[0]}] is {self.areas[wrong[0]]}; areas must be finite and not "
                "negative."
            )


class SuperpixelCRFTask(Task):
    """Node parts (superpixel, label) and edge parts; an output gives every superpixel a label.

    The energy (22) of an output is the sum of the scores of the chosen node parts and of the edges
    whose ends differ; an output scores minus its energy.  Edge learners answer in {0, 1} and
    weights are not negative, so that the energy is submodular (24): for two labels the argmax is an
    exact minimum cut.  For more labels it is alpha-expansion, primal values are estimates, and
    nothing is certified.

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
    ValueError
        If ``n_labels`` is out of its range.

    Notes
    -----
    StructBoost, section 3.6.
    """

    def __init__(self, n_labels: int = 2, *, pairwise: bool = True) -> None:
        if isinstance(n_labels, bool) or int(n_labels) != n_labels or n_labels < 2:
            raise ValueError(f"n_labels is {n_labels!r}; give a whole number from 2.")
        self.n_labels = int(n_labels)
        self.pairwise = pairwise
        self.exact_argmax = self.n_labels == 2 or not pairwise  # type: ignore[misc]
        self.kinds = {"node": PartKind(1, (-1.0, 1.0))}
        if pairwise:
            self.kinds["edge"] = PartKind(1, (0.0, 1.0))

    def parts(self, x: SuperpixelGraph) -> dict[str, NDArray[Any]]:
        """Potentials of every (superpixel, label), superpixel by superpixel, and of every edge.

        Raises
        ------
        TaskError
            If the potentials are of another number of labels.
        """
        n, n_labels, n_unary = x.potentials.shape
        if n_labels != self.n_labels:
            raise TaskError(
                f"The potentials are of {n_labels} labels; the task has {self.n_labels}."
            )
        parts = {"node": x.potentials.reshape(n * n_labels, n_unary)}
        return parts | {"edge": x.edge_potentials} if self.pairwise else parts

    def stack(self, X: Sequence[SuperpixelGraph]) -> StackedParts:
        """Parts of all images.

        Raises
        ------
        TaskError
            If no image has an edge: then there is nothing to learn for them.
        """
        if self.pairwise and not any(len(x.edges) for x in X):
            raise TaskError(
                "No image has two superpixels that touch; use SuperpixelCRFTask(pairwise=False)."
            )
        return super().stack(X)

    def joint_feature(self, x: SuperpixelGraph, y: Labels | TrueLabels) -> dict[str, Measure]:
        """Minus one on the part of each chosen label, and on the edges whose ends differ.

        Raises
        ------
        TaskError
            If ``y`` has not one label in 0..n_labels-1 for each superpixel.
        """
        labels, _ = self._truth(x, y)
        cut = np.flatnonzero(_differ(labels, x.edges))
        measures = {"node": _minus_one(np.arange(len(labels)) * self.n_labels + labels)}
        return measures | {"edge": _minus_one(cut)} if self.pairwise else measures

    def loss(self, y: Labels | TrueLabels, y_pred: Labels | TrueLabels) -> float:
        """Area (or number) of the superpixels whose labels differ.

        Raises
        ------
        TaskError
            If an output has labels outside 0..n_labels-1, or the two differ in length.
        """
        (true, areas), (found, _) = self._labels_and_areas(y), self._labels_and_areas(y_pred)
        if len(true) != len(found):
            raise TaskError(
                f"One output has {len(true)} labels, the other {len(found)}; give one for each "
                "superpixel."
            )
        return float(areas[true != found].sum())

    def loss_scores(self, x: SuperpixelGraph, y: Labels | TrueLabels) -> dict[str, FloatArray]:
        """The area on each true node part: there the joint feature is -1, so others gain it."""
        true, areas = self._truth(x, y)
        zeros = np.zeros((x.n_superpixels, self.n_labels))
        return {"node": _minus_loss(zeros, true, areas).reshape(-1, 1)}

    def argmax(self, x: SuperpixelGraph, scores: Any) -> Labels:
        """Labels of least energy; with the loss added, of least energy minus loss (30)."""
        energies = scores["node"] if self.pairwise else scores
        energies = energies.reshape(x.n_superpixels, self.n_labels)
        if not self.pairwise:
            return np.asarray(np.argmin(energies, axis=1), np.int64)
        return expanded_labels(energies, x.edges, scores["edge"][:, 0])

    def outputs(self, x: SuperpixelGraph) -> Iterator[Labels]:
        """All labellings."""
        for labels in product(range(self.n_labels), repeat=x.n_superpixels):
            yield np.array(labels, np.int64)

    def is_valid(self, x: SuperpixelGraph, y: Labels | TrueLabels) -> bool:
        """Whether ``y`` has a label in 0..n_labels-1 for each superpixel."""
        try:
            return len(self._labels_and_areas(y)[0]) == x.n_superpixels
        except TaskError:
            return False

    def separate(
        self, X: Sequence[SuperpixelGraph], Y: Sequence[Labels | TrueLabels], scores: StackedParts
    ) -> Separation:
        """The loss-augmented labelling of every image, by one cut of all graphs side by side.

        Raises
        ------
        TaskError
            If an output has not one label in 0..n_labels-1 for each superpixel.
        """
        truths = [self._truth(x, y, i) for i, (x, y) in enumerate(zip(X, Y, strict=True))]
        true, areas = (np.concatenate(column) for column in zip(*truths, strict=True))
        sizes = np.array([x.n_superpixels for x in X])
        owners = np.repeat(np.arange(len(X)), sizes)
        energies = _minus_loss(scores.rows["node"].reshape(-1, self.n_labels), true, areas)
        if self.pairwise:
            edges = np.concatenate(
                [x.edges + first for x, first in zip(X, np.cumsum(sizes) - sizes, strict=True)]
            )
            found = expanded_labels(energies, edges, scores.rows["edge"][:, 0], owners)
        else:
            found = np.argmin(energies, axis=1)
        wrong = np.flatnonzero(found != true)
        # M(true) - M(found): the true part, of weight -1, leaves, and the found one enters.
        parts = np.column_stack(
            (wrong * self.n_labels + true[wrong], wrong * self.n_labels + found[wrong])
        )
        nodes = Measure(
            parts.ravel(), np.zeros(2 * len(wrong), np.int64), np.tile([-1.0, 1.0], len(wrong))
        )
        differences, indptr = (
            {"node": nodes},
            {"node": _starts(np.repeat(owners[wrong], 2), len(X))},
        )
        if self.pairwise:
            change = _differ(found, edges).astype(np.float64) - _differ(true, edges)
            changed = np.flatnonzero(change)
            differences["edge"] = Measure(
                changed, np.zeros(len(changed), np.int64), change[changed]
            )
            indptr["edge"] = _starts(owners[edges[changed, 0]], len(X))
        losses = np.bincount(owners[wrong], areas[wrong], len(X)).astype(np.float64)
        return Separation(losses, differences, indptr)

    def _truth(
        self, x: SuperpixelGraph, y: Labels | TrueLabels, sample: int | None = None
    ) -> tuple[Labels, FloatArray]:
        """Labels and areas, checked to be those of the graph."""
        labels, areas = self._labels_and_areas(y, sample)
        if len(labels) != x.n_superpixels:
            raise TaskError(
                f"{_name(sample)} has {len(labels)} labels for {x.n_superpixels} superpixels; "
                "give one for each.",
                sample,
            )
        return labels, areas

    def _labels_and_areas(
        self, y: Labels | TrueLabels, sample: int | None = None
    ) -> tuple[Labels, FloatArray]:
        """Labels, checked, and areas, ones where none are given."""
        labels = np.asarray(y.labels if isinstance(y, TrueLabels) else y)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise TaskError(
                f"{_name(sample)} has shape {labels.shape} and type {labels.dtype}; give one "
                "whole number for each "
                "superpixel.",
                sample,
            )
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.n_labels:
            raise TaskError(
                f"{_name(sample)} has labels from {labels.min()} to {labels.max()}; the task has "
                f"0..{self.n_labels - 1}. Leave void superpixels out with "
                "SuperpixelGraph.restricted.",
                sample,
            )
        return labels.astype(np.int64), y.areas if isinstance(y, TrueLabels) else np.ones(
            len(labels)
        )


def _name(sample: int | None) -> str:
    return "An output" if sample is None else "Y[{sample}]"


def _minus_one(parts: Labels) -> Measure:
    return Measure(parts, np.zeros(len(parts), np.int64), np.full(len(parts), -1.0))


def _differ(labels: Labels, edges: IntArray) -> NDArray[np.bool_]:
    """Whether the ends of each edge have different labels."""
    return np.asarray(labels[edges[:, 0]] != labels[edges[:, 1]])


def _minus_loss(energies: FloatArray, true: Labels, areas: FloatArray) -> FloatArray:
    """Energies less the loss, up to a constant: a true label costs what any other would gain."""
    out = energies.copy()
    out[np.arange(len(true)), true] += areas
    return out


def _starts(owners: IntArray, n: int) -> IntArray:
    """First entry of each example, and the end of the last."""
    return np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=n)))).astype(np.int64)
