"""``structboost segment train | predict | evaluate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from structboost.exceptions import ModelFileError
from structboost.segmentation.crf_training import LEARNERS, WEAK_LEARNERS, CRFSettings
from structboost.segmentation.drawing import draw_segmentation
from structboost.segmentation.image_files import (
    IMAGE_SUFFIXES,
    ImageFileError,
    Mask,
    ReadWhenUsed,
    read_mask,
    read_photograph,
    write_bytes,
    write_png,
)
from structboost.segmentation.labelled_folder import LabelledFolder, LabelledImage, read_folder, read_split
from structboost.segmentation.made_images import made_images
from structboost.segmentation.progress_line import ProgressLine
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.segmenter import Segmenter

FAILED = 1


def add_arguments(subparsers: Any) -> None:
    """Add ``segment`` and what it takes."""
    top = subparsers.add_parser("segment", help="segment photographs by a learned CRF")
    actions = top.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", help="learn from images and masks (with neither: from made images)")
    train.add_argument("--model", type=Path, required=True, metavar="FILE", help="where the model goes")
    _add_folders(train, required=False)
    train.add_argument("--segments", type=int, default=300, metavar="N", help="superpixels of an image, about")
    train.add_argument(
        "--C",
        type=float,
        metavar="C",
        help="weight of the loss (default: by cross-validation; for more than two classes 0.3)",
    )
    train.add_argument("--rounds", type=int, default=50, metavar="N", help="most rounds of boosting")
    train.add_argument("--learner", choices=LEARNERS, default=LEARNERS[0], help="boosted or linear weights")
    train.add_argument("--weak-learner", choices=WEAK_LEARNERS, default=WEAK_LEARNERS[0])
    train.add_argument("--seed", type=int, default=0, metavar="N")
    train.set_defaults(run=_reporting(_train))
    predict = actions.add_parser("predict", help="write masks and overlays of images")
    predict.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="files, or folders of them")
    predict.add_argument("--model", type=Path, metavar="FILE", help="not needed with scribbles")
    predict.add_argument("--out", type=Path, required=True, metavar="DIR", help="for NAME.png and NAME-overlay.png")
    predict.add_argument("--scribbles", type=Path, metavar="FILE|DIR", help="1 object, 2 background; DIR/NAME.png")
    predict.add_argument("--strict", action="store_true", help="stop at the first problem instead of skipping")
    predict.set_defaults(run=_reporting(_predict))
    evaluate = actions.add_parser("evaluate", help="compare predictions with masks")
    evaluate.add_argument("--model", type=Path, required=True, metavar="FILE")
    _add_folders(evaluate, required=True)
    evaluate.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the scores go")
    evaluate.set_defaults(run=_reporting(_evaluate))


def _add_folders(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument("--images", type=Path, metavar="DIR", required=required)
    parser.add_argument(
        "--masks", type=Path, metavar="DIR", required=required, help="class indices, 255 void; or 0, 255"
    )
    parser.add_argument("--split", type=Path, metavar="FILE", help="lines 'ID train' or 'ID test': take that part")
    parser.add_argument("--foreground", type=int, metavar="N", help="take class N against the rest")
    parser.add_argument("--scribbles", type=Path, metavar="DIR", help="strokes of each image: 1 object, 2 background")
    parser.add_argument("--strict", action="store_true", help="stop at the first problem instead of skipping")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep features of images there")
    parser.add_argument("--jobs", type=int, default=-1, metavar="N", help="processes (default: one a core)")


def _reporting(action: Any) -> Any:
    """What a user did wrong as a line, not a traceback."""

    def run(options: argparse.Namespace) -> int:
        try:
            action(options)
        except (ImageFileError, ModelFileError, ValueError, OSError) as error:
            sys.stderr.write(f"structboost segment {options.action}: {error}\n")
            return FAILED
        return 0

    return run


def _train(options: argparse.Namespace) -> None:
    if (options.images is None) != (options.masks is None):
        raise ValueError("--images and --masks go together; give both, or neither for made images.")
    _check_folder_of(options.model)
    segmenter = Segmenter(
        n_segments=options.segments,
        C=options.C,
        crf=CRFSettings(learner=options.learner, weak_learner=options.weak_learner, max_rounds=options.rounds),
        random_state=options.seed,
        n_jobs=options.jobs,
        cache=options.cache,
        verbose=1,
    )
    if options.images is None:
        made = made_images()
        _say(f"no folder given: training on {made.name}")
        segmenter.n_segments = min(options.segments, 150)
        segmenter.fit(made.images, made.masks, made.scribbles if options.scribbles else None)
    else:
        found = _read(options, "train")
        segmenter.meaning = found.meaning
        images = found.images
        segmenter.fit(*_photographs_and_masks(images), _scribbles_of(options, images))
    segmenter.save(options.model)
    last = segmenter.history_[-1]
    gap = "no gap is certified" if not last["certified"] else f"certified gap {100 * last['gap']:.1f} %"
    _say(f"{options.model}: {segmenter.n_labels_} classes, C = {segmenter.C_:g}, {last['round']} rounds, {gap}")


def _predict(options: argparse.Namespace) -> None:
    if options.model is None and options.scribbles is None:
        raise ValueError("give --model FILE, or --scribbles FILE to segment by scribbles alone.")
    segmenter = Segmenter.load(options.model) if options.model else _segmenter_of_scribbles()
    files = _image_files(options.images)
    _check_targets(files, options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    line = ProgressLine("segmented", len(files))
    done, problems = 0, []
    for path in files:
        try:
            image = read_photograph(path)
            strokes = None if options.scribbles is None else _strokes(options.scribbles, path.stem, len(files))
            mask = segmenter.predict(image, strokes)
        except (ImageFileError, ValueError) as error:
            if options.strict:
                line.close()
                raise ImageFileError(f"{path}: {error}") from error
            problems.append(f"{path}: {error}")
            continue
        write_png(options.out / f"{path.stem}.png", segmenter.meaning.values(mask))
        write_png(options.out / f"{path.stem}-overlay.png", draw_segmentation(image, mask, segmenter.n_labels_))
        done += 1
        line.step()
    line.close()
    _tell(problems)
    if not done:
        raise ImageFileError("none of the images could be segmented.")


def _evaluate(options: argparse.Namespace) -> None:
    segmenter = Segmenter.load(options.model)
    _check_folder_of(options.json)
    segmenter.cache, segmenter.n_jobs = options.cache, options.jobs
    if options.foreground is None:
        options.foreground = segmenter.meaning.foreground
    found = _read(options, "test", segmenter.n_labels_)
    strokes = _scribbles_of(options, found.images)
    n = segmenter.n_labels_
    line = ProgressLine("segmented", len(found.images))
    confusions = []
    photographs, masks = _photographs_and_masks(found.images)
    for mask, predicted in zip(masks, segmenter.predict_in_turn(photographs, strokes), strict=True):
        confusions.append(confusion(mask, predicted, n))
        line.step()
    line.close()
    scores = SegmentationScores.of(confusions)
    record = {**scores.as_record(), "images": len(found.images)}
    write_bytes(options.json, (json.dumps(record, indent=1) + "\n").encode())
    _say(
        ", ".join(
            f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value}" for name, value in record.items()
        )
    )


def _read(options: argparse.Namespace, part: str, n_labels: int | None = None) -> LabelledFolder:
    """The images of a part of the split, or all; what is wrong with others is told."""
    names = None
    if options.split is not None:
        names = [name for name, of_image in read_split(options.split).items() if of_image == part]
        if not names:
            raise ImageFileError(f"{options.split} has no image of the part {part!r}.")
    found = read_folder(
        options.images,
        options.masks,
        names=names,
        foreground=options.foreground,
        n_labels=n_labels,
        strict=options.strict,
    )
    _tell(found.problems)
    _say(f"{len(found.images)} images; {found.meaning}")
    return found


def _photographs_and_masks(images: Sequence[LabelledImage]) -> tuple[ReadWhenUsed, ReadWhenUsed]:
    return ReadWhenUsed(images, lambda image: image.image), ReadWhenUsed(images, lambda image: image.mask)


def _scribbles_of(options: argparse.Namespace, images: Sequence[LabelledImage]) -> ReadWhenUsed | None:
    if options.scribbles is None:
        return None
    return ReadWhenUsed(images, lambda image: _strokes(options.scribbles, image.name, len(images)))


def _strokes(place: Path, name: str, n_images: int) -> Mask:
    """Scribbles of an image: the file itself, or NAME.png in a folder."""
    if place.is_dir():
        return read_mask(place / f"{name}.png")
    if n_images > 1:
        raise ImageFileError(f"--scribbles {place} is one file for {n_images} images; give a folder with NAME.png.")
    return read_mask(place)


def _segmenter_of_scribbles() -> Segmenter:
    """How scribbles spread is much the same in all images: learned on made ones, in seconds."""
    made = made_images()
    _say(f"no model given: learning how scribbles spread from {made.name}")
    return Segmenter(n_segments=150, C=1.0).fit(made.images, made.masks, made.scribbles)


def _image_files(places: Sequence[Path]) -> list[Path]:
    """Files, and those of folders, in order."""
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(path for path in place.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
            if not inside:
                raise ImageFileError(f"{place} has no images ({', '.join(IMAGE_SUFFIXES)}).")
            files += inside
        else:
            files.append(place)
    return files


def _check_targets(files: Sequence[Path], out: Path) -> None:
    """No mask may overwrite another one's, nor an image."""
    if out.exists() and not out.is_dir():
        raise ImageFileError(f"--out {out} is a file; give a folder.")
    by_stem: dict[str, Path] = {}
    images = {path.resolve() for path in files}
    for path in files:
        if path.stem in by_stem and by_stem[path.stem].resolve() != path.resolve():
            raise ImageFileError(f"{by_stem[path.stem]} and {path} would both become {path.stem}.png; rename one.")
        by_stem[path.stem] = path
        for target in (out / f"{path.stem}.png", out / f"{path.stem}-overlay.png"):
            if target.resolve() in images:
                raise ImageFileError(f"{target} is one of the images and would be overwritten; give another --out.")


def _check_folder_of(path: Path) -> None:
    """Before an hour of training, not after it."""
    if path.is_dir():
        raise ImageFileError(f"{path} is a folder; give the name of a file.")
    if not path.absolute().parent.is_dir():
        raise ImageFileError(f"There is no folder {path.absolute().parent} for {path.name}.")


def _tell(problems: Sequence[str]) -> None:
    for problem in problems:
        _say(f"left out: {problem}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
