"""An engine that computes on the last shard first."""

from dataclasses import dataclass
from typing import ClassVar

from structboost.training import Engine, Workers


@dataclass(frozen=True)
class Backwards(Engine):
    shards_a_worker: ClassVar[int] = 2
    in_process: ClassVar[bool] = True
    n_workers: int = 2

    def start(self, sources, layout):
        return BackwardsWorkers(sources, layout)


class BackwardsWorkers(Workers):
    def __init__(self, sources, layout):
        super().__init__(layout)
        self.shards = [source.shard() for source in sources]

    def run(self, method, *arguments, each=None):
        results = [None] * len(self.shards)
        for i in reversed(range(len(self.shards))):
            last = () if each is None else (each[i],)
            results[i] = getattr(self.shards[i], method)(*arguments, *last)
        return results

    def close(self):
        self.shards = []
