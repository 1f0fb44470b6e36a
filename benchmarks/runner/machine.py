"""Where and how is measured: code of every x86-64 processor with AVX2, and a process of its own.

Libraries choose their code when they are loaded, so measuring runs in a process that starts with
these variables: pages come out the same on each such processor.
"""

import multiprocessing
import os
import platform
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import date
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What x86-64-v3 has beyond the processors of 2008; lzcnt is called abm in /proc/cpuinfo.
NEEDED = {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
AVX512 = "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL"
CODE = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": "",  # else numba adds those of the processor at hand
    # numpy's exp, log and power for AVX-512 round differently; names of old and new versions.
    "NPY_DISABLE_CPU_FEATURES": f"X86_V4 {AVX512} AVX512_ICL AVX512_SPR",
    "OPENCV_IPP": "disabled",  # chooses its code by the processor's maker, too
    "OPENCV_LOG_LEVEL": "ERROR",
    "ATEN_CPU_CAPABILITY": "avx2",  # torch
}
# Two processes with two threads each take many times the CPU; engines have threads of their own.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
ROOT = Path(__file__).resolve().parents[2]
# Results depend on these: a page that was just written does not make the next one "changed".
MEASURED = ("structboost", "benchmarks")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
PEERS = tuple("lightgbm xgboost catboost chimeraboost python-crfsuite pyepo torch".split())


def cpuinfo(field):
    """Read a field of the first processor, empty where the system does not have it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == field:
                return value.strip()
    return ""


def is_portable():
    """Whether this process has code that all processors with AVX2 have."""
    return CODE.items() <= os.environ.items()


def measured_alike(command):
    """Run a command with this code in the place of this process, or say what is missing."""
    if missing := sorted(NEEDED - set(cpuinfo("flags").split())):
        sys.stderr.write(
            "The benchmarks are measured with code for x86-64 processors with AVX2 and FMA (since "
            f"2013), and this one lacks {', '.join(missing)}. Run them on another machine; `list` "
            "and `index` work here.\n"
        )
        return 2
    environment = {**os.environ, **CODE, **ONE_THREAD}
    if "avx512f" in cpuinfo("flags"):
        environment["OPENCV_CPU_DISABLE"] = "AVX512-SKX"
    os.execve(command[0], command, environment)


@cache
def this_run():
    """Where and on what this process measures, as at its first call: the code it has loaded."""
    return {
        "commit": commit(),
        "date": date.today().isoformat(),
        "cpu": cpuinfo("model name") or platform.machine(),
        "cores": os.cpu_count(),
        "portable": is_portable(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def commit():
    """Commit that is checked out, marked if its code differs, None without a repository."""

    def git(*arguments):
        return subprocess.check_output(["git", "-C", ROOT, *arguments], text=True).strip()

    with suppress(OSError, subprocess.CalledProcessError):
        changed = git("status", "--porcelain", "--", *MEASURED)
        return git("rev-parse", "--short=10", "HEAD") + (" + changes" if changed else "")


def in_words(runs):
    """Runs that differ in the date only, as a phrase."""
    run = runs[0]
    days = " to ".join(dict.fromkeys(f(str(r["date"]) for r in runs) for f in (min, max)))
    code = " (code of every x86-64 processor with AVX2)" if run["portable"] else ""
    versions = ", ".join(f"{name} {run[name]}" for name in ("python", *PACKAGES))
    return (
        f"commit {run['commit']}, {days}, {run['cpu']} with {run['cores']} cores{code}, {versions}"
    )


@cache
def versions():
    """Versions of all packages on which results depend."""
    named = []
    for name in (*PACKAGES, *PEERS):
        with suppress(PackageNotFoundError):
            named.append(f"{name} {version(name)}")
    return named


def limited(limit, prepare, function, *arguments):
    """Facts that a function returns in a process of its own, killed after ``limit`` seconds.

    The clock starts after ``prepare``, which compiles.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        process.submit(prepare).result()
        try:
            return {**process.submit(function, *arguments).result(limit), "status": "ok"}
        except TimeoutError:
            for child in multiprocessing.active_children():
                child.kill()
            return {"status": "time_limit"}


def reset_peak_memory():
    """From here on :func:`peak_memory` looks (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory():
    """Most resident bytes since :func:`reset_peak_memory`."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
