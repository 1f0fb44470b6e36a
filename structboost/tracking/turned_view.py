"""A frame as it looks when it is turned with an object: boxes stay upright while the object turns."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from structboost.tracking.box_sampling import Boxes
from structboost.tracking.frame_image import FrameImage


class TurnedView(NamedTuple):
    """Image of what is around an object, turned back by the angle that the object has turned.

    Parameters
    ----------
    image : ndarray of uint8
    to_frame : ndarray, shape (2, 3)
        Affine map from points of the image to those of the frame.
    """

    image: FrameImage
    to_frame: NDArray[np.float64]

    def box_in_frame(self, box: Boxes) -> Boxes:
        """A box of the same sides, its centre in the frame."""
        centre = self.to_frame @ np.append(box[:2] + 0.5 * box[2:], 1.0)
        return np.concatenate((centre - 0.5 * box[2:], box[2:]))

    def shift_in_view(self, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        """A displacement in the frame, shape (2,), as one in the image."""
        return np.asarray(self.to_frame[:, :2].T @ shift, np.float64)


def turned_view(frame: FrameImage, box: Boxes, angle: float, reach: NDArray[np.float64]) -> tuple[TurnedView, Boxes]:
    """What lies within ``reach`` of a box, and the box in it.

    Parameters
    ----------
    frame : ndarray of uint8
    box : ndarray, shape (4,)
    angle : float
        By which the object is turned in the frame, radians from x towards y; at 0 the view is the frame itself.
    reach : ndarray, shape (2,)
        Pixels beyond the box's sides; where they leave the frame, its border goes on.
    """
    if angle == 0.0:
        return TurnedView(frame, np.eye(2, 3)), box
    half = np.ceil(0.5 * box[2:] + reach)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    to_frame = np.column_stack((turn, box[:2] + 0.5 * box[2:] - turn @ half))
    sides = int(2 * half[0]), int(2 * half[1])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    image = cv2.warpAffine(frame, to_frame, sides, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return TurnedView(np.asarray(image, np.uint8), to_frame), np.concatenate((half - 0.5 * box[2:], box[2:]))
