"""Engines that take turns, a round each: seconds of their rounds, what moves in them, and how they compare."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from benchmarks.races import ProcessRacer, ThreadRacer, seconds_in_turns
from benchmarks.records import median, record
from benchmarks.units import Result
from structboost import MulticlassTask, StructBoost, Task
from structboost.engines.base import Workers

# The first rounds, in which new processes load compiled kernels and traffic is counted, are not timed.
WARM_UP_ROUNDS, RACE_ROUNDS = 10, 20
C = 1000.0
# Which engines take turns.  A cluster that waits is not at rest, so each has a race of its own with the serial engine.
POOLS = (("serial", 1), ("threads", 2), ("processes", 1), ("processes", 2))
CLUSTERS = ((("serial", 1), ("dask", 1)), (("serial", 1), ("dask", 2)))
# The ceiling: two trainings on half of the rows that know nothing of each other, and one of them alone.
ALONE, SIDE_BY_SIDE = ("half the rows alone", 1), ("half the rows twice", 2)
Examples = Callable[[], tuple[np.ndarray, np.ndarray]]
Times = dict[tuple[str, int], list[np.ndarray]]


def made_trainer(task: MulticlassTask, **changes: Any) -> StructBoost:
    """A trainer that goes on to the last round."""
    parameters = {"C": C, "tol": 1e-9, "max_rounds": 10, "columns_per_channel": 1, **changes}
    return StructBoost(task, **parameters)


class PythonTask(MulticlassTask):
    """Classes whose argmax is asked for an example at a time, in Python, as of a user's first task."""

    separate = Task.separate


def run_race(
    engines: Sequence[tuple[str, int]],
    examples: Examples,
    kind_of_task: type[MulticlassTask],
) -> Result:
    """Seconds of every round on each of some engines, what moves in it, and what was learned."""
    X, y = examples()
    task = kind_of_task(int(y.max()) + 1)
    # Compiles, and starts what is started once.
    few = slice(0, 2000)
    made_trainer(task, max_rounds=2).fit(X[few], y[few])
    has_cluster = engines[-1][0] == "dask"
    with Cluster(*engines[-1]) as client, Traffic() as traffic:
        inner = [ThreadRacer(partial(_fit, task, X, y, client, traffic, *engine)) for engine in engines]
        half = partial(_fit_half, examples, kind_of_task)
        outer = [] if has_cluster else [ProcessRacer(half, 1), ProcessRacer(half, 2)]
        seconds = seconds_in_turns([*inner, *outer], WARM_UP_ROUNDS + RACE_ROUNDS)
        learned = [racer.finish() for racer in inner]
        for racer in outer:
            racer.finish()
    names = [*engines, *((ALONE, SIDE_BY_SIDE) if outer else ())]
    facts = [*learned, *({} for _ in outer)]
    return {
        "engines": [
            {"engine": engine, "workers": workers, "seconds": of_rounds[WARM_UP_ROUNDS:].tolist(), **fact}
            | {"start_seconds": float(of_rounds[:WARM_UP_ROUNDS].sum())}
            for (engine, workers), of_rounds, fact in zip(names, seconds, facts, strict=True)
        ]
    }


def _fit(
    task: MulticlassTask,
    X: np.ndarray,
    y: np.ndarray,
    client: Any,
    traffic: Traffic,
    engine: str,
    workers: int,
    after_round: Callable[[], None],
) -> Result:
    """Train on an engine; what moves in a round, and what was learned."""
    moved: list[int] = []

    def at_round(record: dict[str, Any], trainer: Any) -> None:
        if record["round"] == WARM_UP_ROUNDS:
            moved.extend(traffic.stop())
        after_round()

    traffic.start()
    with client.as_current() if client else nullcontext():
        n_rounds = WARM_UP_ROUNDS + RACE_ROUNDS
        trainer = made_trainer(task, engine=engine, n_jobs=workers, max_rounds=n_rounds, callbacks=[at_round]).fit(X, y)
    passes, sent, received = (count / WARM_UP_ROUNDS for count in moved)
    objective = trainer.objective_.hex()
    return {"passes": passes, "sent_bytes": sent, "received_bytes": received, "objective": objective}


def _fit_half(
    examples: Examples,
    kind_of_task: type[MulticlassTask],
    after_round: Callable[[], None],
) -> None:
    """Train on half of the rows, as one of two that know nothing of each other."""
    X, y = examples()
    task = kind_of_task(int(y.max()) + 1)
    n = len(y) // 2
    n_rounds = WARM_UP_ROUNDS + RACE_ROUNDS
    made_trainer(task, max_rounds=n_rounds, callbacks=[lambda record, trainer: after_round()]).fit(X[:n], y[:n])


