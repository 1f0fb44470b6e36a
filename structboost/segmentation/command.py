"""Command ``structboost segment`` with its actions train, predict and evaluate."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from structboost._typing import SingleArray
from structboost.files.atomic_write import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
    whole_file,
    write_whole,
)
from structboost.progress import Phase
from structboost.segmentation.crf import LEARNERS, WEAK_LEARNERS, CRFSettings
from structboost.segmentation.drawing import draw_segmentation
from structboost.segmentation.image_files import (
    IMAGE_SUFFIXES,
    ImageFileError,
    Mask,
    ReadWhenUsed,
    files_in,
    read_mask,
    read_photograph,
    write_png,
)
from structboost.segmentation.labelled_folder import (
    LabelledFolder,
    read_folder,
    read_groups,
    read_split,
)
from structboost.segmentation.masks import LabelMap
from structboost.segmentation.scores import confusion, evaluation, summary
from structboost.segmentation.scribbles import StrokeSegmenter
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.validation import (
    checked_n_jobs,
    checked_positive,
    checked_seed,
    checked_whole_number,
)

# Mask and, if asked for, probabilities of a photograph; or the reason why there is none.
Segmented = tuple[Mask, SingleArray | None] | str

_CHECKS: dict[str, Any] = {
    **dict.fromkeys(("segments", "longest", "rounds"), checked_whole_number),
    **{"seed": checked_seed, "C": checked_positive, "jobs": checked_n_jobs},
}
_LONGEST = "shrink photographs to this longer side, pixels"


def add_arguments(subparsers: Any) -> None:
    """Add the command ``segment`` and its actions to a parser's sub-commands."""
    top = subparsers.add_parser("segment", help="segment photographs by a learned CRF")
    actions = top.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", help="learn from images and masks, or synthetic ones")
    predict = actions.add_parser("predict", help="write masks and overlays of images")
    evaluate = actions.add_parser("evaluate", help="compare predictions with masks")
    longest = {"longest": f"{_LONGEST} (default: as in training)"}
    counted = {
        "segments": "number of superpixels per image, about (default: 300)",
        "longest": f"{_LONGEST} (default: 512)",
        "rounds": "largest number of rounds of boosting (default: 50)",
        "seed": "seed of all random choices (default: 0)",
    }
    groups = "images of a group are in one fold: a file of lines 'ID GROUP', or a regular "
    groups += "expression whose match in the name is the group, such as '^[a-z]+' for frames "
    groups += "walk01, walk02"
    chosen = "by cross-validation; with more than two classes 0.3"
    _add(train, Path, "FILE", {"model": "file to write the model to"}, required=True)
    _add_folders(train, required=False)
    _add(train, int, "N", counted)
    _add(train, float, "C", {"C": f"weight of the loss (default: {chosen})"})
    _add(train, str, "FILE|PATTERN", {"groups": groups})
    train.add_argument("--learner", choices=LEARNERS, help="boosted or linear weights")
    train.add_argument("--weak-learner", choices=WEAK_LEARNERS, help="what is boosted")
    train.set_defaults(
        run=_train, segments=300, longest=512, rounds=50, seed=0, learner=LEARNERS[0],
        weak_learner=WEAK_LEARNERS[0],
    )  # fmt: skip

    predict.add_argument(
        "images", type=Path, nargs="+", metavar="IMAGE", help="files, or folders of them"
    )
    _add(predict, Path, "FILE", {"model": "not needed with scribbles"})
    out = {"out": "folder for NAME.png and NAME-overlay.png"}
    _add(predict, Path, "DIR", out, required=True)
    _add(predict, Path, "FILE|DIR", {"scribbles": "1 object, 2 background; DIR/NAME.png"})
    background = "class that overlays leave unpainted (default 0; -1 paints all)"
    _add(predict, int, "N", {"background": background, **longest})
    predict.add_argument(
        "--probabilities",
        action="store_true",
        help="also write NAME-probabilities.npz and NAME-confidence.png (255 is certain)",
    )
    predict.set_defaults(run=_predict, background=0)

    scores = "where the scores go: IoU of each class, of each image, and the confusion matrix"
    files = {"model": "file that train wrote", "json": scores}
    _add(evaluate, Path, "FILE", files, required=True)
    _add_folders(evaluate, required=True)
    _add(evaluate, int, "N", longest)
    evaluate.set_defaults(run=_evaluate, probabilities=False)
    for parser in (train, predict, evaluate):
        cache = "keep features of images there, at most 10 GB (about 2 MB per image)"
        _add(parser, Path, "DIR", {"cache": cache})
        _add(parser, int, "N", {"jobs": "processes (default: one per core)"})
        parser.add_argument(
            "--strict", action="store_true", help="stop at the first problem instead of skipping"
        )
        parser.set_defaults(jobs=-1)


