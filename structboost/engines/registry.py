"""Engines by name."""

from __future__ import annotations

from structboost.engines.base import Engine
from structboost.runtime.registry import Registry
from structboost.validation import checked_n_jobs

_ENGINES = Registry(
    "engine",
    {
        "serial": "structboost.engines.local:Serial",
        "threads": "structboost.engines.local:Threads",
        "processes": "structboost.engines.processes:Processes",
        "dask": "structboost.engines.dask_cluster:DaskCluster",
    },
)


def engine_of(engine: str | Engine, n_jobs: int | None) -> Engine:
    """Return the engine itself, or the engine of a name with ``n_jobs`` workers."""
    checked_n_jobs(n_jobs)
    if isinstance(engine, Engine):
        return engine
    named: Engine = _ENGINES[engine].by_name(n_jobs)
    return named
