"""Outlines of coarse masks at full size: ours beside nearest neighbours."""

from pathlib import Path

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt
from threadpoolctl import threadpool_limits

from benchmarks.ours.segmenting import N_SEGMENTS
from benchmarks.ours.strokes import drawn
from benchmarks.runner.limits import Report, peak_memory, reset_peak_memory
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.units import Result
from structboost.segmentation.image_files import resized_mask, shrink_to
from structboost.segmentation.refinement import refine_mask
from structboost.segmentation.superpixels import label_counts, superpixels

BLUR, NOISE = 0.8, 3.0  # of the enlarged photograph: pixels, grey levels
METHODS = {
    "structboost": refine_mask,
    "nearest neighbours": lambda image, coarse: resized_mask(coarse, image.shape),
}


def boundary_f(found: np.ndarray, truth: np.ndarray, reach: float) -> float:
    """F measure of the pixels along the outlines that lie within ``reach`` pixels of the others."""
    ours, theirs = _outline(found), _outline(truth)
    shares = [
        float((distance_transform_edt(~other)[own] <= reach).mean()) if own.any() else 0.0
        for own, other in ((ours, theirs), (theirs, ours))
    ]
    return 2 * shares[0] * shares[1] / max(sum(shares), 1e-12)


def _outline(mask: np.ndarray) -> np.ndarray:
    found = np.zeros(mask.shape, bool)
    found[:, :-1] |= mask[:, :-1] != mask[:, 1:]
    found[:-1] |= mask[:-1] != mask[1:]
    return found


def enlarged(image: np.ndarray, mask: np.ndarray, pixels: float) -> tuple[np.ndarray, np.ndarray]:
    """A photograph of so many pixels by cubic interpolation, with a sharp outline, and its mask.

    Object and background are enlarged apart, each continued beyond the outline by its nearest
    pixels, since an outline that is enlarged with the photograph is as wide as its pixels were.
    """
    scale = float(np.sqrt(pixels / mask.size))
    size = tuple(round(scale * side) for side in mask.shape[::-1])
    smooth = cv2.resize((mask == 1).astype(np.float32), size, interpolation=cv2.INTER_CUBIC)
    truth = cv2.GaussianBlur(smooth, (0, 0), scale / 2) > 0.5
    layers = []
    for value in (0, 1):
        inside = cv2.erode((mask == value).astype(np.uint8), np.ones((3, 3), np.uint8))
        nearest = distance_transform_edt(inside == 0, return_distances=False, return_indices=True)
        layers.append(cv2.resize(image[tuple(nearest)], size, interpolation=cv2.INTER_CUBIC))
    sharp = np.where(truth[:, :, None], layers[1], layers[0]).astype(np.float32)
    noise = np.random.default_rng(0).normal(scale=NOISE, size=sharp.shape).astype(np.float32)
    seen = cv2.GaussianBlur(sharp, (0, 0), BLUR) + noise
    return np.clip(np.rint(seen), 0, 255).astype(np.uint8), truth.astype(np.uint8)


def brought_back(
    report: Report,
    method: str,
    root: Path,
    longest: float,  # of the coarse mask, pixels; below 1: its share of the photograph's
    pixels: float | None,  # of the enlarged photograph; None: as it is
    reach: float,
    n: int | None,
) -> Result:
    """True masks on the superpixels of shrunk photographs, brought back to full size."""
    scores, seconds, peaks = [], [], []
    with threadpool_limits(1):
        for labelled in drawn(root, "test", n, 0):
            image, truth = labelled.image, (labelled.mask == 1).astype(np.uint8)
            if pixels is not None:
                image, truth = enlarged(image, truth, pixels)
            side = round(longest * max(truth.shape)) if longest < 1 else round(longest)
            labels = superpixels(shrink_to(image, side), N_SEGMENTS)
            coarse = label_counts(labels, resized_mask(truth, labels.shape), 2).argmax(axis=1)
            coarse = coarse.astype(np.uint8)[labels]
            report({})
            before = reset_peak_memory()
            found, spent = cpu_timed(METHODS[method], image, coarse)
            peaks.append(peak_memory() - before)
            seconds.append(spent)
            scores.append(boundary_f(found, truth, reach))
    return {"value": float(np.mean(scores)), "seconds": float(np.mean(seconds)), "peak": max(peaks)}
