"""Examples in docstrings of faces, trainers, tasks, displays and text, which run as doctests."""

import doctest
from operator import attrgetter

import matplotlib as mpl
import pytest

import structboost
from structboost import faces, inference

TRAINERS = {"StructBoost", "StructuredSVM", "PredictThenOptimize"}
NAMES = TRAINERS | {*faces.__all__}
TEXT = "read_tagged list_chunks convert_tags chunk_scores ChunkScorer TokenFeatures TwoStageTagger"
NAMES |= {f"text.{name}" for name in TEXT.split()}
NAMES |= {f"inference.{name}" for name in inference.__all__}
VISION = {"segmentation.Segmenter", "tracking.StructBoostTracker"}
NAMES |= {name for name in structboost.__all__ if name.endswith(("Task", "Display"))} - {"Task"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*sorted(NAMES), *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(VISION))],
)
def test_example_of_a_docstring_runs(name, monkeypatch):
    monkeypatch.setitem(mpl.rcParams, "backend", "Agg")
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(attrgetter(name)(structboost), name)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
