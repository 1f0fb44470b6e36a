"""Synthetic clip in which a head from one photograph moves over another.

``python examples/synthetic_clip.py VIDEO TRUTH`` writes the clip, and its true boxes as a text.

The photographs come with scikit-image (``skimage.data``), so nothing is downloaded.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import cv2
import numpy as np

from structboost.tracking import VideoWriter

Picture = np.ndarray

_WIDTH, _HEIGHT = 320, 240
# The astronaut's head, in the pixels of the photograph; the ellipse inside it moves.
_HEAD_ROWS, _HEAD_COLUMNS = slice(8, 196), slice(150, 304)
_HEAD_SIZE = (56.0, 68.0)  # (width, height) in the clip at scale 1, pixels
_POST_WIDTH = 26  # of the occluder, pixels
_NOISE = 2.5  # standard deviation, grey levels


class SyntheticClip(NamedTuple):
    """Rendered sequence with its true boxes.

    Attributes
    ----------
    frames : ndarray of uint8, shape (n_frames, 240, 320, 3)
        RGB.
    boxes : ndarray, shape (n_frames, 4)
        True box of each frame: left, top, width and height, pixels, not rounded.
    visible : ndarray, shape (n_frames,)
        Fraction of the box that the occluder leaves free, 0..1.
    fps : float
        Frames per second at which to show it.
    name : str
        Title, which mentions that the clip is synthetic, and its sources.
    """

    frames: np.ndarray
    boxes: np.ndarray
    visible: np.ndarray
    fps: float
    name: str


def make_synthetic_clip(n_frames: int = 120, *, random_state: int = 0) -> SyntheticClip:
    """Render a synthetic clip with known boxes.

    A head moves along a smooth path, is scaled (0.8 to 1.25), relit (0.6 to 1.2) and passes behind
    a post, over a background that drifts.  A little noise is added.  Equal arguments give equal
    pixels.

    Parameters
    ----------
    n_frames : int, default=120
        Number of frames; more of them make the clip longer, not slower.
    random_state : int, default=0
        Seed for the phases of the motion and for the noise.

    """
    rng = np.random.default_rng(random_state)
    phases = rng.uniform(-0.3, 0.3, size=5)
    phases[2] = -abs(phases[2])  # the head starts left of the post, all of it visible
    at = np.arange(n_frames) / 120  # the path closes after 120 frames
    waves = np.sin(2 * np.pi * at[:, None] * np.array([0.5, 0.7, 1.0, 1.5]) + phases[:4])
    drift, path = np.split(waves * np.array([50.0, 24.0, 92.0, 48.0]), 2, axis=1)
    centres = np.array([_WIDTH / 2, _HEIGHT / 2]) + path
    scales = 1.025 + 0.225 * np.sin(2 * np.pi * at + phases[4])
    lights = 0.9 + 0.3 * np.cos(2 * np.pi * 1.3 * at)
    sizes = scales[:, None] * np.array(_HEAD_SIZE)
    boxes = np.hstack([centres - sizes / 2, sizes])
    # The post stands in the drifting scene, not in the frame.
    posts = np.rint(212.0 + drift[:, 0])
    head, table, brick = _photographs()
    frames = np.empty((n_frames, _HEIGHT, _WIDTH, 3), np.uint8)
    for index, (box, post) in enumerate(zip(boxes, posts.astype(int).tolist(), strict=True)):
        scene = _place(table, np.ones(2), drift[index] - (140.0, 70.0))
        _lay_over(scene, head, box, lights[index])
        left, right = max(0, post), max(0, min(_WIDTH, post + _POST_WIDTH))
        scene[:, left:right] = brick[:, left - post : max(left, right) - post]
        # The noise of blue is drawn first, as when the clip was BGR: its pixels stay the same.
        scene += _NOISE * rng.standard_normal(scene.shape, np.float32)[:, :, ::-1]
        frames[index] = np.clip(np.rint(scene), 0, 255)
    name = "synthetic clip: astronaut's head over a coffee table"
    right_sides = np.minimum(boxes[:, 0] + boxes[:, 2], posts + _POST_WIDTH)
    hidden = np.maximum(right_sides - np.maximum(boxes[:, 0], posts), 0)
    return SyntheticClip(frames, boxes, 1 - hidden / boxes[:, 2], 25.0, name)


def _photographs() -> tuple[Picture, Picture, Picture]:
    """Load head, background and post as RGB (height, width, 3) of floats in 0..255."""
    from skimage import data  # imported here, since scikit-image loads slowly

    # Shrunk once, near the size at which it is shown, because a larger source would flicker.
    size = round(_HEAD_SIZE[0] * 1.25), round(_HEAD_SIZE[1] * 1.25)
    head = data.astronaut()[_HEAD_ROWS, _HEAD_COLUMNS]
    head = cv2.resize(head, size, interpolation=cv2.INTER_AREA)
    brick = np.repeat(data.brick()[100 : 100 + _HEIGHT, 60 : 60 + _POST_WIDTH, None], 3, axis=2)
    return head.astype(np.float32), data.coffee().astype(np.float32), brick.astype(np.float32)


def _place(image: Picture, scale: np.ndarray, corner: np.ndarray) -> Picture:
    """Scale ``image``, and place its corner at ``corner`` of a frame with repeated edges."""
    # The centre of pixel i lies at i + 0.5, hence the halves.
    matrix = np.column_stack((np.diag(scale), corner + scale / 2 - 0.5))
    placed = cv2.warpAffine(image, matrix, (_WIDTH, _HEIGHT), borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(placed, np.float32)


def _lay_over(scene: Picture, head: Picture, box: np.ndarray, light: float) -> None:
    """Draw the head into the ellipse that touches the box's four sides."""
    placed = np.clip(light * _place(head, box[2:] / head.shape[1::-1], box[:2]), 0, 255)
    radii = box[2:] / 2
    across = (np.arange(_WIDTH) + 0.5 - box[0]) / radii[0] - 1
    down = (np.arange(_HEIGHT) + 0.5 - box[1]) / radii[1] - 1
    distance = np.hypot(across, down[:, None])
    # One pixel of soft edge, all of it inside the box.
    opacity = np.clip((1 - distance) * radii.min(), 0, 1)[:, :, None].astype(np.float32)
    scene += opacity * (placed - scene)


def main(video: str, truth: str) -> None:
    """Write the video and the true boxes."""
    clip = make_synthetic_clip()
    with VideoWriter(video, fps=clip.fps) as writer:
        for frame in clip.frames:
            writer.write(frame)
    np.savetxt(truth, clip.boxes, fmt="%.3f", delimiter=",")
    print(f"{video}: {clip.name}; its first box is {','.join(map(str, clip.boxes[0].round(1)))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("video", help="video that is written, .mp4")
    parser.add_argument("truth", help="text that is written, a box per line")
    main(**vars(parser.parse_args()))
