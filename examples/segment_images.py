"""Learn to segment images: train, save, load, segment, score, draw.

``python examples/segment_images.py IMAGES MASKS`` takes two folders, whose files have the same
names, such as those that ``python examples/synthetic_images.py FOLDER`` writes.  The first of every
five is held out to score the model, which is trained on the others.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from structboost.segmentation import (
    ImageFileError,
    SegmentationScores,
    Segmenter,
    confusion,
    draw_segmentation,
    read_folder,
    write_png,
)


def read_pairs(images: str, masks: str) -> tuple[list[Any], list[Any]]:
    """Read photographs and masks to train on, and those that are held out."""
    pairs = [(pair.image, pair.mask) for pair in read_folder(images, masks).images]
    if len(pairs) < 4:
        raise ImageFileError(f"{images} has {len(pairs)} photographs with masks; give at least 4.")
    return [pair for i, pair in enumerate(pairs) if i % 5], pairs[::5]


def main(train: list[Any], test: list[Any]) -> None:
    """Train, save, load, segment, score and draw."""
    images, masks = zip(*train, strict=True)
    segmenter = Segmenter(n_segments=150, verbose=1).fit(images, masks)
    last = segmenter.history_[-1]
    print(f"C = {segmenter.C_:g}, {last['round']} rounds, gap {last['gap']:.1%}")

    folder = Path(tempfile.mkdtemp(prefix="segment-"))
    segmenter.save(folder / "images.model")
    segmenter = Segmenter.load(folder / "images.model")

    predicted = [segmenter.predict(image) for image, _ in test]
    scores = SegmentationScores.of(
        [
            confusion(truth, mask, segmenter.n_labels_)
            for (_, truth), mask in zip(test, predicted, strict=True)
        ]
    )
    print({name: round(value, 3) for name, value in scores.as_record().items()})

    for i, ((image, _), mask) in enumerate(zip(test, predicted, strict=True)):
        write_png(folder / f"{i}.png", draw_segmentation(image, mask, segmenter.n_labels_))
    print(f"model and pictures are in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn to segment images.")
    parser.add_argument("images", metavar="IMAGES", help="folder of photographs")
    parser.add_argument("masks", metavar="MASKS", help="folder of masks")
    given = parser.parse_args()
    try:
        pairs = read_pairs(given.images, given.masks)
    except ImageFileError as error:
        parser.error(str(error))
    main(*pairs)
