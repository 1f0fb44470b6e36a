"""What the classifiers say of a superpixel's surroundings: features for a second classifier (auto-context).

Tu and Bai, PAMI 2010: the answers of a first round of classifiers, looked up around each superpixel, are features of
the next one.  Here they are averaged over neighbourhoods in the image, over superpixels of like colour wherever they
lie (which is what colour models of object and background, made anew for each image, amount to), over the four
directions, and over the whole image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.segmentation.codebook import neighbourhood
from structboost.segmentation.descriptors import DescribedImage

_STEPS = (1, 2, 4)
_COLOUR_WIDTHS = (8.0, 20.0)  # standard deviations in LUV
_COLOUR_REACH = 0.25  # of the narrow one, as a share of the image


def context_features(
    image: DescribedImage, log_odds: NDArray[np.float64], probabilities: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Features of each superpixel from the answers of classifiers on all superpixels of its image.

    Parameters
    ----------
    image : DescribedImage
    log_odds : ndarray, shape (n, n_values)
        Answers that are taken as they are, and averaged over the next neighbours.
    probabilities : ndarray, shape (n, n_labels)
        Answers that are looked up everywhere; two labels are told by one column.

    Returns
    -------
    ndarray of float32, shape (n, n_features)
    """
    p = probabilities[:, 1:] if probabilities.shape[1] == 2 else probabilities
    shares = image.sizes / image.sizes.sum()
    mean = np.broadcast_to(shares @ p, p.shape)
    blocks = [log_odds, _averages(image, log_odds, 2), p, mean]
    blocks += [_averages(image, p, steps) for steps in _STEPS]
    blocks += _colour_averages(image, p, shares)
    blocks += _directions(image, p, shares)
    blocks += [_place_and_colour(image, shares)]
    return np.hstack(blocks).astype(np.float32)


def _averages(image: DescribedImage, values: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Area-weighted mean over the superpixels at most ``steps`` away."""
    reach = neighbourhood(image.edges, image.n_superpixels, steps)
    sizes = image.sizes[:, None].astype(np.float64)
    return np.asarray((reach @ (values * sizes)) / (reach @ sizes))


def _colour_averages(
    image: DescribedImage, p: NDArray[np.float64], shares: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Means over superpixels of like colour: near ones, and all of the image; and how much of the image is alike."""
    colours, places = image.colours.astype(np.float64), image.positions.astype(np.float64)
    distance = _squared_distances(colours)
    near = np.exp(-_squared_distances(places) / (2 * _COLOUR_REACH**2))
    blocks = []
    for width, space in ((_COLOUR_WIDTHS[0], near), (_COLOUR_WIDTHS[0], 1.0), (_COLOUR_WIDTHS[1], 1.0)):
        kernel = np.exp(-distance / (2 * width**2)) * space * shares
        np.fill_diagonal(kernel, 0.0)  # its own answer is a feature already
        total = kernel.sum(axis=1, keepdims=True)
        blocks += [(kernel @ p + 1e-4 * (shares @ p)) / (total + 1e-4), total]
    return blocks


def _directions(
    image: DescribedImage, p: NDArray[np.float64], shares: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Means over what lies left, right, above and below, each within a right angle."""
    x, y = image.positions.astype(np.float64).T
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    mean = shares @ p
    blocks = []
    for along, across in ((-dx, dy), (dx, dy), (-dy, dx), (dy, dx)):
        inside = (along > np.abs(across)) * shares
        # Little of the image lies there near its edge: the image's mean stands in.
        blocks.append((inside @ p + 0.02 * mean) / (inside.sum(axis=1, keepdims=True) + 0.02))
    return blocks


def _place_and_colour(image: DescribedImage, shares: NDArray[np.float64]) -> NDArray[Any]:
    """Where the superpixel lies, its colour, and how that differs from the image's and its neighbours'."""
    x, y = image.positions.astype(np.float64).T
    colours = image.colours.astype(np.float64)
    return np.column_stack(
        (
            *(x, y, np.abs(x - 0.5), np.abs(y - 0.5), np.hypot(x - 0.5, y - 0.5)),
            *(colours, colours - shares @ colours, colours - _averages(image, colours, 2)),
            shares * len(shares),
        )
    )


def _squared_distances(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = (rows**2).sum(axis=1)
    return np.asarray(np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0.0))
