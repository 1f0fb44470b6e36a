"""Dense planes of an image, and their means in the cells of patches.

The planes are gradients, local binary patterns and Gabor energies.  A mean over a cell takes four
look-ups in an integral plane, so patches of any size cost the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import scipy.fft
from numpy.typing import NDArray
from skimage.feature import local_binary_pattern

from structboost._typing import FloatArray
from structboost.runtime.compiled import compiled

Planes = NDArray[np.float32]

N_ORIENTATIONS = 9
N_PATTERNS = 10
_GABOR_SCALES = 4
_GABOR_ORIENTATIONS = 8
N_GABOR_PLANES = _GABOR_SCALES * _GABOR_ORIENTATIONS
# Highest frequency in cycles per pixel; each further scale halves it.
_TOP_FREQUENCY = 0.25
# Grey levels added to the norm of a patch, so that flat patches stay small.
_FLAT = 4.0


def gradient_planes(grey: NDArray[np.uint8]) -> Planes:
    """Compute the length of the gradient by unsigned orientation, shape (height, width, 9).

    Each gradient is divided between its two nearest orientations.
    """
    values = grey.astype(np.float32)
    gx = np.asarray(cv2.Sobel(values, cv2.CV_32F, 1, 0, ksize=1), np.float32)
    gy = np.asarray(cv2.Sobel(values, cv2.CV_32F, 0, 1, ksize=1), np.float32)
    out = np.zeros((*grey.shape, N_ORIENTATIONS), np.float32)
    _spread_gradients(gx, gy, out)
    return out


def pattern_planes(grey: NDArray[np.uint8]) -> Planes:
    """Compute the uniform local binary pattern (8 points, radius 1) of each pixel, one-hot."""
    codes = local_binary_pattern(grey, 8, 1, "uniform").astype(np.int64)
    return np.asarray(np.eye(N_PATTERNS, dtype=np.float32)[codes])


def gabor_planes(grey: NDArray[np.uint8]) -> Planes:
    """Compute Gabor energies at 4 scales and 8 orientations, shape (height, width, 32)."""
    height, width = grey.shape
    pad = 16
    values = np.pad(
        np.log1p(grey.astype(np.float32)), pad, mode="reflect" if min(grey.shape) > pad else "edge"
    )
    shape = tuple(scipy.fft.next_fast_len(size) for size in values.shape)
    spectrum = scipy.fft.fft2(values - values.mean(), shape)
    out = np.empty((height, width, N_GABOR_PLANES), np.float32)
    for k, transfer in enumerate(_gabor_transfers(shape)):
        out[:, :, k] = np.abs(scipy.fft.ifft2(spectrum * transfer))[
            pad : pad + height, pad : pad + width
        ]
    return out


def integral(planes: Planes) -> FloatArray:
    """Compute integral planes, whose entry (r, c) sums rows below r and columns below c."""
    return np.asarray(cv2.integral(planes, sdepth=cv2.CV_64F), np.float64)


def patch_cells(
    integrals: FloatArray, centres: FloatArray, size: float, grid: int
) -> NDArray[np.float32]:
    """Average planes over the cells of square patches, shape (n_patches, grid * grid * n_planes).

    Patches have sides of ``size`` pixels around their centres, x and y.  Cells outside the image
    are moved to its edge.  ``integrals`` has the shape (height + 1, width + 1, n_planes).
    """
    out = np.empty((len(centres), grid, grid, integrals.shape[2]), np.float32)
    _fill_cells(integrals, np.ascontiguousarray(centres), float(size), out)
    return out.reshape(len(centres), -1)


def normalised(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalise patches, clip them at 0.2 and normalise again, as in HOG and SIFT."""
    rows = cells / (np.linalg.norm(cells, axis=1, keepdims=True) + _FLAT)
    np.minimum(rows, 0.2, out=rows)
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 0.05), np.float32)


@lru_cache(maxsize=4)
def _gabor_transfers(shape: tuple[int, int]) -> list[Any]:
    """Return one-sided Gaussians in frequency, whose response has the energy as its modulus."""
    fy = scipy.fft.fftfreq(shape[0])[:, None].astype(np.float32)
    fx = scipy.fft.fftfreq(shape[1])[None, :].astype(np.float32)
    transfers = []
    for scale in range(_GABOR_SCALES):
        centre = _TOP_FREQUENCY / 2**scale
        for turn in range(_GABOR_ORIENTATIONS):
            angle = np.pi * turn / _GABOR_ORIENTATIONS
            along = fx * np.cos(angle) + fy * np.sin(angle) - centre
            across = -fx * np.sin(angle) + fy * np.cos(angle)
            transfers.append(
                np.exp(-(along**2 / (2 * (centre / 3) ** 2)) - across**2 / (2 * (centre / 4) ** 2))
            )
    return transfers


@compiled
def _spread_gradients(
    gx: NDArray[np.float32], gy: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    height, width, n = out.shape
    for y in range(height):
        for x in range(width):
            length = np.sqrt(gx[y, x] * gx[y, x] + gy[y, x] * gy[y, x])
            if length == 0.0:
                continue
            angle = np.arctan2(gy[y, x], gx[y, x])
            if angle < 0.0:
                angle += np.pi
            place = angle / np.pi * n
            low = int(place)
            weight = place - low
            out[y, x, low % n] += length * (1.0 - weight)
            out[y, x, (low + 1) % n] += length * weight


@compiled
def _fill_cells(
    integrals: FloatArray, centres: FloatArray, size: float, out: NDArray[np.float32]
) -> None:
    n, grid, _, n_planes = out.shape
    height, width = integrals.shape[0] - 1, integrals.shape[1] - 1
    cell = size / grid
    for p in range(n):
        for i in range(grid):
            top, bottom = _span(centres[p, 1] - size / 2 + i * cell, cell, height)
            for j in range(grid):
                left, right = _span(centres[p, 0] - size / 2 + j * cell, cell, width)
                area = (bottom - top) * (right - left)
                for k in range(n_planes):
                    total = (
                        integrals[bottom, right, k]
                        - integrals[top, right, k]
                        - integrals[bottom, left, k]
                        + integrals[top, left, k]
                    )
                    out[p, i, j, k] = total / area


@compiled
def _span(start: float, length: float, limit: int) -> tuple[int, int]:
    """Return first pixel and end of a cell along one axis, moved inside the image."""
    first = int(np.floor(start + 0.5))
    end = max(first + 1, int(np.floor(start + length + 0.5)))
    first = min(max(first, 0), limit - 1)
    return first, max(min(end, limit), first + 1)
