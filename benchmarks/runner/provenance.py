"""Provenance of a result: commit, machine, code that was chosen for it, versions, date."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name
from threadpoolctl import threadpool_info

from benchmarks.runner.processor import CODE

ROOT = Path(__file__).resolve().parents[2]
# Results depend on these: a page that was just written does not make the next one "changed".
MEASURED = ("structboost", "benchmarks")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")

Provenance = dict[str, str | int | None]


@cache
def this_run() -> Provenance:
    """Where and on what this process measures, as at its first call: the code it has loaded."""
    return {
        "commit": commit(ROOT),
        "date": date.today().isoformat(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "kernels": blas_kernels(),
        "compiled_for": numba.core.config.CPU_NAME or get_host_cpu_name(),
        "simd": numpy_code(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def commit(root: Path) -> str | None:
    """Commit checked out in ``root``, marked if its code differs; None without a repository."""
    try:
        name = _git(root, "rev-parse", "--short=10", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *MEASURED)
    except (OSError, subprocess.CalledProcessError):
        return None
    return name + (" + changes" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def cpu_model() -> str:
    """The processor's name, as the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def blas_kernels() -> str | None:
    """The kernels that numpy's BLAS chose; None if it does not say."""
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    names = [lib.get("architecture") for lib in libraries if "numpy" in str(lib["filepath"])]
    return names[0] if names else None


def numpy_code() -> str | None:
    """The widest instructions for which numpy's own loops run here; None if it does not say."""
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    chosen = [*extensions.get("baseline", []), *extensions.get("found", [])]
    return chosen[-1] if chosen else None


# The same results on each of them.
PORTABLE = "code of every x86-64 processor with AVX2"


def machine(run: Provenance) -> str:
    """Processor of a run, and the code that was chosen."""
    cores = "core" if run["cores"] == 1 else "cores"
    return f"{run['cpu']} with {run['cores']} {cores}" + f" ({PORTABLE})" * is_portable(run)


def is_portable(run: Provenance) -> bool:
    """Whether a result was measured with code that all processors with AVX2 have."""
    chosen = {CODE["OPENBLAS_CORETYPE"], CODE["NUMBA_CPU_NAME"]}
    return {run.get("kernels"), run.get("compiled_for")} == chosen


def in_words(runs: Sequence[Provenance]) -> str:
    """Runs that differ in the date only, as a phrase."""
    run = runs[0]
    code = f"commit {run['commit']}" if run["commit"] else "a checkout without a repository"
    dates = [str(one["date"]) for one in runs]
    days = " to ".join(dict.fromkeys((min(dates), max(dates))))
    versions = ", ".join(f"{name} {run[name]}" for name in PACKAGES)
    return f"{code}, {days}, {machine(run)}, Python {run['python']}, {versions}"
