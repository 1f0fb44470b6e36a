"""Tracking sequences, read from a directory laid out as ``tracking/NAME/img`` and ``tracking/NAME/groundtruth.txt``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from structboost.tracking.boxes_file import read_boxes
from structboost.tracking.frame_image import FrameImage
from structboost.tracking.video import open_frames


@dataclass(frozen=True, eq=False)
class Sequence:
    """Frames with the true box of each.

    Parameters
    ----------
    name : str
    folder : Path
    truth : ndarray, shape (n_frames, 4)
        NaN where unknown.
    truth_mil : ndarray, shape (n_frames, 4), or None
        The MIL set's own boxes.
    """

    name: str
    folder: Path
    truth: np.ndarray
    truth_mil: np.ndarray | None

    @cached_property
    def content(self) -> str:
        """Hash of the frames and boxes: kept units of other data are never taken for this one's."""
        digest = hashlib.sha256()
        for file in sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name != "info.json"):
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    def frames(self) -> list[FrameImage]:
        """All frames, decoded."""
        with open_frames(self.folder) as source:
            return [image for _, image in source]


def load_sequence(name: str, data_dir: Path) -> Sequence:
    """Read a sequence's boxes."""
    folder = Path(data_dir) / "tracking" / name
    if not (folder / "groundtruth.txt").is_file():
        raise FileNotFoundError(
            f"{folder} has no groundtruth.txt; --data must name a directory that has tracking/{name}."
        )
    mil = folder / "groundtruth_mil.txt"
    return Sequence(name, folder, read_boxes(folder / "groundtruth.txt"), read_boxes(mil) if mil.is_file() else None)
