"""Code that every x86-64 processor with AVX2 has: with it, pages come out the same on each of them.

Libraries read these variables when they are loaded, so measuring runs in a process that starts with
them. Nothing here imports numpy.
"""

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
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
CHILD = "STRUCTBOOST_BENCHMARKS_CHILD"
PATIENCE = 30.0  # seconds from Ctrl-C until a process that goes on is ended
REMEDIES = {
    "SIGILL": "this processor lacks an instruction of a package; install packages that were "
    "compiled for any x86-64 processor (the usual wheels), not for another machine",
    "SIGKILL": "the memory was probably used up; take --only some data sets",
    "SIGSEGV": "run it again with PYTHONFAULTHANDLER=1, which shows the line",
}


def features() -> set[str] | None:
    """Features of the processor, as /proc/cpuinfo calls them; None where the system has none."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return None


def obstacle() -> str | None:
    """Error message where the code cannot run; None where it can, or where nobody knows."""
    there = features()
    missing = sorted(NEEDED - there) if there is not None else []
    if platform.machine().lower() not in ("x86_64", "amd64"):
        missing = sorted(NEEDED)
    if not missing:
        return None
    return (
        "The benchmarks are measured with code for x86-64 processors with AVX2 and FMA (since "
        f"2013), and this one ({platform.machine()}) lacks {', '.join(missing)}. Run them on "
        "another machine; `list` and `index` work here."
    )


def measured_alike(command: Sequence[str]) -> int:
    """Exit code of a command that runs with this code; a signal that ends it is named.

    Ctrl-C goes to both processes.
    """
    message = obstacle()
    if message is not None:
        sys.stderr.write(f"{message}\n")
        return 2
    environment = {**os.environ, **CODE, **ONE_THREAD, CHILD: "1"}
    if "avx512f" in (features() or ()):
        environment["OPENCV_CPU_DISABLE"] = "AVX512-SKX"
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = process.wait()
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(PATIENCE)
        process.terminate()
        code = process.wait()
    if code < 0:
        sys.stderr.write(f"{ending('The benchmarks', code)}\n")
    return code if code >= 0 else 128 - code


def ending(subject: str, code: int) -> str:
    """Sentence on a process that ended with a non-zero code, its signal and the remedy."""
    if code > 0:
        return f"{subject} ended with exit code {code}; its message is above."
    name = signal.Signals(-code).name
    remedy = REMEDIES.get(name, "run the same command again; it goes on with what is left")
    return f"{subject} ended by {name} ({signal.strsignal(-code)}): {remedy}."
