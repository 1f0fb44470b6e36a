"""Public names, and where each is defined, for type checkers."""

from .base import Batch as Batch
from .base import Call as Call
from .base import Engine as Engine
from .base import Layout as Layout
from .base import Replay as Replay
from .base import Response as Response
from .base import ShardAtWork as ShardAtWork
from .base import Workers as Workers
from .base import response_of as response_of
from .local import Serial as Serial
from .local import Threads as Threads
from .processes import Processes as Processes
