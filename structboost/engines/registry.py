"""Engines by name; a module is imported when its name is first asked for."""

from __future__ import annotations

from structboost.engines.base import Engine

ENGINES = ("serial", "threads", "processes", "dask")


def engine_of(engine: str | Engine, n_jobs: int | None) -> Engine:
    """The engine itself, or the one of a name, one of `ENGINES`, with so many workers."""
    if isinstance(engine, Engine):
        return engine
    if engine == "processes":
        from structboost.engines.processes import Processes

        return Processes(n_jobs)
    if engine == "dask":
        from structboost.engines.dask_cluster import DaskCluster

        return DaskCluster()
    from structboost.engines.local import Threads

    return Threads(1) if engine == "serial" else Threads(n_jobs)