def _add_folders(parser: argparse.ArgumentParser, required: bool) -> None:
    masks = "pictures of indices (255 is void), of two values or with a palette; LabelMe's files; "
    masks += "or one file of COCO"
    _add(parser, Path, "DIR", {"images": "folder of photographs"}, required)
    _add(parser, Path, "DIR|FILE", {"masks": masks}, required)
    split = "lines 'ID train' or 'ID test': take that part"
    _add(parser, Path, "FILE", {"classes": "lines 'INDEX NAME'", "split": split})
    strokes = "strokes of each image: 1 object, 2 background"
    _add(parser, Path, "DIR", {"scribbles": strokes})
    name = "name of a mask without suffix (default {name}), such as {name}_mask"
    _add(parser, str, "PATTERN", {"mask-name": name})
    parser.add_argument(
        "--foreground",
        type=int,
        nargs="+",
        metavar="N",
        help="take these classes together against the rest",
    )
    parser.set_defaults(mask_name="{name}")


def _add(
    parser: argparse.ArgumentParser,
    kind: Any,
    metavar: str,
    texts: Mapping[str, str],
    required: bool = False,
) -> None:
    """Add options of a type, each with its help."""
    for name, text in texts.items():
        parser.add_argument(f"--{name}", type=kind, metavar=metavar, required=required, help=text)


