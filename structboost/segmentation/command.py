"""Command ``structboost segment`` with its actions train, predict and evaluate."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from structboost.files.atomic_write import whole_file, write_whole
from structboost.files.outputs import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
)
from structboost.progress import Phase
from structboost.segmentation.crf_training import LEARNERS, WEAK_LEARNERS, CRFSettings
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
    LabelledImage,
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


class Segmented(NamedTuple):
    """Result for a photograph.

    Attributes
    ----------
    mask : ndarray of uint8, shape (height, width)
        Class indices.
    probabilities : ndarray of float32, shape (height, width, n_labels), or None
    problem : str
        Reason why there is no mask; empty if there is one.
    """

    mask: Mask | None = None
    probabilities: NDArray[np.float32] | None = None
    problem: str = ""


_STRICT = "stop at the first problem instead of skipping"
_LONGEST = "shrink photographs to this longer side, pixels"


def add_arguments(subparsers: Any) -> None:
    """Add the command ``segment`` and its actions to a parser's sub-commands."""
    top = subparsers.add_parser("segment", help="segment photographs by a learned CRF")
    actions = top.add_subparsers(dest="action", required=True)
    _add_train(actions.add_parser("train", help="learn from images and masks, or synthetic ones"))
    _add_predict(actions.add_parser("predict", help="write masks and overlays of images"))
    _add_evaluate(actions.add_parser("evaluate", help="compare predictions with masks"))


