"""All kinds of files."""

from tests.helpers.damaged_files import (
    checkpoints,
    classifiers,
    decisions,
    segmenters,
    structures,
    tables,
)

ROOMS = (classifiers, structures, decisions, checkpoints, tables, segmenters)
KINDS = {name: kind for room in ROOMS for name, kind in room.KINDS.items()}
# Those that take long to load and use.
SLOW = frozenset(segmenters.KINDS)
