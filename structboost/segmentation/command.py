"""Command ``structboost segment`` with its actions train, predict and evaluate."""

from __future__ import annotations

import json
import os
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from structboost.errors import say
from structboost.files.atomic_write import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
    whole_file,
    write_json,
)
from structboost.progress import ProgressLine
from structboost.segmentation.masks import LabelledFolder, LabelMap, read_folder, read_split
from structboost.segmentation.scores import SegmentationScores, confusion, named_scores
from structboost.segmentation.scribbles import StrokeSegmenter
from structboost.segmentation.segmenter import Segmenter
from structboost.vision.drawing import draw_segmentation
from structboost.vision.images import (
    ImageFileError,
    ReadWhenUsed,
    files_in,
    read_mask,
    read_photograph,
    write_png,
)

_FILES = {
    "model": "file of the model",
    "split": "lines 'ID train' or 'ID test': take that part",
    "classes": "lines 'INDEX NAME'",
    "json": "where the scores go (- is standard output): IoU of each class, of each image, and the "
    "confusion matrix",
}
_MASKS = (
    "pictures of indices (255 is void), of two values or with a palette; LabelMe's files; or one "
    "file of COCO"
)
_GROUPS = (
    "images of a group are in one fold: a regular expression whose match in the name is the group, "
    "such as '^[a-z]+' for frames walk01, walk02"
)


def add_arguments(subparsers: Any) -> None:
    """Add the command ``segment`` and its actions to a parser's sub-commands."""
    top = subparsers.add_parser("segment", help="segment photographs by a learned CRF")
    actions = top.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", help="learn from images and masks")
    predict = actions.add_parser("predict", help="write masks and overlays of images")
    evaluate = actions.add_parser("evaluate", help="compare predictions with masks")
    for parser, names in (
        (train, ("model", "split", "classes")),
        (predict, ("model",)),
        (evaluate, ("model", "split", "json")),
    ):
        for name in names:
            is_needed = name == "json" or (name == "model" and parser is not predict)
            add = parser.add_argument
            add(f"--{name}", type=Path, metavar="FILE", required=is_needed, help=_FILES[name])
        if parser is not predict:
            add("--images", type=Path, metavar="DIR", required=True, help="folder of photographs")
            add("--masks", type=Path, metavar="DIR|FILE", required=True, help=_MASKS)
        add("--jobs", type=int, default=-1, metavar="N", help="processes (default: one per core)")

    add = train.add_argument
    add(
        "--foreground", type=int, nargs="+", metavar="N",
        help="take these classes together against the rest"
    )  # fmt: skip
    add("--groups", type=re.compile, metavar="PATTERN", help=_GROUPS)
    add(
        "--C", type=float, metavar="C", help="weight of the loss (default: by cross-validation; "
        "with more than two classes 0.3)"
    )  # fmt: skip
    add(
        "--longest", type=int, default=512, metavar="N",
        help="shrink photographs to this longer side, pixels (default: 512)"
    )  # fmt: skip
    train.set_defaults(run=_train)

    add = predict.add_argument
    add("images", type=Path, nargs="+", metavar="IMAGE", help="files, or folders of them")
    add(
        "--out", type=Path, metavar="DIR", required=True,
        help="folder for NAME.png and NAME-overlay.png"
    )  # fmt: skip
    add(
        "--scribbles", type=Path, metavar="FILE|DIR",
        help="1 object, 2 background; DIR/NAME.png; a model is not needed then"
    )  # fmt: skip
    add(
        "--probabilities", action="store_true", help="also write NAME-probabilities.npz, by a model"
    )
    predict.set_defaults(run=_predict)
    evaluate.set_defaults(run=_evaluate)


def _train(options: Namespace) -> bool:
    """Train and save a model."""
    check_outputs(
        {"--model": options.model}, _inputs(options, "images", "masks", "split", "classes")
    )
    segmenter = Segmenter(C=options.C, longest=options.longest, n_jobs=options.jobs, verbose=1)
    images, segmenter.meaning = _read(
        options, "train", foreground=options.foreground, classes=options.classes
    )
    groups = None
    if options.groups is not None:
        matches = [options.groups.search(image.name) for image in images]
        if None in matches:
            name = images[matches.index(None)].name
            raise ValueError(f"--groups {options.groups.pattern} does not match {name}.")
        groups = [match[0] for match in matches]
        say(f"groups of images: {len(set(groups))}")
    photographs = ReadWhenUsed(images, lambda image: image.image)
    segmenter.fit(photographs, ReadWhenUsed(images, lambda image: image.values), groups)
    segmenter.save(options.model)
    say(
        f"{options.model}: {segmenter.n_labels_} classes, C = {segmenter.C_:g}, "
        f"{segmenter.history_[-1]['round']} rounds"
    )
    if segmenter.interrupted_:
        raise KeyboardInterrupt
    return True


