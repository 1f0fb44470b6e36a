"""Files of segmenters with a JSON header and plain arrays, versioned and checked.

Loading never runs code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any

from structboost.errors import ModelFileError
from structboost.files.archive import ArchiveFormat, Arrays, Header
from structboost.files.schema import (
    Array,
    DamagedFileError,
    Part,
    Schema,
    below,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings
from structboost.segmentation.descriptors import GROUP_WIDTHS, WORD_WIDTH
from structboost.segmentation.descriptors import VERSION as FEATURES_VERSION
from structboost.segmentation.image_files import VOID
from structboost.segmentation.masks import LabelMap
from structboost.segmentation.potentials import PAIRWISE, PotentialScale, n_unary_potentials
from structboost.segmentation.scribbles import N_SCRIBBLE_FEATURES
from structboost.segmentation.unaries import (
    GROUPS,
    WORDS,
    BoostedTrees,
    JointClassifier,
    UnaryClassifiers,
    UnarySettings,
    n_joint_features,
)

_PARAMETERS = ("n_segments", "longest", "C", "random_state")
_MOST_FOLDS = 1000


def write_segmenter(path: str | PathLike[str], parts: Mapping[str, Any]) -> None:
    """Write parameters and fitted attributes of a segmenter, as a whole file.

    OSError if the file cannot be written.
    """
    classifiers = parts["classifiers_"]
    header = {
        "features": FEATURES_VERSION,
        "parameters": {name: parts[name] for name in _PARAMETERS},
        "crf": asdict(parts["crf"]),
        "unaries": asdict(parts["unaries"]),
        "n_labels": parts["n_labels_"],
        "C": parts["C_"],
        "history": parts["history_"],
        "validation": parts["validation_"],
        "meaning": asdict(parts["meaning_"]),
        "sharpness": parts["sharpness_"],
        "interrupted": bool(parts["interrupted_"]),
        "groups": None
        if classifiers is None
        else {group: len(classifiers.groups[group]) for group in GROUPS},
        "joint": None if classifiers is None else len(classifiers.joint),
    }
    arrays: Arrays = prefixed("crf/", parts["crf_model_"].to_arrays())
    arrays |= prefixed("scale/", vars(parts["scale_"]))
    if classifiers is not None:
        arrays["codebook"] = classifiers.codebook
        for place, classifier in _places(classifiers).items():
            arrays |= prefixed(f"{place}/", classifier.to_arrays())
    FORMAT.write(path, header, arrays)


def read_segmenter(path: str | PathLike[str]) -> dict[str, Any]:
    """Read the parts that :func:`write_segmenter` wrote.

    FileNotFoundError if there is no such file.  ModelFileError if the file is not a segmenter, is
    damaged, or is of another version or other features.
    """
    with FORMAT.opened(path) as (header, arrays):
        sizes = _sizes(header)
        return {
            **_parameters(header),
            "crf": CRFSettings(**header["crf"]),
            "unaries": UnarySettings(**header["unaries"]),
            "meaning_": LabelMap.from_record(header["meaning"]),
            "sharpness_": finite_number(header["sharpness"], "sharpness"),
            "n_labels_": sizes["n_labels"],
            "C_": finite_number(header["C"], "C"),
            "history_": list(header["history"]),
            "interrupted_": header["interrupted"] is True,
            "validation_": [(float(C), float(score)) for C, score in header["validation"]],
            "crf_model_": CRFModel.from_arrays(sizes["n_labels"], below("crf/", arrays), sizes),
            "scale_": PotentialScale(**below("scale/", arrays)),
            "classifiers_": None if header["groups"] is None else _classifiers(header, arrays),
        }


def _schema(header: Header, names: Collection[str]) -> Schema:
    if header["features"] != FEATURES_VERSION:
        raise ModelFileError(
            f"The segmenter has features of version {header['features']!r:.20}; this structboost "
            f"has version {FEATURES_VERSION}. Update structboost, or train again."
        )
    sizes = _sizes(header)
    schema = {
        "crf/": Part(CRFModel.schema),
        "scale/": Part(PotentialScale.schema, {"n_unary": sizes["n_unary"]}),
    }
    if header["groups"] is None:
        return schema
    labels = {"n_labels": sizes["n_labels"]}
    schema[""] = Part({"codebook": Array("float32", ("n_words", WORD_WIDTH))})
    widths: dict[str, int | str] = {**GROUP_WIDTHS, WORDS: "n_words"}
    for group in GROUPS:
        for fold in range(whole_number(header["groups"][group], "number of folds", 1, _MOST_FOLDS)):
            schema[f"groups/{group}/{fold}/"] = Part(
                BoostedTrees.schema, {**labels, "n_features": widths[group]}
            )
    for fold in range(whole_number(header["joint"], "number of folds", 1, _MOST_FOLDS)):
        schema[f"joint/{fold}/"] = Part(JointClassifier.schema, labels)
    return schema


def _sizes(header: Header) -> dict[str, int]:
    n_labels = whole_number(header["n_labels"], "number of labels", 2, VOID)
    by_scribbles = header["groups"] is None
    n_classifiers = N_SCRIBBLE_FEATURES if by_scribbles else len(GROUPS) + 1
    n_unary = n_unary_potentials(n_classifiers, n_labels, appearance=not by_scribbles)
    # The indicators of all labels but the first are potentials as well.
    return {
        "n_labels": n_labels,
        "n_unary": n_unary,
        "node": n_unary + n_labels - 1,
        "edge": len(PAIRWISE),
    }


def _parameters(header: Header) -> Header:
    parameters = header["parameters"]
    for name in ("n_segments", "longest"):
        whole_number(parameters[name], name, 1)
    if parameters["C"] is not None:
        finite_number(parameters["C"], "C")
    return {name: parameters[name] for name in _PARAMETERS}


def _classifiers(header: Header, arrays: Arrays) -> UnaryClassifiers:
    def build(kind: Any, place: str, n_folds: int) -> list[Any]:
        places = [f"{place}/{fold}/" for fold in range(n_folds)]
        return [kind.from_arrays(below(place, arrays)) for place in places]

    groups = {
        group: build(BoostedTrees, f"groups/{group}", n_folds)
        for group, n_folds in header["groups"].items()
    }
    joint = build(JointClassifier, "joint", header["joint"])
    n_words = len(arrays["codebook"])
    if any(len(classifier.mean) != n_joint_features(n_words) for classifier in joint):
        raise DamagedFileError("its joint classifiers are of other features")
    return UnaryClassifiers(header["n_labels"], arrays["codebook"], groups, joint)


def _places(classifiers: UnaryClassifiers) -> dict[str, BoostedTrees | JointClassifier]:
    of_groups = {
        f"groups/{group}/{fold}": trees
        for group in GROUPS
        for fold, trees in enumerate(classifiers.groups[group])
    }
    return of_groups | {
        f"joint/{fold}": classifier for fold, classifier in enumerate(classifiers.joint)
    }


FORMAT = ArchiveFormat(
    name="structboost-segmenter",
    version=4,
    what="structboost segmenter",
    error=ModelFileError,
    remedy="train the model again, or take another copy of the file",
    schema=_schema,
)
