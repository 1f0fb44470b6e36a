"""Public names, and where each is defined, for type checkers."""

from .engines import Engine as Engine
from .engines import Layout as Layout
from .engines import Processes as Processes
from .engines import Threads as Threads
from .engines import Workers as Workers
