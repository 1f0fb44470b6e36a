"""Probabilities around a superpixel, as further potentials (auto-context).

In auto-context (Tu and Bai, PAMI 2010) the probabilities of classifiers around each superpixel are
features of the next learner.  Here they are averaged over neighbourhoods in the image, over
superpixels of similar colour anywhere, over the four directions, and over the whole image.  The
averages by colour act as colour models of object and background for each image.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.segmentation.descriptors import DescribedImage
from structboost.segmentation.superpixels import neighbourhood

_STEPS = (1, 2, 4)
_COLOUR_WIDTHS = (8.0, 20.0)  # standard deviations in LUV
_COLOUR_REACH = 0.25  # of the narrow one, as a fraction of the image
# Weights of the image's mean, which fills in where a neighbourhood is small.
_RARE_COLOUR = 1e-4
_RARE_DIRECTION = 0.02
# Numbers of averages in :func:`surroundings` and of columns in :func:`place_and_colour`.
N_SURROUNDINGS = len(_STEPS) + 3 + 4 + 1
N_OF_PLACE = 18


def surroundings(image: DescribedImage, probabilities: FloatArray) -> FloatArray:
    """Average the labels' probabilities around each superpixel, shape (n, 11, n_labels).

    The averages are over superpixels at most 1, 2, 4 steps away; of the same colour nearby, of the
    same colour, of a similar colour; left, right, above, below; over the whole image.
    """
    areas = image.sizes / image.sizes.sum()
    blocks = [neighbour_means(image, probabilities, steps) for steps in _STEPS]
    for kernel in _colour_kernels(image, areas):
        blocks.append(_kernel_means(kernel, probabilities, areas, _RARE_COLOUR))
    x, y = image.positions.astype(np.float64).T
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    for along, across in ((-dx, dy), (dx, dy), (-dy, dx), (dy, dx)):
        inside = (along > np.abs(across)) * areas
        blocks.append(_kernel_means(inside, probabilities, areas, _RARE_DIRECTION))
    blocks.append(np.broadcast_to(areas @ probabilities, probabilities.shape))
    return np.stack(blocks, axis=1)


def neighbour_means(image: DescribedImage, values: FloatArray, steps: int) -> FloatArray:
    """Compute area-weighted means over the superpixels at most ``steps`` edges away."""
    reach = neighbourhood(image.edges, image.n_superpixels, steps)
    sizes = image.sizes[:, None].astype(np.float64)
    return np.asarray((reach @ (values * sizes)) / (reach @ sizes))


def place_and_colour(image: DescribedImage) -> FloatArray:
    """Return place and colour of each superpixel, shape (n, 18).

    The columns are its position, its colour, the difference from the colours of the image and of
    the neighbours, how common the colour is, and its relative size.
    """
    x, y = image.positions.astype(np.float64).T
    colours = image.colours.astype(np.float64)
    areas = image.sizes / image.sizes.sum()
    alike = [kernel.sum(axis=1) for kernel in _colour_kernels(image, areas)]
    return np.column_stack(
        (
            *(x, y, np.abs(x - 0.5), np.abs(y - 0.5), np.hypot(x - 0.5, y - 0.5)),
            *(colours, colours - areas @ colours, colours - neighbour_means(image, colours, 2)),
            *(*alike, areas * len(areas)),
        )
    )


def _colour_kernels(image: DescribedImage, areas: FloatArray) -> list[FloatArray]:
    """Return weights of other superpixels by area and colour, nearby and everywhere."""
    distance = _squared_distances(image.colours.astype(np.float64))
    near = np.exp(-_squared_distances(image.positions.astype(np.float64)) / (2 * _COLOUR_REACH**2))
    narrow, wide = _COLOUR_WIDTHS
    kernels = []
    for width, reach in ((narrow, near), (narrow, 1.0), (wide, 1.0)):
        kernel = np.exp(-distance / (2 * width**2)) * reach * areas
        np.fill_diagonal(kernel, 0.0)  # its probability is a potential already
        kernels.append(kernel)
    return kernels


def _kernel_means(kernel: Any, values: FloatArray, areas: FloatArray, rare: float) -> FloatArray:
    """Compute weighted means, in which the mean of the image has the weight ``rare``."""
    return np.asarray(
        (kernel @ values + rare * (areas @ values)) / (kernel.sum(axis=1, keepdims=True) + rare)
    )


def _squared_distances(rows: FloatArray) -> FloatArray:
    squares = (rows**2).sum(axis=1)
    return np.asarray(np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0.0))
