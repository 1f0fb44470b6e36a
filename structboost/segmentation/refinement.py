"""Refinement of a coarse mask to the full resolution of its photograph.

The mask is doubled in size again and again.  Each time the pixels in a narrow band along its
outlines get new labels by a minimum cut, from the mean colours of each class nearby and the
contrasts between neighbours (multilevel banded graph cuts: Lombaert et al., ICCV 2005).
"""

from __future__ import annotations

import cv2
import numpy as np

from structboost._typing import BoolArray, FloatArray, IntArray, SingleArray
from structboost.inference.superpixel_crf import expanded_once
from structboost.vision.images import Mask, Photograph, outlines, resized, resized_mask

# Chosen on training photographs (docs/decisions.md).
_BAND = 3  # pixels on both sides of an outline
_WINDOW = 31  # side of the square in which colours of a class count
_SMOOTH = 5.0  # weight of the contrasts
_MOST = 4.0  # bound on the energy of a colour
_NOISE = 100.0  # variance that every colour has
_LEAST = 5  # pixels of a class nearby that determine its colour
_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))


def refine_mask(image: Photograph, mask: Mask) -> Mask:
    """Enlarge a coarse mask to its photograph, with outlines that follow the photograph."""
    height, width = image.shape[:2]
    while mask.shape != (height, width):
        size = min(height, 2 * mask.shape[0]), min(width, 2 * mask.shape[1])
        if 3 * height < 4 * size[0] or 3 * width < 4 * size[1]:
            size = height, width
        mask = _relabel(resized(image, (size[1], size[0])), resized_mask(mask, size))
    return mask


def _relabel(image: Photograph, mask: Mask) -> Mask:
    """Compute new labels in the band along the outlines of a mask."""
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * _BAND + 1, 2 * _BAND + 1))
    near = np.asarray(cv2.dilate(outlines(mask).astype(np.uint8), disc) > 0)
    if not near.any():
        return mask
    ends = [np.flatnonzero(near.any(axis=axis))[[0, -1]].tolist() for axis in (1, 0)]
    part = tuple(slice(max(0, first - _WINDOW), last + _WINDOW) for first, last in ends)
    out = mask.copy()
    out[part] = _cut(image[part].astype(np.float32), mask[part], near[part])
    return out


def _cut(values: SingleArray, mask: Mask, near: BoolArray) -> Mask:
    """Set the labels of least energy in the band, whose rim does not change."""
    classes, codes = np.unique(mask, return_inverse=True)
    before = codes.reshape(mask.shape)[near]
    nodes = np.column_stack([_colour_energies(values, mask == c, near) for c in classes])
    # Where one of the classes has no colour nearby, only neighbours determine the label.
    nodes[np.isinf(nodes).sum(axis=1) >= len(classes) - 1] = 0.0
    nodes = np.minimum(nodes - nodes.min(axis=1, keepdims=True), _MOST)
    rim = (near & (cv2.erode(near.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0))[near]
    edges, weights = _edges(values, near)
    keep = 1.0 + _MOST * len(classes) + 8 * _SMOOTH
    nodes[rim] = keep
    nodes[rim, before[rim]] = 0.0
    if len(classes) > 2:  # other classes enter only where they are plausible
        is_other = before[:, None] != np.arange(len(classes))
        nodes[is_other & (nodes >= _MOST)] = keep
    out = mask.copy()
    out[near] = classes[expanded_once(nodes, edges, weights, before)]
    return out


def _colour_energies(values: SingleArray, inside: BoolArray, near: BoolArray) -> FloatArray:
    """Compute distances of band pixels to a class's colours nearby, infinite without any."""
    weights = (inside & ~near).astype(np.float32)
    n, total, squares = (
        cv2.boxFilter(planes, -1, (_WINDOW, _WINDOW), normalize=False)[near].astype(np.float64)
        for planes in (weights, values * weights[:, :, None], (values**2).sum(axis=2) * weights)
    )
    mean = total / np.maximum(n, 1.0)[:, None]
    variance = squares / np.maximum(n, 1.0) - (mean**2).sum(axis=1)
    variance = np.maximum(variance, 0.0) / 3 + _NOISE
    apart = ((values[near] - mean) ** 2).sum(axis=1)
    return np.where(n > _LEAST, apart / (2 * variance) + 1.5 * np.log(variance), np.inf)


def _edges(values: SingleArray, near: BoolArray) -> tuple[IntArray, FloatArray]:
    """Return pairs of neighbours in the band, and their costs of different labels."""
    index_of = np.cumsum(near).reshape(near.shape) - 1
    height, width = near.shape
    pairs, steps = [], []
    for down, right in _NEIGHBOURS:
        here = np.s_[: height - down, max(0, -right) : width - max(0, right)]
        there = np.s_[down:, max(0, right) : width + min(0, right)]
        both = near[here] & near[there]
        pairs.append(np.column_stack((index_of[here][both], index_of[there][both])))
        steps.append(((values[here][both] - values[there][both]) ** 2).sum(axis=1))

    contrast = np.concatenate(steps).astype(np.float64)
    likeness = np.exp(-contrast / (2 * contrast.mean() + 1e-6))
    lengths = np.repeat(np.hypot(*np.transpose(_NEIGHBOURS)), list(map(len, pairs)))
    return np.concatenate(pairs), _SMOOTH * likeness / lengths
