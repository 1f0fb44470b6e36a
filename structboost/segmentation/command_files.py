"""Files that ``structboost segment`` reads and writes, checked before the work."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from structboost.files.outputs import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
)
from structboost.segmentation.image_files import IMAGE_SUFFIXES, ImageFileError, files_in


def image_files(places: Sequence[Path]) -> list[Path]:
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


def stroke_file(place: Path | None, name: str, n_images: int) -> Path | None:
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


def targets_of(image: Path, options: argparse.Namespace) -> list[Path]:
    """Return the files for an image's mask, overlay, probabilities and confidence."""
    endings = [".png", "-overlay.png"]
    if options.probabilities:
        endings += ["-probabilities.npz", "-confidence.png"]
    return [options.out / f"{image.stem}{ending}" for ending in endings]


def check_targets(files: Sequence[Path], options: argparse.Namespace) -> None:
    """Raise unless each target belongs to one image, can be written, and overwrites no input."""
    image_of: dict[Path, Path] = {}
    for path in files:
        for target in targets_of(path, options):
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
    read = [*files, *files_at(options.scribbles), *files_at(options.model)]
    check_overwrites_none(image_of, read, "--out")
    check_folder(options.out, "--out")
    if options.cache is not None:
        check_folder(options.cache, "--cache")


def check_files(
    options: argparse.Namespace, outputs: dict[str, Path | None], model: Path | None = None
) -> None:
    """Raise unless outputs and cache can be written, and no input is overwritten."""
    places = (options.images, options.masks, options.scribbles, options.split, model)
    check_outputs(outputs, [path for place in places for path in files_at(place)])
    if options.cache is not None:
        check_folder(options.cache, "--cache")


def files_at(place: Path | None) -> list[Path]:
    """List the file itself, or the files in the folder."""
    if place is None or not place.exists():
        return []
    return list(place.iterdir()) if place.is_dir() else [place]
