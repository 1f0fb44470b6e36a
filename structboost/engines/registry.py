"""Engines by name."""

from __future__ import annotations

from structboost.engines.base import Engine
from structboost.engines.local import Threads
from structboost.errors import warn_user
from structboost.runtime.registry import Registry
from structboost.validation import checked_n_jobs, shown

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


def warn_of_idle_jobs(
    n_jobs: int | None, engine: str | Engine, about: str, *, shares_work: bool
) -> None:
    """Warn that a fit, which ``about`` describes, does not use the workers that were set.

    UserWarning if ``n_jobs`` means several, and the engine or the fit works alone.
    """
    if n_jobs is None or Threads(n_jobs).n_workers == 1:
        return
    if isinstance(engine, Engine) or engine == "serial":
        warn_user(
            f"n_jobs is {n_jobs}, which engine={shown(engine)} does not read; leave n_jobs out, or "
            "write engine='threads'.",
            UserWarning,
        )
    elif not shares_work:
        warn_user(
            f"n_jobs is {n_jobs}, and {about} works on one core; leave n_jobs out. Several cores "
            "are used by objective='hinge' (formulation='one_slack' of trainers), and wherever "
            "stumps are searched.",
            UserWarning,
        )
