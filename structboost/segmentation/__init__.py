"""Image segmentation by a learned CRF on superpixels (StructBoost, sections 3.6 and 4.5)."""

from structboost.runtime.registry import require

require("vision", __name__)

from structboost.segmentation.crf import CRFSettings
from structboost.segmentation.masks import (
    LabelledFolder,
    LabelledImage,
    LabelMap,
    read_folder,
    read_split,
)
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.scribbles import StrokeSegmenter
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.unaries import OwnUnaries, UnarySettings
from structboost.vision.drawing import draw_segmentation
from structboost.vision.images import ImageFileError, read_mask, read_photograph, write_png

__all__ = [
    "CRFSettings",
    "ImageFileError",
    "LabelMap",
    "LabelledFolder",
    "LabelledImage",
    "OwnUnaries",
    "SegmentationScores",
    "Segmenter",
    "StrokeSegmenter",
    "UnarySettings",
    "confusion",
    "draw_segmentation",
    "read_folder",
    "read_mask",
    "read_photograph",
    "read_split",
    "write_png",
]
