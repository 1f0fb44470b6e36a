"""``structboost segment``: train, predict and evaluate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from structboost.files.outputs import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
)
from structboost.files.whole_file import write_whole
from structboost.progress import ProgressLine
from structboost.segmentation.crf_training import LEARNERS, WEAK_LEARNERS, CRFSettings
from structboost.segmentation.drawing import draw_segmentation
from structboost.segmentation.image_files import (
    IMAGE_SUFFIXES,
    ImageFileError,
    Mask,
    ReadWhenUsed,
    read_mask,
    read_photograph,
    write_png,
)
from structboost.segmentation.labelled_folder import (
    LabelledFolder,
    LabelledImage,
    files_in,
    read_folder,
    read_split,
)
from structboost.segmentation.made_images import made_images
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.segmenter import Segmenter

_STRICT = "stop at the first problem instead of skipping"


def add_arguments(subparsers: Any) -> None:
    """Add the command ``segment`` and its actions to a parser's sub-commands."""
    top = subparsers.add_parser("segment", help="segment photographs by a learned CRF")
    actions = top.add_subparsers(dest="action", required=True)
    _add_train(actions.add_parser("train", help="learn from images and masks, or from made images"))
    _add_predict(actions.add_parser("predict", help="write masks and overlays of images"))
    _add_evaluate(actions.add_parser("evaluate", help="compare predictions with masks"))