def _add_train(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FILE", help="file to write the model to")
    _add_folders(parser, required=False)
    add(
        "--segments",
        type=int,
        default=300,
        metavar="N",
        help="number of superpixels per image, about (default: 300)",
    )
    add("--longest", type=int, default=512, metavar="N", help=_LONGEST)
    chosen = "by cross-validation; with more than two classes 0.3"
    add("--C", type=float, metavar="C", help=f"weight of the loss (default: {chosen})")
    add("--rounds", type=int, default=50, metavar="N", help="largest number of rounds of boosting")
    add("--learner", choices=LEARNERS, default=LEARNERS[0], help="boosted or linear weights")
    families = "what is boosted"
    add("--weak-learner", choices=WEAK_LEARNERS, default=WEAK_LEARNERS[0], help=families)
    group_help = (
        "images of a group are in one fold: a file of lines 'ID GROUP', or a regular expression "
    )
    group_help += (
        "whose match in the name is the group, such as '^[a-z]+' for frames walk01, walk02"
    )
    add("--groups", metavar="FILE|PATTERN", help=group_help)
    add("--seed", type=int, default=0, metavar="N", help="seed of all random choices (default: 0)")
    parser.set_defaults(run=_train)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("images", type=Path, nargs="+", metavar="IMAGE", help="files, or folders of them")
    add("--model", type=Path, metavar="FILE", help="not needed with scribbles")
    targets = "folder for NAME.png and NAME-overlay.png"
    add("--out", type=Path, required=True, metavar="DIR", help=targets)
    strokes = "1 object, 2 background; DIR/NAME.png"
    add("--scribbles", type=Path, metavar="FILE|DIR", help=strokes)
    more = "also write NAME-probabilities.npz and NAME-confidence.png (255 is certain)"
    add("--probabilities", action="store_true", help=more)
    unpainted = "class that overlays leave unpainted (default 0; -1 paints all)"
    add("--background", type=int, default=0, metavar="N", help=unpainted)
    add("--longest", type=int, metavar="N", help=f"{_LONGEST} (default: as in training)")
    _add_work(parser)
    parser.set_defaults(run=_predict)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FILE", help="file that train wrote")
    _add_folders(parser, required=True)
    add("--longest", type=int, metavar="N", help=f"{_LONGEST} (default: as in training)")
    scores = "where the scores go: IoU of each class, of each image, and the confusion matrix"
    add("--json", type=Path, required=True, metavar="FILE", help=scores)
    parser.set_defaults(run=_evaluate, probabilities=False)


def _add_folders(parser: argparse.ArgumentParser, required: bool) -> None:
    add = parser.add_argument
    masks = "pictures of indices (255 is void), of two values or with a palette; LabelMe's files; "
    masks += "or one file of COCO"
    for name, kind, is_required, text in (
        ("--images", "DIR", required, "folder of photographs"),
        ("--masks", "DIR|FILE", required, masks),
        ("--classes", "FILE", False, "lines 'INDEX NAME'"),
        ("--split", "FILE", False, "lines 'ID train' or 'ID test': take that part"),
        ("--scribbles", "DIR", False, "strokes of each image: 1 object, 2 background"),
    ):
        add(name, type=Path, metavar=kind, required=is_required, help=text)
    named = "name of a mask without suffix (default {name}), such as {name}_mask"
    add("--mask-name", default="{name}", metavar="PATTERN", help=named)
    against = "take these classes together against the rest"
    add("--foreground", type=int, nargs="+", metavar="N", help=against)
    _add_work(parser)


def _add_work(parser: argparse.ArgumentParser) -> None:
    """Add the options that all actions have."""
    add = parser.add_argument
    cache_help = "keep features of images there, at most 10 GB (about 2 MB per image)"
    add("--cache", type=Path, metavar="DIR", help=cache_help)
    add("--strict", action="store_true", help=_STRICT)
    add("--jobs", type=int, default=-1, metavar="N", help="processes (default: one per core)")


def _train(options: argparse.Namespace) -> bool:
    """Train and save a model, and return whether all images were used."""
    if (options.images is None) != (options.masks is None):
        raise ValueError("--images and --masks go together; give both, or neither to try it.")
    _check_numbers(options)
    _check_files(options, {"--model": options.model})
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
    if options.images is None:
        synthetic = make_synthetic_images()
        _print_line(f"no folder given: training on {synthetic.name}")
        segmenter.n_segments = min(options.segments, 150)
        segmenter.fit(
            synthetic.images, synthetic.masks, synthetic.scribbles if options.scribbles else None
        )
    else:
        result = _read(options, "train")
        segmenter.meaning, images, problems = result.meaning, result.images, result.problems
        names = [image.name for image in images]
        groups = None if options.groups is None else read_groups(options.groups, names)
        if groups is not None:
            _print_line(f"groups of images: {len(set(groups))}")
        segmenter.fit(*_pictures(options, images), groups)
    segmenter.save(options.model)
    last = segmenter.history_[-1]
    gap = "no gap is certified"
    if last["certified"]:
        gap = f"certified gap {100 * last['gap']:.1f} %"
    elif last["cross_fitted"] and last["gap"] is not None:
        gap = f"gap {100 * last['gap']:.1f} % on cross-fitted responses"
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
    _check_numbers(options)
    files = _image_files(options.images)
    model = Segmenter.load(options.model) if options.model else None
    _check_targets(files, options)
    meaning = LabelMap() if model is None else model.meaning_
    n_labels = 2 if model is None else model.n_labels_
    if not -1 <= options.background < n_labels:
        raise ValueError(
            f"--background is {options.background}; give a class from 0 to {n_labels - 1}, or -1 "
            "to paint all."
        )
    problems = []
    result = _segment(options, files, [path.stem for path in files])
    with Phase("segmented", len(files)) as line:
        for path, one in zip(files, result, strict=True):
            if one.mask is None:
                problems.append(one.problem)
                continue
            _write(path, one, options, meaning, n_labels)
            line.step()
    _report(problems)
    if not line.done:
        raise ImageFileError("none of the images could be segmented.")
    return not problems


def _write(
    image: Path, one: Segmented, options: argparse.Namespace, meaning: LabelMap, n_labels: int
) -> None:
    """Write the mask of an image, its overlay and, if asked for, the probabilities."""
    mask = one.mask
    assert mask is not None
    targets = _targets_of(image, options)
    palette = () if meaning.foreground else meaning.colours
    write_png(targets[0], meaning.values(mask), palette)
    background = None if options.background < 0 else options.background
    overlay = draw_segmentation(
        read_photograph(image),
        mask,
        n_labels,
        background=background,
        meaning=meaning,
        legend=True,
    )
    write_png(targets[1], overlay)
    if options.probabilities:
        assert one.probabilities is not None
        with whole_file(targets[2]) as file:
            np.savez_compressed(file, probabilities=one.probabilities.astype(np.float16))
        write_png(targets[3], np.rint(255 * one.probabilities.max(axis=2)).astype(np.uint8))


def _evaluate(options: argparse.Namespace) -> bool:
    """Write the scores of predictions, and return whether all images were used."""
    _check_numbers(options)
    _check_files(options, {"--json": options.json}, options.model)
    segmenter = Segmenter.load(options.model)
    meaning, n_labels = segmenter.meaning_, segmenter.n_labels_
    if options.foreground is None and meaning.foreground:
        options.foreground = meaning.foreground
    result = _read(options, "test", n_labels, meaning)
    counts, problems = {}, list(result.problems)
    names = [image.name for image in result.images]
    predicted = _segment(options, [image.image_file for image in result.images], names)
    with Phase("segmented", len(result.images)) as line:
        for image, one in zip(result.images, predicted, strict=True):
            if one.mask is None:
                problems.append(one.problem)
                _report([one.problem])
                continue
            counts[image.name] = confusion(image.mask, one.mask, n_labels)
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
    return not problems and any(one.any() for one in counts.values())


def _segment(
    options: argparse.Namespace, files: Sequence[Path], names: Sequence[str]
) -> Iterator[Segmented]:
    """Segment photographs one by one, where with --strict a problem is an error."""
    work = joblib.delayed(_segment_file)
    result: Generator[Segmented] = joblib.Parallel(options.jobs, return_as="generator")(
        work(options, file, _stroke_file(options.scribbles, name, len(files)))
        for file, name in zip(files, names, strict=True)
    )
    for one in result:
        if one.problem and options.strict:
            with warnings.catch_warnings():  # a warning of joblib that work is dropped
                warnings.simplefilter("ignore", UserWarning)
                result.close()
            raise ImageFileError(one.problem)
        yield one


def _segment_file(options: argparse.Namespace, image: Path, scribbles: Path | None) -> Segmented:
    """Segment a photograph, or say why it cannot be used."""
    try:
        pixels = read_photograph(image)
        strokes = None if scribbles is None else read_mask(scribbles)
        if options.model is None:
            if strokes is None:
                raise ValueError("without a model there must be scribbles.")
            small = {} if options.longest is None else {"longest": options.longest}
            return Segmented(*StrokeSegmenter(**small).mask_and_probabilities(pixels, strokes))
        # Another model may have been written to the same path meanwhile.
        segmenter = copy(_load(options.model, options.model.stat().st_mtime_ns))
        segmenter.cache = options.cache
        if options.longest is not None:
            segmenter.sizes_ = segmenter.sizes_[0], options.longest
        if options.probabilities:
            return Segmented(*segmenter.mask_and_probabilities(pixels, strokes))
        return Segmented(segmenter.predict(pixels, strokes))
    except ValueError as error:
        return Segmented(problem=str(error) if str(image) in str(error) else f"{image}: {error}")


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


def _pictures(
    options: argparse.Namespace, images: Sequence[LabelledImage]
) -> tuple[ReadWhenUsed, ReadWhenUsed, ReadWhenUsed | None]:
    strokes = ReadWhenUsed(images, lambda i: read_mask(options.scribbles / f"{i.name}.png"))
    return (
        ReadWhenUsed(images, lambda image: image.image),
        ReadWhenUsed(images, lambda image: image.values),
        strokes if options.scribbles is not None else None,
    )


def _image_files(places: Sequence[Path]) -> list[Path]:
    """List the files among the places, and the images in the folders among them.

    ImageFileError if a folder has no images.
    """
    files: list[Path] = []
    for place in places:
        inside = files_in(place) if place.is_dir() else [place]
        if not inside:
            raise ImageFileError(f"{place} has no images ({', '.join(IMAGE_SUFFIXES)}).")
        files += inside
    return files


def _stroke_file(place: Path | None, name: str, n_images: int) -> Path | None:
    """Return the file of an image's scribbles, which is NAME.png in a folder."""
    if place is None:
        return None
    if place.is_dir():
        return place / f"{name}.png"
    if n_images > 1:
        raise ImageFileError(
            f"--scribbles {place} is one file for {n_images} images; give a folder with NAME.png."
        )
    return place


def _targets_of(image: Path, options: argparse.Namespace) -> list[Path]:
    """Return the files for an image's mask, overlay, probabilities and confidence."""
    endings = [".png", "-overlay.png"]
    if options.probabilities:
        endings += ["-probabilities.npz", "-confidence.png"]
    return [options.out / f"{image.stem}{ending}" for ending in endings]


def _check_targets(files: Sequence[Path], options: argparse.Namespace) -> None:
    """Raise unless each target belongs to one image, can be written, and overwrites no input."""
    image_of: dict[Path, Path] = {}
    for path in files:
        for target in _targets_of(path, options):
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
    if options.cache is not None:
        check_folder(options.cache, "--cache")


def _check_files(
    options: argparse.Namespace, outputs: dict[str, Path | None], model: Path | None = None
) -> None:
    """Raise unless outputs and cache can be written, and no input is overwritten."""
    places = (options.images, options.masks, options.scribbles, options.split, model)
    check_outputs(outputs, [path for place in places for path in _files_at(place)])
    if options.cache is not None:
        check_folder(options.cache, "--cache")


def _files_at(place: Path | None) -> list[Path]:
    """List the file itself, or the files in the folder."""
    if place is None or not place.exists():
        return []
    return list(place.iterdir()) if place.is_dir() else [place]


def _check_numbers(options: argparse.Namespace) -> None:
    """Check the numbers among the options."""
    options_set = {name: value for name, value in vars(options).items() if value is not None}
    for name in ("segments", "longest", "rounds"):
        if name in options_set:
            checked_whole_number(options_set[name], f"--{name}")
    if "seed" in options_set:
        checked_seed(options_set["seed"], "--seed")
    if "C" in options_set:
        checked_positive(options_set["C"], "--C")
    checked_n_jobs(options.jobs, "--jobs")


def _report(problems: Sequence[str]) -> None:
    for problem in problems:
        _print_line(f"left out: {problem}")


def _print_line(text: str) -> None:
    sys.stderr.write(text + "\n")
