"""Cuts of a master, with their products with the columns, multipliers, and ages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.runtime.memory import GrowingMatrix
from structboost.solvers.proximal_step import Curvature, no_curvature

BoolArray = NDArray[np.bool_]

# Arrays with an entry for each cut.
_OF_CUTS = ("losses", "slacks", "numbers", "multipliers", "duals", "idle")


class CutPool:
    """Pool of cuts ``slack >= loss - <measure, scores>``, one row each, over the columns so far.

    Parameters
    ----------
    empty_cut : bool
        Whether row 0 is the empty cut, c = 0 in (9b) of StructBoost.  It bounds the slack by 0,
        and is never dropped.

    Attributes
    ----------
    cuts : list
        Identity of each cut for the master, None for the empty one.
    losses : ndarray, shape (n_cuts,)
    slacks : ndarray of int64, shape (n_cuts,)
        Index of the slack of each cut, if there are several.
    numbers : ndarray of int64, shape (n_cuts,)
        Identifiers of the cuts, rising and never used again.
    multipliers : ndarray, shape (n_cuts,)
        Solution of the last proximal step, and start of the next.
    duals : ndarray, shape (n_cuts,)
        Multipliers that prove the lower bound; a cut that has one is not dropped.
    idle : ndarray of int64, shape (n_cuts,)
        Steps since each cut last had a multiplier.
    n_made : int
        Number of cuts ever added.
    curvature : Curvature
        Products from the last step, with cuts by their identifiers.
    """

    def __init__(self, *, empty_cut: bool = False) -> None:
        self._products = GrowingMatrix(0, np.float64)
        self.cuts: list[Any] = []
        self.losses = np.zeros(0)
        self.slacks = np.zeros(0, np.int64)
        self.numbers = np.zeros(0, np.int64)
        self.multipliers = np.zeros(0)
        self.duals = np.zeros(0)
        self.idle = np.zeros(0, np.int64)
        self.n_made = 0
        self.curvature = no_curvature(0)
        self._n_empty = int(empty_cut)
        if empty_cut:
            self.add([None], np.zeros((1, 0)), np.zeros(1))

    def __len__(self) -> int:
        return len(self.losses)

    @property
    def made(self) -> slice:
        """Rows of all cuts but the empty one."""
        return slice(self._n_empty, None)

    @property
    def matrix(self) -> FloatArray:
        """Products <V, R> of cuts and columns, shape (n_cuts, n_columns), C-contiguous."""
        return self._products.rows

    def add(
        self,
        cuts: Sequence[Any],
        products: FloatArray,
        losses: FloatArray,
        slacks: IntArray | None = None,
    ) -> None:
        """Append cuts without multipliers, with ``products`` of shape (n_new, n_columns)."""
        self._products.append(products)
        self.cuts.extend(cuts)
        new = {"losses": losses, "numbers": self.n_made + np.arange(len(losses))}
        if slacks is not None:
            new["slacks"] = slacks
        self.n_made += len(losses)
        for name in _OF_CUTS:
            old = getattr(self, name)
            of_new = new.get(name, np.zeros(len(losses), old.dtype))
            setattr(self, name, np.concatenate((old, of_new)))

    def keep(self, in_use: BoolArray) -> list[Any]:
        """Drop the cuts that are not ``kept``, and return the dropped entries of ``cuts``."""
        gone = [cut for cut, stays in zip(self.cuts, in_use, strict=True) if not stays]
        self.cuts = [cut for cut, stays in zip(self.cuts, in_use, strict=True) if stays]
        self._products.keep(in_use)
        for name in _OF_CUTS:
            setattr(self, name, getattr(self, name)[in_use])
        return gone

    def add_columns(self, products: FloatArray) -> None:
        """Append columns, with ``products`` of shape (n_cuts, n_new)."""
        self._products.append_columns(products)
        new = np.zeros(products.shape[1], np.bool_)
        positive = np.concatenate((self.curvature.positive, new))
        self.curvature = self.curvature._replace(positive=positive)

    def keep_columns(self, in_use: NDArray[Any]) -> None:
        """Drop the columns that are not ``kept``, a mask or the indices in their new order."""
        self._products.keep_columns(in_use)
        self.forget_curvature()

    def forget_curvature(self) -> None:
        """Forget the products from the last step, after a change of matrix entries."""
        self.curvature = no_curvature(self.matrix.shape[1])

    def curvature_by_row(self) -> Curvature:
        """Curvature from the last step of the cuts that are still stored, by their rows."""
        cuts, gram, positive = self.curvature
        rows = np.searchsorted(self.numbers, cuts)
        held = self.numbers[np.minimum(rows, len(self) - 1)] == cuts
        if held.all():
            return Curvature(rows, gram, positive)
        return Curvature(rows[held], np.ascontiguousarray(gram[np.ix_(held, held)]), positive)

    def age(self, multipliers: FloatArray, by: int = 1) -> None:
        """Reset the age of cuts with a multiplier, and raise that of the others."""
        self.idle = np.where(multipliers > 0, 0, self.idle + by)
        self.idle[: self._n_empty] = 0

    def in_use(self, max_idle: int, most: int | None = None) -> BoolArray:
        """Mask of cuts with a dual, or at rest for ``max_idle`` steps at most.

        Of more than ``most`` cuts, those without a multiplier are dropped earlier, the idlest
        first.
        """
        in_use = (self.idle <= max_idle) | (self.duals > 0)
        if most is not None and (excess := int(in_use.sum()) - most) > 0:
            rest = np.flatnonzero(in_use & (self.idle > 0) & (self.duals == 0))
            in_use[rest[np.argsort(-self.idle[rest], kind="stable")[:excess]]] = False
        return in_use
