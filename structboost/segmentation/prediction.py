"""Segmentation of photographs in files, one by one, in processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import joblib
import numpy as np
from numpy.typing import NDArray

from structboost.segmentation.image_files import Mask, read_mask, read_photograph
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.stroke_segmentation import StrokeSegmenter


@dataclass(frozen=True)
class Settings:
    """Settings of the segmentation of files.

    Attributes
    ----------
    model : Path or None
        File of the segmenter; None for scribbles alone.
    longest : int or None
        Longest side in place of that of the model.
    cache : Path or None
        Folder that keeps the features of images.
    probabilities : bool
        Whether to return the probabilities of the classes.
    """

    model: Path | None
    longest: int | None = None
    cache: Path | None = None
    probabilities: bool = False


@dataclass(frozen=True)
class Segmented:
    """Result for a photograph.

    Attributes
    ----------
    mask : ndarray of uint8, shape (height, width)
        Class indices.
    probabilities : ndarray of float32, shape (height, width, n_labels), or None
    problem : str
        Reason why there is no mask; empty if there is one.
    """

    mask: Mask | None = None
    probabilities: NDArray[np.float32] | None = None
    problem: str = ""


def segment_files(
    settings: Settings,
    images: Sequence[Path],
    scribbles: Sequence[Path | None],
    n_jobs: int | None = None,
) -> Generator[Segmented]:
    """Segment photographs in files, in their order.

    The result of a file that cannot be used has a ``problem`` in place of a mask.
    """
    work = joblib.delayed(_segment)
    results: Generator[Segmented] = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        work(settings, *pair) for pair in zip(images, scribbles, strict=True)
    )
    return results


def _segment(settings: Settings, image: Path, scribbles: Path | None) -> Segmented:
    try:
        segmenter = _segmenter(settings)
        pixels = read_photograph(image)
        strokes = None if scribbles is None else read_mask(scribbles)
        if isinstance(segmenter, StrokeSegmenter):
            if strokes is None:
                raise ValueError("without a model there must be scribbles.")
            mask, probabilities = segmenter.mask_and_probabilities(pixels, strokes)
            return Segmented(mask, probabilities if settings.probabilities else None)
        if settings.probabilities:
            return Segmented(*segmenter.mask_and_probabilities(pixels, strokes))
        return Segmented(segmenter.predict(pixels, strokes))
    except ValueError as error:
        return Segmented(problem=str(error) if str(image) in str(error) else f"{image}: {error}")


def _segmenter(settings: Settings) -> Segmenter | StrokeSegmenter:
    if settings.model is None:
        return StrokeSegmenter(longest=settings.longest or StrokeSegmenter().longest)
    # Another model may have been written to the same path meanwhile.
    segmenter = copy(_load(settings.model, settings.model.stat().st_mtime_ns))
    segmenter.cache = settings.cache
    if settings.longest is not None:
        segmenter.longest = settings.longest
    return segmenter


@lru_cache(maxsize=1)
def _load(model: Path, changed: int) -> Segmenter:
    return Segmenter.load(model)
