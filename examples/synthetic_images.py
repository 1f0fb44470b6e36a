"""Synthetic images with known masks, of objects from photographs on textures of others.

``python examples/synthetic_images.py FOLDER`` writes images, masks and scribbles as folders.

The photographs come with scikit-image (``skimage.data``), so nothing is downloaded.  Textures are
real, while places and surroundings are synthetic.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from structboost.segmentation import write_png

NAME = "synthetic images: coins of scikit-image on its photographs of brick, grass and gravel"
_WIDTH, _HEIGHT = 160, 120


class SyntheticImages(NamedTuple):
    """Rendered pictures with masks and scribbles.

    Attributes
    ----------
    images : list of ndarray of uint8, shape (120, 160, 3)
        RGB.
    masks : list of ndarray of uint8, shape (120, 160)
        1 on the objects, 0 elsewhere.
    scribbles : list of ndarray of uint8, shape (120, 160)
        1 on a stroke inside an object, 2 on strokes outside.
    name : str
        Title, which mentions that the images are synthetic, and their sources.
    """

    images: list[np.ndarray]
    masks: list[np.ndarray]
    scribbles: list[np.ndarray]
    name: str


def make_synthetic_images(n: int = 24, *, random_state: int = 0) -> SyntheticImages:
    """Render pictures of one to three coins, relit and scaled, on a texture, with a little noise.

    Equal arguments give equal pixels.

    Parameters
    ----------
    n : int, default=24
        Number of pictures.
    random_state : int, default=0
        Seed for scenes and noise.

    """
    rng = np.random.default_rng(random_state)
    images, masks, scribbles = (
        list(part) for part in zip(*(_picture(rng) for _ in range(n)), strict=True)
    )
    return SyntheticImages(images, masks, scribbles, NAME)


def _picture(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    textures, coins = _photographs()
    texture = textures[rng.integers(len(textures))]
    top, left = rng.integers(texture.shape[0] - _HEIGHT), rng.integers(texture.shape[1] - _WIDTH)
    tint = rng.uniform(0.8, 1.0, size=3)
    scene = texture[top : top + _HEIGHT, left : left + _WIDTH, None] * tint * rng.uniform(0.6, 1.0)
    mask = np.zeros((_HEIGHT, _WIDTH), np.uint8)
    copper = np.array([1.0, 0.78, 0.55])
    discs = []
    for _ in range(rng.integers(1, 4)):
        radius = float(rng.uniform(16, 26))
        centre = rng.uniform((radius, radius), (_WIDTH - radius, _HEIGHT - radius))
        discs.append((centre, radius))
        inside, face = _coin(coins[rng.integers(len(coins))], centre, radius)
        scene[inside] = (face[:, :, None] * copper * rng.uniform(0.9, 1.15))[inside]
        mask[inside] = 1
    scene = scene + 4.0 * rng.standard_normal(scene.shape)
    return np.clip(np.rint(scene), 0, 255).astype(np.uint8), mask, _strokes(mask, discs[-1])


def _coin(coin: np.ndarray, centre: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels inside the coin, and its face at the size of the picture."""
    x, y = np.arange(_WIDTH) - centre[0], np.arange(_HEIGHT) - centre[1]
    inside = np.hypot(x, y[:, None]) <= radius
    scale = coin.shape[0] / (2 * radius)
    columns = np.broadcast_to(((x + radius) * scale).astype(np.float32), inside.shape)
    rows = np.broadcast_to(((y + radius) * scale).astype(np.float32)[:, None], inside.shape)
    face = cv2.remap(
        coin.astype(np.float32), columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return inside, np.asarray(face, np.float64)


def _strokes(mask: np.ndarray, disc: tuple[np.ndarray, float]) -> np.ndarray:
    """Draw a stroke across one coin, and two where the picture is farthest from all coins."""
    (x, y), radius = disc
    strokes = np.zeros_like(mask)
    half = radius / 2
    cv2.line(strokes, (round(x - half), round(y)), (round(x + half), round(y)), 1, 3)
    outside = cv2.distanceTransform((mask == 0).astype(np.uint8), cv2.DIST_L2, 5)
    for _ in range(2):
        row, column = np.unravel_index(np.argmax(outside), outside.shape)
        reach = max(2, int(outside[row, column] * 0.6))
        first, last = max(0, int(column) - reach), min(_WIDTH - 1, int(column) + reach)
        strokes[max(0, int(row) - 1) : int(row) + 2, first:last][
            mask[max(0, int(row) - 1) : int(row) + 2, first:last] == 0
        ] = 2
        outside[max(0, int(row) - 20) : int(row) + 20, first:last] = 0
    return strokes


@lru_cache(maxsize=1)
def _photographs() -> tuple[list[np.ndarray], list[np.ndarray]]:
    from skimage import data  # imported here, since scikit-image loads slowly

    textures = [
        cv2.resize(photograph, None, fx=0.6, fy=0.6, interpolation=cv2.INTER_AREA).astype(
            np.float64
        )
        for photograph in (data.brick(), data.grass(), data.gravel())
    ]
    coins = data.coins().astype(np.float64)
    # Centres and radii of four coins in the photograph.
    places = ((54, 43, 19), (189, 210, 20), (120, 270, 21), (186, 337, 27))
    return textures, [coins[y - r : y + r, x - r : x + r] for y, x, r in places]


def main(folder: str) -> None:
    """Write pictures, masks and scribbles of the same names."""
    made = make_synthetic_images()
    for kind in ("images", "masks", "scribbles"):
        (Path(folder) / kind).mkdir(parents=True, exist_ok=True)
        for index, pixels in enumerate(getattr(made, kind)):
            write_png(Path(folder) / kind / f"{index:02d}.png", pixels)
    print(f"{folder} has {made.name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="folder that is written")
    main(**vars(parser.parse_args()))
