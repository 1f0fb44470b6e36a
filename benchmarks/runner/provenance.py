"""What a result was measured on: commit, machine, versions, date."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numba
from llvmlite.binding import get_host_cpu_name
from threadpoolctl import threadpool_info

ROOT = Path(__file__).resolve().parents[2]
# What results depend on: a page that was just written does not make the next one "changed".
CODE = ("structboost", "benchmarks")
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
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def commit(root: Path) -> str | None:
    """Commit checked out in ``root``, marked if its code differs; None without a repository."""
    try:
        name = _git(root, "rev-parse", "--short=10", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *CODE)
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
    """The kernels that numpy's BLAS chose for this processor; None if it does not say."""
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    names = [lib.get("architecture") for lib in libraries if "numpy" in str(lib["filepath"])]
    return names[0] if names else None


def machine(run: Provenance) -> str:
    """Processor of a run, and what code is chosen by it; runs of before do not say it.

    Kernels of BLAS and loops that are compiled for another processor add in another order.  Sums
    then differ in their last bits, and boosting may choose another of two equally good learners.
    """
    cores = "core" if run["cores"] == 1 else "cores"
    chosen = [f"BLAS kernels {run['kernels']}"] if run.get("kernels") else []
    chosen += [f"compiled for {run['compiled_for']}"] if run.get("compiled_for") else []
    return f"{run['cpu']} with {run['cores']} {cores}" + (
        f" ({', '.join(chosen)})" if chosen else ""
    )


def in_words(runs: Sequence[Provenance | None]) -> str:
    """Runs that differ in the date only, as a phrase; None: from before this was kept."""
    run = runs[0]
    if run is None:
        return "an unknown commit and machine (kept from before they were noted)"
    code = f"commit {run['commit']}" if run["commit"] else "a checkout without a repository"
    dates = sorted({str(one["date"]) for one in runs if one})
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    versions = ", ".join(f"{name} {run[name]}" for name in PACKAGES)
    return f"{code}, {days}, {machine(run)}, Python {run['python']}, {versions}"
