"""Learn to segment images: train, save, load, segment, score, draw.

``python examples/segment_images.py`` takes synthetic images, and needs about half a minute.

``python examples/segment_images.py --images FOLDER --masks FOLDER`` takes photographs and their
masks, which have the same names.  The first of every five is held out to score the model, which is
trained on the others.
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
    contact_sheet,
    make_synthetic_images,
    read_folder,
    write_png,
)


def read_pairs(images: str, masks: str) -> tuple[list[Any], list[Any]]:
    """Read photographs and masks to train on, and those that are held out."""
    folder = read_folder(images, masks)
    for problem in folder.problems:
        print(f"left out: {problem}")
    pairs = [(pair.image, pair.mask) for pair in folder.images]
    if len(pairs) < 4:
        raise ImageFileError(f"{images} has {len(pairs)} photographs with masks; give at least 4.")
    return [pair for i, pair in enumerate(pairs) if i % 5], pairs[::5]


def synthetic_pairs() -> tuple[list[Any], list[Any]]:
    """Make images and masks to train on, and others to score the model."""
    train, test = make_synthetic_images(24), make_synthetic_images(6, random_state=1)
    print(train.name)
    return list(zip(train.images, train.masks, strict=True)), list(
        zip(test.images, test.masks, strict=True)
    )


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

    rows = [
        (f"image {i}", image, {"truth": truth, "predicted": mask})
        for i, ((image, truth), mask) in enumerate(zip(test, predicted, strict=True))
    ]
    write_png(folder / "sheet.png", contact_sheet(rows))
    print(f"model and contact sheet are in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn to segment images.")
    parser.add_argument("--images", metavar="FOLDER", help="photographs, with --masks")
    parser.add_argument("--masks", metavar="FOLDER", help="a mask for each, with --images")
    given = parser.parse_args()
    if (given.images is None) != (given.masks is None):
        parser.error("--images and --masks go together; give both folders, or neither")
    try:
        pairs = synthetic_pairs() if given.images is None else read_pairs(given.images, given.masks)
    except ImageFileError as error:
        parser.error(str(error))
    main(*pairs)
