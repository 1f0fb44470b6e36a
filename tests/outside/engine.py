"""An engine that is far from reliable: it loses a shard every tenth batch."""

from dataclasses import dataclass
from typing import ClassVar

from structboost.engines import Engine, ShardAtWork, Workers, response_of


@dataclass(frozen=True)
class Forgetful(Engine):
    shards_a_worker: ClassVar[int] = 2
    in_process: ClassVar[bool] = True
    n_workers: int = 2

    def start(self, sources, layout, replay):
        return ForgetfulWorkers(sources, layout, replay)


class ForgetfulWorkers(Workers):
    n_lost = 0

    def __init__(self, sources, layout, replay):
        super().__init__(layout)
        self.sources, self.replay = sources, replay
        self.shards = {i: ShardAtWork.made(source) for i, source in enumerate(sources)}

    def answers(self, batch):
        if batch.number % 10 == 0:
            del self.shards[batch.number // 10 % len(self.sources)]
        for i, source in enumerate(self.sources):
            if i not in self.shards:
                ForgetfulWorkers.n_lost += 1
                self.shards[i] = ShardAtWork.made(source, self.replay(i), batch.number)
        return [response_of(self.shards, [i], batch) for i in reversed(self.shards)]

    def close(self):
        self.shards = {}
