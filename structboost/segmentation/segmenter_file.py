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
    ALL,
    GROUPS,
    N_JOINT,
    WORDS,
    BoostedTrees,
    JointClassifier,
    UnaryClassifiers,
    UnarySettings,
)

_PARAMETERS = ("n_segments", "longest", "C", "random_state")
_MOST_FOLDS = 1000
_KINDS: dict[str, Any] = {**dict.fromkeys(GROUPS, BoostedTrees), ALL: JointClassifier}


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
        "folds": None if classifiers is None else len(classifiers.by_group[ALL]),
    }
    arrays: Arrays = prefixed("crf/", parts["crf_model_"].to_arrays())
    arrays |= prefixed("scale/", vars(parts["scale_"]))
    if classifiers is not None:
        arrays["codebook"] = classifiers.codebook
        for group, each in classifiers.by_group.items():
            for fold, classifier in enumerate(each):
                arrays |= prefixed(f"{group}/{fold}/", classifier.to_arrays())
    FORMAT.write(path, header, arrays)


def read_segmenter(path: str | PathLike[str]) -> dict[str, Any]:
    """Read the parts that :func:`write_segmenter` wrote.

    FileNotFoundError if there is no such file.  ModelFileError if the file is not a segmenter, is
    damaged, or is of another version or other features.
    """
    with FORMAT.opened(path) as (header, arrays):
        sizes, parameters = _sizes(header), header["parameters"]
        for name in ("n_segments", "longest"):
            whole_number(parameters[name], name, 1)
        if parameters["C"] is not None:
            finite_number(parameters["C"], "C")
        return {
            **{name: parameters[name] for name in _PARAMETERS},
            "crf": CRFSettings(**header["crf"]),
            "unaries": UnarySettings(**header["unaries"]),
            "meaning_": LabelMap(**header["meaning"]),
            "sharpness_": finite_number(header["sharpness"], "sharpness"),
            "n_labels_": sizes["n_labels"],
            "C_": finite_number(header["C"], "C"),
            "history_": list(header["history"]),
            "interrupted_": header["interrupted"] is True,
            "validation_": [(float(C), float(score)) for C, score in header["validation"]],
            "crf_model_": CRFModel.from_arrays(sizes["n_labels"], below("crf/", arrays), sizes),
            "scale_": PotentialScale(**below("scale/", arrays)),
            "classifiers_": None if header["folds"] is None else _classifiers(header, arrays),
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
    if header["folds"] is None:
        return schema
    schema[""] = Part({"codebook": Array("float32", ("n_words", WORD_WIDTH))})
    widths: dict[str, Any] = {
        **GROUP_WIDTHS,
        WORDS: "n_words",
        ALL: f"n_words + n_words + {N_JOINT}",
    }
    for fold in range(whole_number(header["folds"], "number of folds", 1, _MOST_FOLDS)):
        for group, kind in _KINDS.items():
            n_features = {"n_labels": sizes["n_labels"], "n_features": widths[group]}
            schema[f"{group}/{fold}/"] = Part(kind.schema, n_features)
    return schema


def _sizes(header: Header) -> dict[str, int]:
    n_labels = whole_number(header["n_labels"], "number of labels", 2, VOID)
    by_scribbles = header["folds"] is None
    n_classifiers = N_SCRIBBLE_FEATURES if by_scribbles else len(GROUPS) + 1
    n_unary = n_unary_potentials(n_classifiers, n_labels, appearance=not by_scribbles)
    # The indicators of all labels but the first are potentials as well.
    return {
        "n_labels": n_labels,
        "n_unary": n_unary,
        "node": n_unary + n_labels - 1,
        "edge": len(PAIRWISE),
    }


def _classifiers(header: Header, arrays: Arrays) -> UnaryClassifiers:
    by_group = {
        group: [
            kind.from_arrays(below(f"{group}/{fold}/", arrays), header["n_labels"])
            for fold in range(header["folds"])
        ]
        for group, kind in _KINDS.items()
    }
    return UnaryClassifiers(header["n_labels"], arrays["codebook"], by_group)


FORMAT = ArchiveFormat(
    name="structboost-segmenter",
    version=5,
    what="structboost segmenter",
    error=ModelFileError,
    remedy="train the model again, or take another copy of the file",
    schema=_schema,
)
