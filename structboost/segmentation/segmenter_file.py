"""Files of segmenters: a JSON header and plain arrays, versioned; loading never runs code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import ModelFileError
from structboost.segmentation.boosted_trees import BoostedTrees
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings
from structboost.segmentation.descriptors import VERSION as FEATURES_VERSION
from structboost.segmentation.image_files import write_bytes
from structboost.segmentation.joint_classifier import JointClassifier
from structboost.segmentation.labelled_folder import Meaning
from structboost.segmentation.potentials import PotentialScale
from structboost.segmentation.unaries import GROUPS, UnaryClassifiers, UnarySettings

if TYPE_CHECKING:
    from structboost.segmentation.segmenter import Segmenter

_FORMAT = "structboost-segmenter"
_VERSION = 3
_PARAMETERS = ("n_segments", "longest", "C", "random_state")


def save_segmenter(segmenter: Segmenter, path: str | PathLike[str]) -> None:
    """Write a fitted segmenter: all of the file or nothing.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    classifiers = segmenter.classifiers_
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "features": FEATURES_VERSION,
        "parameters": {name: getattr(segmenter, name) for name in _PARAMETERS},
        "crf": asdict(segmenter.crf),
        "unaries": asdict(segmenter.unaries),
        "n_labels": segmenter.n_labels_,
        "C": segmenter.C_,
        "history": segmenter.history_,
        "validation": segmenter.validation_,
        "meaning": asdict(segmenter.meaning),
        "groups": None if classifiers is None else {group: len(classifiers.groups[group]) for group in GROUPS},
        "joint": None if classifiers is None else len(classifiers.joint),
    }
    arrays: dict[str, NDArray[Any]] = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    arrays |= {f"crf/{name}": array for name, array in segmenter.crf_model_.to_arrays().items()}
    arrays |= {"scale/mean": segmenter.scale_.mean, "scale/spread": segmenter.scale_.spread}
    if classifiers is not None:
        arrays["codebook"] = classifiers.codebook
        for place, classifier in _places(classifiers).items():
            arrays |= {f"{place}/{name}": array for name, array in classifier.to_arrays().items()}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())


def load_segmenter(path: str | PathLike[str]) -> Segmenter:
    """Read what :func:`save_segmenter` wrote.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If it is no segmenter, is damaged, or is of a newer version or of other features.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes().decode())
        name, version, features = header["format"], int(header["version"]), int(header["features"])
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{path} is not a structboost segmenter, or is truncated ({error}).") from error
    if name != _FORMAT:
        raise ModelFileError(f"{path} is a file of the format {name!r}, not a structboost segmenter.")
    if version != _VERSION or features != FEATURES_VERSION:
        raise ModelFileError(
            f"{path} is of format version {version} with features of version {features}; this structboost reads "
            f"{_VERSION} with features {FEATURES_VERSION}. Update structboost, or train again."
        )
    try:
        return _assembled(header, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"{path} is damaged: {error}.") from error


def _assembled(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Segmenter:
    from structboost.segmentation.segmenter import Segmenter

    segmenter = Segmenter(
        **header["parameters"], crf=CRFSettings(**header["crf"]), unaries=UnarySettings(**header["unaries"])
    )
    segmenter.meaning = Meaning(**header["meaning"])
    segmenter.n_labels_ = int(header["n_labels"])
    segmenter.C_, segmenter.history_ = float(header["C"]), list(header["history"])
    segmenter.validation_ = [(float(C), float(score)) for C, score in header["validation"]]
    segmenter.crf_model_ = CRFModel.from_arrays(segmenter.n_labels_, _under("crf", arrays))
    segmenter.scale_ = PotentialScale(arrays["scale/mean"], arrays["scale/spread"])
    segmenter.classifiers_ = None
    if header["groups"] is not None:
        groups = {
            group: [_trees(f"groups/{group}/{fold}", arrays) for fold in range(header["groups"][group])]
            for group in GROUPS
        }
        joint = [JointClassifier.from_arrays(_under(f"joint/{fold}", arrays)) for fold in range(header["joint"])]
        segmenter.classifiers_ = UnaryClassifiers(segmenter.n_labels_, arrays["codebook"], groups, joint)
    return segmenter


def _places(classifiers: UnaryClassifiers) -> dict[str, BoostedTrees | JointClassifier]:
    """All classifiers by their place in the file."""
    of_groups = {
        f"groups/{group}/{fold}": trees for group in GROUPS for fold, trees in enumerate(classifiers.groups[group])
    }
    return of_groups | {f"joint/{fold}": classifier for fold, classifier in enumerate(classifiers.joint)}


def _trees(place: str, arrays: Mapping[str, NDArray[Any]]) -> BoostedTrees:
    return BoostedTrees.from_arrays(_under(place, arrays))


def _under(place: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name[len(place) + 1 :]: array for name, array in arrays.items() if name.startswith(f"{place}/")}