def _train(options: argparse.Namespace) -> bool:
    """Train and save a model, and return whether all images were used."""
    if (options.images is None) != (options.masks is None):
        raise ValueError("--images and --masks go together; give both, or neither to try it.")
    _check(options, {"--model": options.model})
    segmenter = Segmenter(
        n_segments=options.segments,
        longest=options.longest,
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
    groups: Any = None
    strokes: Any = None
    if options.images is None:
        synthetic: Any = make_synthetic_images()
        photographs, masks, scribbles, name = synthetic
        _print_line(f"no folder given: training on {name}")
        segmenter.n_segments = min(options.segments, 150)
        strokes = scribbles if options.scribbles else None
    else:
        images, segmenter.meaning, problems = _read(options, "train")
        if options.groups is not None:
            groups = read_groups(options.groups, [image.name for image in images])
            _print_line(f"groups of images: {len(set(groups))}")
        if options.scribbles is not None:
            strokes = ReadWhenUsed(images, lambda i: read_mask(options.scribbles / f"{i.name}.png"))
        photographs = ReadWhenUsed(images, lambda image: image.image)
        masks = ReadWhenUsed(images, lambda image: image.values)
    segmenter.fit(photographs, masks, strokes, groups)
    segmenter.save(options.model)
    last = segmenter.history_[-1]
    gap = "no gap is certified"
    if last["gap"] is not None and (last["certified"] or last["cross_fitted"]):
        kind = ("gap", "certified gap")[last["certified"]]
        of = "" if last["certified"] else " on cross-fitted responses"
        gap = f"{kind} {100 * last['gap']:.1f} %{of}"
    _print_line(
        f"{options.model}: {segmenter.n_labels_} classes, C = {segmenter.C_:g}, "
        f"{last['round']} rounds, {gap}"
    )
    if segmenter.interrupted_:
        raise KeyboardInterrupt
    return not problems


def _predict(options: argparse.Namespace) -> bool:
    """Write the masks of images, and return whether none was skipped."""
    if options.model is None and options.scribbles is None:
        raise ValueError("give --model FILE, or --scribbles FILE to segment by scribbles alone.")
    files: list[Path] = []
    for place in options.images:
        inside = files_in(place) if place.is_dir() else [place]
        if not inside:
            raise ImageFileError(f"{place} has no images ({', '.join(IMAGE_SUFFIXES)}).")
        files += inside
    _check(options, {})
    meaning, n_labels = LabelMap(), 2
    if options.model is not None:
        model = Segmenter.load(options.model)
        meaning, n_labels = model.meaning_, model.n_labels_
    _check_targets(files, options)
    if not -1 <= options.background < n_labels:
        raise ValueError(
            f"--background is {options.background}; give a class from 0 to {n_labels - 1}, or -1 "
            "to paint all."
        )
    problems = []
    with Phase("segmented", len(files)) as line:
        for path, segmented in zip(files, _segment(options, files), strict=True):
            if isinstance(segmented, str):
                problems.append(segmented)
                continue
            mask, probabilities = segmented
            targets = _targets(path, options)
            palette = () if meaning.foreground else meaning.colours
            write_png(targets[0], meaning.values(mask), palette)
            overlay = draw_segmentation(
                read_photograph(path), mask, n_labels, meaning=meaning, legend=True,
                background=None if options.background < 0 else options.background,
            )  # fmt: skip
            write_png(targets[1], overlay)
            if probabilities is not None:
                with whole_file(targets[2]) as file:
                    np.savez_compressed(file, probabilities=probabilities.astype(np.float16))
                confidence = np.rint(255 * probabilities.max(axis=2))
                write_png(targets[3], confidence.astype(np.uint8))
            line.step()
    _report(problems)
    if not line.done:
        raise ImageFileError("none of the images could be segmented.")
    return not problems


def _evaluate(options: argparse.Namespace) -> bool:
    """Write the scores of predictions, and return whether all images were used."""
    _check(options, {"--json": options.json})
    segmenter = Segmenter.load(options.model)
    meaning, n_labels = segmenter.meaning_, segmenter.n_labels_
    if options.foreground is None and meaning.foreground:
        options.foreground = meaning.foreground
    images, _, problems = _read(options, "test", n_labels, meaning)
    counts, predicted = {}, _segment(options, [image.image_file for image in images])
    with Phase("segmented", len(images)) as line:
        for image, segmented in zip(images, predicted, strict=True):
            if isinstance(segmented, str):
                problems.append(segmented)
                _report([segmented])
                continue
            counts[image.name] = confusion(image.mask, segmented[0], n_labels)
            if not counts[image.name].any():
                _print_line(
                    f"{image.mask_file} is void everywhere: nothing of {image.name} counts."
                )
            line.step()
    if not counts:
        raise ImageFileError("none of the images could be segmented.")
    record = evaluation(counts, [meaning.name(label) for label in range(n_labels)])
    write_whole(options.json, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    _print_line(summary(record))
    return not problems and any(matrix.any() for matrix in counts.values())


def _segment(options: argparse.Namespace, files: Sequence[Path]) -> Iterator[Segmented]:
    """Segment photographs one by one, where with --strict a problem is an error."""
    place = options.scribbles
    if place is not None and len(files) > 1 and not place.is_dir():
        raise ImageFileError(
            f"--scribbles {place} is one file for {len(files)} images; give a folder with NAME.png."
        )
    result = joblib.Parallel(options.jobs, return_as="generator")(
        joblib.delayed(_segment_file)(options, file) for file in files
    )
    for segmented in result:
        if options.strict and isinstance(segmented, str):
            with warnings.catch_warnings():  # a warning of joblib that work is dropped
                warnings.simplefilter("ignore", UserWarning)
                result.close()
            raise ImageFileError(segmented)
        yield segmented


def _segment_file(options: argparse.Namespace, image: Path) -> Segmented:
    """Segment a photograph, or return the reason why it cannot be used."""
    try:
        pixels, strokes, place = read_photograph(image), None, options.scribbles
        if place is not None:
            strokes = read_mask(place / f"{image.stem}.png" if place.is_dir() else place)
        segmenter: Any
        if options.model is None:
            small = {} if options.longest is None else {"longest": options.longest}
            segmenter = StrokeSegmenter(**small)
        else:
            # Another model may have been written to the same path meanwhile.
            segmenter = copy(_load(options.model, options.model.stat().st_mtime_ns))
            segmenter.cache = options.cache
            if options.longest is not None:
                segmenter.sizes_ = segmenter.sizes_[0], options.longest
        if not options.probabilities:
            return segmenter.predict(pixels, strokes), None
        segmented: Segmented = segmenter.mask_and_probabilities(pixels, strokes)
        return segmented
    except ValueError as error:
        return str(error) if str(image) in str(error) else f"{image}: {error}"


@lru_cache(maxsize=1)
def _load(model: Path, changed: int) -> Segmenter:
    return Segmenter.load(model)


def _read(
    options: argparse.Namespace,
    part: str,
    n_labels: int | None = None,
    meaning: LabelMap | None = None,
) -> LabelledFolder:
    """Read the images of a part of the split, or all, and report those left out."""
    names = None
    if options.split is not None:
        names = [name for name, of_image in read_split(options.split).items() if of_image == part]
        if not names:
            raise ImageFileError(f"{options.split} has no image of the part {part!r}.")
    result = read_folder(
        options.images,
        options.masks,
        names=names,
        foreground=options.foreground,
        n_labels=n_labels,
        strict=options.strict,
        mask_name=options.mask_name,
        classes=options.classes,
        meaning=meaning,
        verbose=1,
    )
    _report(result.problems)
    _print_line(f"{len(result.images)} images; {result.meaning}")
    return result


def _targets(image: Path, options: argparse.Namespace) -> list[Path]:
    """Return the files for an image's mask, overlay, probabilities and confidence."""
    endings = (".png", "-overlay.png", "-probabilities.npz", "-confidence.png")
    n_files = 4 if options.probabilities else 2
    return [options.out / f"{image.stem}{ending}" for ending in endings[:n_files]]


def _check_targets(files: Sequence[Path], options: argparse.Namespace) -> None:
    """Raise unless each target belongs to one image, can be written, and overwrites no input."""
    image_of: dict[Path, Path] = {}
    for path in files:
        for target in _targets(path, options):
            other = image_of.setdefault(target, path)
            if other.resolve() != path.resolve():
                raise OutputError(
                    f"{other} and {path} would both be written to {target.name}; rename one."
                )
    for place in options.images:
        if place.is_dir() and options.out.exists() and place.samefile(options.out):
            raise OutputError(
                f"--out {options.out} is the folder of the images, where the next run would take "
                f"masks for images; give another folder, such as --out {options.out / 'masks'}."
            )
    read = [*files, *_files_at(options.scribbles), *_files_at(options.model)]
    check_overwrites_none(image_of, read, "--out")
    check_folder(options.out, "--out")


def _check(options: argparse.Namespace, outputs: dict[str, Path]) -> None:
    """Raise unless numbers are in range, files can be written, and no input is overwritten."""
    for name, check in _CHECKS.items():
        if getattr(options, name, None) is not None:
            check(getattr(options, name), f"--{name}")
    names = ("images", "masks", "scribbles", "split", "model")
    places = [getattr(options, name, None) for name in names if f"--{name}" not in outputs]
    check_outputs(outputs, [file for place in places for file in _files_at(place)])
    if options.cache is not None:
        check_folder(options.cache, "--cache")


def _files_at(place: Any) -> list[Path]:
    """List the file itself, or the files in the folder."""
    if not isinstance(place, Path) or not place.exists():
        return []
    return list(place.iterdir()) if place.is_dir() else [place]


def _report(problems: Sequence[str]) -> None:
    for problem in problems:
        _print_line(f"left out: {problem}")


def _print_line(text: str) -> None:
    sys.stderr.write(text + "\n")
