"""Kinds of faces by name, for the attribute ``_face_kinds`` of a class."""

from __future__ import annotations

from structboost.conformance.examples import Kind
from structboost.conformance.examples_of_sequences import Sentences, Tags, TagsOfDicts
from structboost.conformance.examples_of_tables import Classes, Costs, Grades, LabelSets
from structboost.conformance.examples_of_tasks import Images, TaskExamples

KINDS: dict[str, Kind] = {
    "classes": Classes(),
    "grades": Grades(),
    "label sets": LabelSets(),
    "costs": Costs(),
    "tags": Tags(),
    "tags of dicts": TagsOfDicts(),
    "sentences": Sentences(),
    "task": TaskExamples(),
    "images": Images(),
}
