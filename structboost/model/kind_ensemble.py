"""Weak learners of one kind of part in a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array
from structboost.learners.table import LearnerTable


@dataclass(frozen=True)
class KindEnsemble:
    """Weak learners of one kind of part, and the terms of their columns.

    Parameters
    ----------
    family : str
        Name of the weak-learner family.
    learners : LearnerTable
    columns, term_learners, channels : ndarray of int64, shape (n_terms,)
        Term t puts learner ``term_learners[t]`` on channel ``channels[t]`` in column
        ``columns[t]``.
    coefficients : ndarray of float64, shape (n_terms,)
    n_features : int
        Number of features of a part.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "columns": Array("int64", ("n_terms",), low=0, high="n_columns - 1"),
        "term_learners": Array("int64", ("n_terms",), low=0, high="n_learners - 1"),
        "channels": Array("int64", ("n_terms",), low=0, high="n_channels - 1"),
        "coefficients": Array("float64", ("n_terms",)),
    }

    family: str
    learners: LearnerTable
    columns: IntArray
    term_learners: IntArray
    channels: IntArray
    coefficients: FloatArray
    n_features: int
