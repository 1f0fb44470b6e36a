"""Image patches as templates, with responses pooled by position.

These are the features of ShareBoost's MNIST experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, Range, SingleArray, override
from structboost.files.archive import Array
from structboost.learners.base import ListedFamily, check_has_rows, check_signed
from structboost.learners.table import LearnerTable
from structboost.runtime.registry import require

# Patches flatter than this fraction of the images' range are not drawn.
_MIN_CONTRAST = 0.15
_MAX_DRAWS = 100
# Rows from which centre and scale of a learner are computed.
_STATISTICS_ROWS = 1000
# Images filtered together.
_STRIP = 200


class PooledTemplate(NamedTuple):
    """Learner ``(largest response of the template within the cell - center) / scale``.

    Without a template it is the constant 1.
    """

    template: tuple[float, ...]
    cell: int
    center: float
    scale: float


class Pooling(NamedTuple):
    """Positions of templates on an image, and the cells that pool them.

    Parameters
    ----------
    height, width : int
        Size of the images in pixels.
    side : int
        Side of the square templates in pixels.
    grid : int
        Number of cells in each direction.
    overlap : int
        Positions by which a cell reaches into its neighbours.
    """

    height: int
    width: int
    side: int
    grid: int
    overlap: int

    def check(self) -> None:
        """Raise ValueError unless each cell has a position."""
        height, width, side, grid, overlap = self
        positions = min(height, width) - side + 1
        if side < 2 or positions < 1 or not 1 <= grid <= positions or overlap < 0:
            raise ValueError(
                f"side is {side}, grid {grid} and overlap {overlap}; images of {height} x {width} "
                f"pixels leave {max(positions, 0)} positions, of which a cell needs one."
            )

    def spans(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """First and last (excluded) position of the cells, in rows and in columns."""
        out = []
        for length in (self.height - self.side + 1, self.width - self.side + 1):
            edges = np.round(np.linspace(0, length, self.grid + 1)).astype(int).tolist()
            out.append(
                [
                    (max(0, a - self.overlap), min(length, b + self.overlap))
                    for a, b in pairwise(edges)
                ]
            )
        return out[0], out[1]

    def responses(self, images: AnyArray, templates: SingleArray) -> SingleArray:
        """Largest response in each cell, shape (n_templates, grid * grid, n_images).

        Parameters
        ----------
        images : ndarray, shape (n_images, height * width)
            Pixels of the images.
        templates : ndarray of float32, shape (n_templates, side * side)
            Pixels of the templates.

        Returns
        -------
        responses : ndarray of float32, shape (n_templates, grid * grid, n_images)
            Largest inner product in each cell.
        """
        require("vision", "PatchFamily")
        import cv2

        out = np.empty((len(templates), self.grid, self.grid, len(images)), np.float32)
        rows, columns = self.spans()
        for first in range(0, len(images), _STRIP):
            strip = np.asarray(images[first : first + _STRIP], np.float32).reshape(
                -1, self.height, self.width
            )
            # Side by side, for long rows; positions across a seam are in no cell.
            wide = np.ascontiguousarray(strip.transpose(1, 0, 2)).reshape(self.height, -1)
            for of_template, template in zip(out, templates, strict=True):
                kernel = template.reshape(self.side, self.side)
                response = cv2.filter2D(wide, cv2.CV_32F, kernel, anchor=(0, 0))
                for i, (top, bottom) in enumerate(rows):
                    band = response[top:bottom].max(axis=0).reshape(len(strip), self.width)
                    for j, (left, right) in enumerate(columns):
                        of_template[i, j, first : first + _STRIP] = band[:, left:right].max(axis=1)
        return out.reshape(len(templates), self.grid**2, len(images))


@dataclass(frozen=True)
class PatchTable(LearnerTable):
    """Table of pooled templates, with template -1 for the constant.

    ``pooling`` are the fields of :class:`Pooling`.
    """

    schema = {
        "templates": Array("float32", ("n_templates", "n_pixels")),
        "template": Array("int64", ("n_learners",), low=-1, high="n_templates - 1"),
        "cell": Array("int64", ("n_learners",), low=-1),
        "center": Array("float64", ("n_learners",)),
        "scale": Array("float64", ("n_learners",), low=0.0, nonzero=True),
        "pooling": Array("int64", (5,), low=0, high="n_features"),
    }

    templates: SingleArray
    template: IntArray
    cell: IntArray
    center: FloatArray
    scale: FloatArray
    pooling: IntArray

    def __post_init__(self) -> None:
        pooling = Pooling(*self.pooling.tolist())
        pooling.check()
        is_beyond = self.cell.max(initial=-1) >= pooling.grid**2
        if self.templates.shape[1] != pooling.side**2 or is_beyond:
            raise ValueError("templates or cells do not fit their pooling")
        if (self.cell[self.template >= 0] < 0).any():
            raise ValueError("a template has no cell")

    @override
    def responses(self, features: AnyArray) -> SingleArray:
        out = np.ones((len(self), len(features)), np.float32)
        pooling = Pooling(*self.pooling.tolist())
        for index in np.unique(self.template[self.template >= 0]):
            at = np.flatnonzero(self.template == index)
            pooled = pooling.responses(features, self.templates[index : index + 1])[
                0, self.cell[at]
            ]
            out[at] = (pooled - self.center[at, None]) / self.scale[at, None]
        return out

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        pooling = Pooling(*self.pooling.tolist())
        out = np.zeros((len(self), pooling.height, pooling.width))
        cells = [(*row, *column) for row in pooling.spans()[0] for column in pooling.spans()[1]]
        for row, template, cell in zip(out, self.template, self.cell, strict=True):
            if template >= 0:
                top, bottom, left, right = cells[cell]
                row[top : bottom + pooling.side - 1, left : right + pooling.side - 1] = 1.0
                row /= row.sum()
        return out.reshape(len(self), n_features)


class PatchFamily(ListedFamily):
    """Family of templates drawn from the training images, anew at every pricing.

    A group is a template with all its cells.

    A template is a patch less its mean, of norm 1.  Its response at a position is its inner product
    with the image there; a learner is the largest response in one cell of a grid, centred and
    scaled.

    Parameters
    ----------
    features : ndarray, shape (n_images, height * width)
        Pixels of the training images.
    response : (float, float)
        Responses are real, of either sign: the lower one must be below 0.
    image_shape : (int, int)
        Height and width in pixels.
    side : int
        Side of the square templates in pixels.
    grid : int
        Number of cells in each direction.
    overlap : int
        Positions by which a cell reaches into its neighbours.
    n_candidates : int
        Number of templates drawn per pricing.
    n_priced : int
        Number of images on which they are compared, those with the largest duals.
    random_state : int
        Seed for drawing templates.

    Notes
    -----
    After the features of ShareBoost's experiment on MNIST.
    """

    name = "patch"
    exact_pricing = False

    def __init__(
        self,
        features: AnyArray,
        response: Range = (-1.0, 1.0),
        *,
        image_shape: tuple[int, int],
        side: int = 7,
        grid: int = 4,
        overlap: int = 2,
        n_candidates: int = 50,
        n_priced: int = 4000,
        random_state: int = 0,
    ) -> None:
        check_has_rows(features, self.name)
        check_signed(response, self.name)
        self._images = np.ascontiguousarray(features)
        self.n_features = self._images.shape[1]
        height, width = image_shape
        if height * width != self.n_features:
            raise ValueError(
                f"image_shape is {image_shape}; the images have {self.n_features} pixels."
            )
        self._pooling = Pooling(height, width, side, grid, overlap)
        self._pooling.check()
        self.group_size = grid**2
        self._n_candidates = n_candidates
        self._n_priced = n_priced
        self._random_state = np.random.RandomState(random_state)
        n_rows = len(self._images)
        self._statistics = np.sort(self._random_state.permutation(n_rows)[:_STATISTICS_ROWS])
        self._contrast = _MIN_CONTRAST * float(np.ptp(self._images))

    @override
    def listed(self, duals: FloatArray) -> tuple[Callable[[int], PooledTemplate], FloatArray]:
        templates = self._draw()
        sample = self._pooling.responses(self._images[self._statistics], templates)
        centers = sample.mean(axis=2, dtype=np.float64)
        spreads = sample.std(axis=2, dtype=np.float64)
        scales = np.where(spreads > 0, spreads, 1.0)
        learners = [
            PooledTemplate(
                tuple(template.tolist()), cell, float(centers[k, cell]), float(scales[k, cell])
            )
            for k, template in enumerate(templates)
            for cell in range(centers.shape[1])
        ]
        sizes = np.abs(duals).sum(axis=1)
        rows = np.sort(np.argsort(-sizes, kind="stable")[: self._n_priced])
        pooled = self._pooling.responses(self._images[rows], templates)
        scaled = (pooled - centers[:, :, None]) / scales[:, :, None]
        edges = scaled.reshape(len(learners), len(rows)) @ duals[rows]
        learners.append(PooledTemplate((), -1, 0.0, 1.0))
        return learners.__getitem__, np.vstack((edges, duals.sum(axis=0)))

    @override
    def responses(self, learners: Sequence[PooledTemplate]) -> AnyArray:
        return self.table(learners).responses(self._images)

    @override
    def table(self, learners: Sequence[PooledTemplate]) -> PatchTable:
        templates = list(dict.fromkeys(p.template for p in learners if p.template))
        index_of = {template: k for k, template in enumerate(templates)} | {(): -1}
        return PatchTable.of(
            learners,
            templates=np.array(templates, np.float32).reshape(-1, self._pooling.side**2),
            template=np.array([index_of[p.template] for p in learners], np.int64),
            pooling=np.array(self._pooling, np.int64),
        )

    def _draw(self) -> SingleArray:
        """Draw patches of enough contrast, subtract their mean and scale them to norm 1.

        Returns fewer if there are too few.
        """
        pooling, random_state = self._pooling, self._random_state
        patches = []
        images = self._images.reshape(-1, pooling.height, pooling.width)
        for _ in range(_MAX_DRAWS * self._n_candidates):
            image = images[random_state.randint(len(images))]
            top = random_state.randint(pooling.height - pooling.side + 1)
            left = random_state.randint(pooling.width - pooling.side + 1)
            patch = (
                image[top : top + pooling.side, left : left + pooling.side]
                .astype(np.float64)
                .ravel()
            )
            patch -= patch.mean()
            norm = float(np.linalg.norm(patch))
            if norm > self._contrast * pooling.side:
                patches.append((patch / norm).astype(np.float32))
                if len(patches) == self._n_candidates:
                    break
        if not patches:
            raise ValueError(
                "The training images have no patch of enough contrast to be a template."
            )
        return np.array(patches)
