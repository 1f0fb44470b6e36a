"""Synthetic photographs and masks, in memory and in folders."""

from examples.synthetic_images import make_synthetic_images
from structboost.segmentation.unaries import UnarySettings
from structboost.vision.images import write_png

QUICK = UnarySettings(n_folds=2, group_rounds=5)


def write_folder(root, n, seed):
    """Synthetic images as folders, with masks of 0 and 255, and scribbles."""
    made = make_synthetic_images(n, random_state=seed)
    for folder in ("images", "masks", "scribbles"):
        (root / folder).mkdir(parents=True)
    for index in range(n):
        name = f"{index:02d}.png"
        write_png(root / "images" / name, made.images[index])
        write_png(root / "masks" / name, made.masks[index] * 255)
        write_png(root / "scribbles" / name, made.scribbles[index])
    return made
