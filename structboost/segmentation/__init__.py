"""Image segmentation by a learned CRF on superpixels (StructBoost, sections 3.6 and 4.5)."""

from structboost.runtime.registry import require

require("vision", __name__)

from structboost.segmentation.crf import CRFSettings
from structboost.segmentation.drawing import contact_sheet, draw_segmentation
from structboost.segmentation.image_files import (
    ImageFileError,
    read_mask,
    read_photograph,
    write_png,
)
from structboost.segmentation.labelled_folder import (
    LabelledFolder,
    LabelledImage,
    read_folder,
    read_groups,
    read_split,
)
from structboost.segmentation.masks import LabelMap
from structboost.segmentation.scores import SegmentationScores, break_even, confusion
from structboost.segmentation.scribbles import StrokeSegmenter
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import SyntheticImages, make_synthetic_images
from structboost.segmentation.unaries import OwnUnaries, UnarySettings

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
    "SyntheticImages",
    "UnarySettings",
    "break_even",
    "confusion",
    "contact_sheet",
    "draw_segmentation",
    "make_synthetic_images",
    "read_folder",
    "read_groups",
    "read_mask",
    "read_photograph",
    "read_split",
    "write_png",
]