def _add_train(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FILE", help="where the model goes")
    _add_folders(parser, required=False)
    add("--segments", type=int, default=300, metavar="N", help="superpixels per image, about")
    chosen = "by cross-validation; with more than two classes 0.3"
    add("--C", type=float, metavar="C", help=f"weight of the loss (default: {chosen})")
    add("--rounds", type=int, default=50, metavar="N", help="most rounds of boosting")
    add("--learner", choices=LEARNERS, default=LEARNERS[0], help="boosted or linear weights")
    add("--weak-learner", choices=WEAK_LEARNERS, default=WEAK_LEARNERS[0])
    add("--seed", type=int, default=0, metavar="N")
    parser.set_defaults(run=_train)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("images", type=Path, nargs="+", metavar="IMAGE", help="files, or folders of them")
    add("--model", type=Path, metavar="FILE", help="not needed with scribbles")
    targets = "folder for NAME.png and NAME-overlay.png"
    add("--out", type=Path, required=True, metavar="DIR", help=targets)
    strokes = "1 object, 2 background; DIR/NAME.png"
    add("--scribbles", type=Path, metavar="FILE|DIR", help=strokes)
    add("--strict", action="store_true", help=_STRICT)
    parser.set_defaults(run=_predict)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FILE")
    _add_folders(parser, required=True)
    add("--json", type=Path, required=True, metavar="FILE", help="where the scores go")
    parser.set_defaults(run=_evaluate)


def _add_folders(parser: argparse.ArgumentParser, required: bool) -> None:
    add = parser.add_argument
    for name, kind, is_required, text in (
        ("--images", "DIR", required, None),
        ("--masks", "DIR", required, "class indices, 255 void; or 0, 255"),
        ("--split", "FILE", False, "lines 'ID train' or 'ID test': take that part"),
        ("--scribbles", "DIR", False, "strokes of each image: 1 object, 2 background"),
        ("--cache", "DIR", False, "keep features of images there"),
    ):
        add(name, type=Path, metavar=kind, required=is_required, help=text)
    add("--foreground", type=int, metavar="N", help="take class N against the rest")
    add("--strict", action="store_true", help=_STRICT)
    add("--jobs", type=int, default=-1, metavar="N", help="processes (default: one per core)")


def _train(options: argparse.Namespace) -> bool:
    """Train and save a model; returns whether no image was left out."""
    if (options.images is None) != (options.masks is None):
        raise ValueError("--images and --masks go together; give both, or neither for made images.")
    _check_files(options, {"--model": options.model})
    segmenter = Segmenter(
        n_segments=options.segments,
        C=options.C,
        crf=CRFSettings(
            learner=options.learner, weak_learner=options.weak_learner, max_rounds=options.rounds
        ),
        random_state=options.seed,
        n_jobs=options.jobs,
        cache=options.cache,
        verbose=1,
    )
    problems: Sequence[str] = ()
    if options.images is None:
        made = made_images()
        _say(f"no folder given: training on {made.name}")
        segmenter.n_segments = min(options.segments, 150)
        segmenter.fit(made.images, made.masks, made.scribbles if options.scribbles else None)
    else:
        found = _read(options, "train")
        segmenter.meaning, images, problems = found.meaning, found.images, found.problems
        segmenter.fit(*_pictures(options, images))
    segmenter.save(options.model)
    last = segmenter.history_[-1]
    gap = "no gap is certified"
    if last["certified"]:
        gap = f"certified gap {100 * last['gap']:.1f} %"
    elif last["cross_fitted"] and last["gap"] is not None:
        gap = f"gap {100 * last['gap']:.1f} % on cross-fitted answers"
    _say(
        f"{options.model}: {segmenter.n_labels_} classes, C = {segmenter.C_:g}, "
        f"{last['round']} rounds, {gap}"
    )
    if segmenter.interrupted_:
        raise KeyboardInterrupt
    return not problems


def _predict(options: argparse.Namespace) -> bool:
    """Write the masks of images; returns whether none was skipped."""
    if options.model is None and options.scribbles is None:
        raise ValueError("give --model FILE, or --scribbles FILE to segment by scribbles alone.")
    files = _image_files(options.images)
    loaded = Segmenter.load(options.model) if options.model else None
    _check_targets(files, options)
    segmenter = loaded or _segmenter_of_scribbles()
    line = ProgressLine("segmented", len(files))
    problems = []
    for path in files:
        try:
            image = read_photograph(path)
            mask = segmenter.predict(image, _strokes(options.scribbles, path.stem, len(files)))
        except ValueError as error:
            if options.strict:
                line.close()
                raise ImageFileError(f"{path}: {error}") from error
            problems.append(f"{path}: {error}")
            continue
        of_mask, of_overlay = _targets(path, options.out)
        write_png(of_mask, segmenter.meaning.values(mask))
        write_png(of_overlay, draw_segmentation(image, mask, segmenter.n_labels_))
        line.step()
    line.close()
    _tell(problems)
    if not line.done:
        raise ImageFileError("none of the images could be segmented.")
    return not problems


def _evaluate(options: argparse.Namespace) -> bool:
    """Write the scores of predictions; returns whether no image was left out."""
    _check_files(options, {"--json": options.json}, options.model)
    segmenter = Segmenter.load(options.model)
    segmenter.cache, segmenter.n_jobs = options.cache, options.jobs
    if options.foreground is None:
        options.foreground = segmenter.meaning.foreground
    found = _read(options, "test", segmenter.n_labels_)
    line = ProgressLine("segmented", len(found.images))
    confusions = []
    photographs, masks, strokes = _pictures(options, found.images)
    for mask, predicted in zip(masks, segmenter.predict_in_turn(photographs, strokes), strict=True):
        confusions.append(confusion(mask, predicted, segmenter.n_labels_))
        line.step()
    line.close()
    for image, counts in zip(found.images, confusions, strict=True):
        if not counts.any():
            _say(f"{image.mask_file} is void everywhere: nothing of {image.name} counts.")
    scores = SegmentationScores.of(confusions)
    record = {**scores.as_record(), "images": len(found.images)}
    write_whole(options.json, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    _say(
        ", ".join(
            f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in record.items()
        )
    )
    return not found.problems


def _read(options: argparse.Namespace, part: str, n_labels: int | None = None) -> LabelledFolder:
    """The images of a part of the split, or all; tells which others were left out, and why."""
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


def _pictures(
    options: argparse.Namespace, images: Sequence[LabelledImage]
) -> tuple[ReadWhenUsed, ReadWhenUsed, ReadWhenUsed | None]:
    """Photographs, masks and, if there are any, scribbles."""
    strokes = ReadWhenUsed(images, lambda i: _strokes(options.scribbles, i.name, len(images)))
    return (
        ReadWhenUsed(images, lambda image: image.image),
        ReadWhenUsed(images, lambda image: image.mask),
        strokes if options.scribbles is not None else None,
    )


def _strokes(place: Path | None, name: str, n_images: int) -> Mask | None:
    """Scribbles of an image: from the file itself, or from NAME.png in a folder."""
    if place is None:
        return None
    if place.is_dir():
        return read_mask(place / f"{name}.png")
    if n_images > 1:
        raise ImageFileError(
            f"--scribbles {place} is one file for {n_images} images; give a folder with NAME.png."
        )
    return read_mask(place)


def _segmenter_of_scribbles() -> Segmenter:
    """A segmenter from made images, in seconds: scribbles spread alike in all images."""
    made = made_images()
    _say(f"no model given: learning how scribbles spread from {made.name}")
    return Segmenter(n_segments=150, C=1.0).fit(made.images, made.masks, made.scribbles)


def _image_files(places: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for place in places:
        inside = files_in(place) if place.is_dir() else [place]
        if not inside:
            raise ImageFileError(f"{place} has no images ({', '.join(IMAGE_SUFFIXES)}).")
        files += inside
    return files


def _targets(image: Path, out: Path) -> tuple[Path, Path]:
    """Files for the mask and the overlay of an image."""
    return out / f"{image.stem}.png", out / f"{image.stem}-overlay.png"


def _check_targets(files: Sequence[Path], options: argparse.Namespace) -> None:
    """Raise unless each target belongs to one image, can be written, and overwrites no input."""
    image_of: dict[Path, Path] = {}
    for path in files:
        for target in _targets(path, options.out):
            other = image_of.setdefault(target, path)
            if other.resolve() != path.resolve():
                raise OutputError(
                    f"{other} and {path} would both become {target.name}; rename one."
                )
    read = [*files, *_files_in(options.scribbles), *_files_in(options.model)]
    check_overwrites_none(image_of, read, "--out")
    check_folder(options.out, "--out")


def _check_files(
    options: argparse.Namespace, outputs: dict[str, Path | None], model: Path | None = None
) -> None:
    """Raise unless outputs and cache can be written, and no input is overwritten."""
    places = (options.images, options.masks, options.scribbles, options.split, model)
    check_outputs(outputs, [path for place in places for path in _files_in(place)])
    if options.cache is not None:
        check_folder(options.cache, "--cache")


def _files_in(place: Path | None) -> list[Path]:
    """The file itself, or those in the folder; none if there is nothing."""
    if place is None or not place.exists():
        return []
    return list(place.iterdir()) if place.is_dir() else [place]


def _tell(problems: Sequence[str]) -> None:
    for problem in problems:
        _say(f"left out: {problem}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
