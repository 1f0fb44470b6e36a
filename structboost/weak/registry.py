"""Families of weak learners and their tables by name; a module is imported when its name is first asked for."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class _Entry(NamedTuple):
    module: str
    family: str
    table: str


_ENTRIES = {
    "stump": _Entry("stump", "StumpFamily", "StumpTable"),
    "tree": _Entry("tree", "TreeFamily", "TreeTable"),
    "perceptron": _Entry("linear", "PerceptronFamily", "HyperplaneTable"),
    "svm": _Entry("linear", "SVMFamily", "HyperplaneTable"),
    "lda": _Entry("linear", "LDAFamily", "HyperplaneTable"),
    "feature": _Entry("feature", "FeatureFamily", "FeatureTable"),
    "piecewise": _Entry("piecewise", "PiecewiseFamily", "PiecewiseTable"),
    "patch": _Entry("patch", "PatchFamily", "PatchTable"),
}
# Patches need the shape of the images: their family is made by hand.
NAMES = tuple(name for name in _ENTRIES if name != "patch")


def family(name: str) -> Any:
    """Class of the family ``name``, one of `NAMES`."""
    return _class(_ENTRIES[name].module, _ENTRIES[name].family)


def table(name: str) -> Any:
    """Class of the table that holds learners of the family ``name`` in a model file.

    Raises
    ------
    KeyError
        If no family has this name.
    """
    return _class(_ENTRIES[name].module, _ENTRIES[name].table)


def _class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"structboost.weak.{module}"), name)