class Cluster:
    """A Dask cluster on this machine while a block runs, if the engine is Dask."""

    def __init__(self, engine: str, workers: int) -> None:
        self._workers = workers if engine == "dask" else 0

    def __enter__(self) -> Any:
        if not self._workers:
            return None
        import dask
        from distributed import Client, LocalCluster

        # A worker that is missing 15 seconds after a loss, be it for a later one, would be given up.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
        self._cluster = LocalCluster(
            n_workers=self._workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        )
        self._client = Client(self._cluster)
        return self._client

    def __exit__(self, *error: object) -> None:
        if self._workers:
            self._client.close()
            self._cluster.close()


class Traffic:
    """Counts passes over the shards, and pickled bytes of what goes out and comes back, in threads that ask for it."""

    def __init__(self) -> None:
        self._here = threading.local()

    def __enter__(self) -> Traffic:
        self._sum = Workers.sum

        def counted(workers: Any, calls: Any) -> Any:
            found = self._sum(workers, calls)
            counts = getattr(self._here, "counts", None)
            if counts is not None:
                # Each worker gets the calls and sends one sum, or two.
                n_workers = len(getattr(workers, "_shares", [()]))
                counts[0] += 1
                counts[1] += n_workers * len(pickle.dumps(calls))
                counts[2] += n_workers * len(pickle.dumps(found))
            return found

        Workers.sum = counted  # type: ignore[method-assign]
        return self

    def start(self) -> None:
        """Count in this thread."""
        self._here.counts = [0, 0, 0]

    def stop(self) -> list[int]:
        """No more; passes, and bytes sent and received."""
        counts, self._here.counts = self._here.counts, None
        return counts

    def __exit__(self, *error: object) -> None:
        Workers.sum = self._sum  # type: ignore[method-assign]


def race_records(name: str, rows: int, races: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A record of each engine: ratios and differences of the same round in the same race, medians over the rounds."""
    times: Times = {}
    serial: Times = {}
    facts: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for race in races:
        for entry in race:
            key = entry["engine"], entry["workers"]
            times.setdefault(key, []).append(np.array(entry["seconds"]))
            serial.setdefault(key, []).append(np.array(race[0]["seconds"]))
            facts.setdefault(key, []).append(entry)
    expected = {entry["objective"] for race in races for entry in race[:1]}
    made_records = []
    for key, rounds in times.items():
        if key == ALONE:
            continue
        measured = {
            fact: median(entry.get(fact) for entry in facts[key])
            for fact in ("passes", "sent_bytes", "received_bytes", "start_seconds")
        }
        seconds, of_serial = np.concatenate(rounds), np.concatenate(serial[key])
        speed_ups = _speed_ups(key, times, serial)
        measured |= {
            "round_seconds": float(np.median(seconds)),
            "overhead_seconds": float(np.median(seconds - of_serial)),
            # Of the two that know nothing of each other it would say nothing.
            "over_serial": None if key == SIDE_BY_SIDE else float(np.median(of_serial / seconds)),
            "speed_up": median(speed_ups),
            "speed_ups": speed_ups,
        }
        found = {entry["objective"] for entry in facts[key] if "objective" in entry}
        same = found == expected and len(expected) == 1 if found else None
        fields = {"rows": rows, "workers": key[1], "repeats": len(rounds), "same": same}
        pace = 1.0 / measured["round_seconds"]
        made_records.append(record(name, key[0], "rounds_per_second", pace, **fields, **measured))
    return made_records


def _speed_ups(key: tuple[str, int], times: Times, serial: Times) -> list[float]:
    """How fast two workers are beside one of their kind, race by race; one worker and threads beside serial."""
    if key == SIDE_BY_SIDE:
        return [float(np.median(2 * one / two)) for one, two in zip(times[ALONE], times[key], strict=True)]
    over_serial = [float(np.median(one / two)) for one, two in zip(serial[key], times[key], strict=True)]
    one = (key[0], 1)
    if key == one or one not in times:
        return over_serial
    if key[0] == "dask":  # in another race, beside its own serial one
        return [a / b for a, b in zip(over_serial, _speed_ups(one, times, serial), strict=True)]
    return [float(np.median(a / b)) for a, b in zip(times[one], times[key], strict=True)]
