"""Public names, and where each is defined, for type checkers."""

from .listed_outputs import Marginals as Marginals
from .listed_outputs import OutputCodes as OutputCodes
from .parts import PartKind as PartKind
from .parts import SparseFeature as SparseFeature
from .parts import StackedParts as StackedParts
from .separation import Separation as Separation
from .task import Task as Task
