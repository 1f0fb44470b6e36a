"""Public names, and where each is defined, for type checkers."""

from .parts import Marginals as Marginals
from .parts import OutputCodes as OutputCodes
from .parts import PartKind as PartKind
from .parts import SparseFeature as SparseFeature
from .parts import StackedParts as StackedParts
from .separation import Separation as Separation
from .task import Batches as Batches
from .task import Decomposes as Decomposes
from .task import Lists as Lists
from .task import Predicts as Predicts
from .task import Searches as Searches
from .task import Separates as Separates
from .task import SeparatesSlacks as SeparatesSlacks
from .task import Sums as Sums
from .task import SumsBatches as SumsBatches
from .task import Task as Task
from .task import Validates as Validates