def _predict(options: Namespace) -> bool:
    """Write the masks of images, and return whether none was left out."""
    files: list[Path] = []
    for place in options.images:
        files += files_in(place) if place.is_dir() else [place]
    segmenter: Any = StrokeSegmenter()
    meaning, n_labels = LabelMap(), 2
    if options.model is not None:
        segmenter = Segmenter.load(options.model)
        meaning, n_labels = segmenter.meaning_, segmenter.n_labels_
    elif options.scribbles is None or options.probabilities:
        raise ValueError("give --model FILE, or only --scribbles to segment by scribbles alone.")
    _check_targets(files, options)
    names = [meaning.name(label) for label in range(n_labels)]
    segmented: Iterator[Any] = joblib.Parallel(options.jobs, return_as="generator")(
        joblib.delayed(_segment_file)(segmenter, file, options.scribbles, options.probabilities)
        for file in files
    )
    with ProgressLine("segmented", len(files)) as line:
        for path, result in zip(files, segmented, strict=True):
            if isinstance(result, ValueError):
                say(f"left out: {path}: {result}")
                continue
            mask, probabilities = result
            targets = _targets(path, options)
            write_png(targets[0], meaning.values(mask))
            overlay = draw_segmentation(read_photograph(path), mask, n_labels, names=names)
            write_png(targets[1], overlay)
            if probabilities is not None:
                with whole_file(targets[2]) as file:
                    np.savez_compressed(file, probabilities=probabilities.astype(np.float16))
            line.step()
    if not line.done:
        raise ImageFileError("none of the images could be segmented.")
    return line.done == len(files)


def _segment_file(segmenter: Any, image: Path, scribbles: Path | None, probabilities: bool) -> Any:
    """Return the mask of an image and perhaps its probabilities, or the error that it causes."""
    try:
        pixels, strokes = read_photograph(image), None
        if scribbles is not None:
            is_folder = scribbles.is_dir()
            strokes = read_mask(scribbles / f"{image.stem}.png" if is_folder else scribbles)
        if probabilities:
            return segmenter.mask_and_probabilities(pixels, strokes)
        return segmenter.predict(pixels, strokes), None
    except ValueError as error:
        return error


def _evaluate(options: Namespace) -> bool:
    """Write the scores of predictions."""
    check_outputs({"--json": options.json}, _inputs(options, "images", "masks", "split", "model"))
    segmenter = Segmenter.load(options.model)
    meaning, n_labels = segmenter.meaning_, segmenter.n_labels_
    images, _ = _read(options, "test", meaning=meaning, n_labels=n_labels)
    counts = {}
    predicted = joblib.Parallel(options.jobs, return_as="generator")(
        joblib.delayed(segmenter.predict)(image.image) for image in images
    )
    with ProgressLine("segmented", len(images)) as line:
        for image, mask in zip(images, predicted, strict=True):
            counts[image.name] = confusion(image.mask, mask, n_labels)
            line.step()
    names = [meaning.name(label) for label in range(n_labels)]

    def shared(scores: SegmentationScores) -> dict[str, Any]:
        return {"iou": named_scores(names, scores.iou), **scores.as_record()}

    scores = SegmentationScores.of(list(counts.values()))
    by_image = {name: shared(SegmentationScores(counts[name])) for name in counts}
    record = shared(scores) | {"confusion": scores.confusion.tolist(), "by_image": by_image}
    write_json(options.json, record)
    say(json.dumps(shared(scores), indent=1))
    return True


def _read(options: Namespace, part: str, **settings: Any) -> LabelledFolder:
    """Read the images of a part of the split, or all."""
    names = None
    if options.split is not None:
        names = [name for name, its in read_split(options.split).items() if its == part]
    result = read_folder(options.images, options.masks, names=names, verbose=1, **settings)
    say(f"{len(result.images)} images; {result.meaning}")
    return result


def _targets(image: Path, options: Namespace) -> list[Path]:
    """Return the files for an image's mask, overlay and probabilities."""
    endings = (".png", "-overlay.png", "-probabilities.npz")[: 2 + options.probabilities]
    return [options.out / f"{image.stem}{ending}" for ending in endings]


def _check_targets(files: list[Path], options: Namespace) -> None:
    """Raise unless each target belongs to one image, can be written, and overwrites no input."""
    image_of: dict[Path, Path] = {}
    for path in files:
        for target in _targets(path, options):
            other = image_of.setdefault(target, path)
            if os.path.realpath(other) != os.path.realpath(path):
                raise OutputError(
                    f"{other} and {path} would both be written to {target.name}; rename one."
                )
    check_overwrites_none(image_of, files + _inputs(options, "scribbles", "model"), "--out")
    check_folder(options.out, "--out")


def _inputs(options: Namespace, *names: str) -> list[Path]:
    """List the files, and those in the folders, of some options."""
    files: list[Path] = []
    for name in names:
        place = getattr(options, name)
        if place is not None and place.exists():
            files += place.iterdir() if place.is_dir() else [place]
    return files
