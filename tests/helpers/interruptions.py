"""Ctrl-C at random moments, each in a fresh interpreter.

``python -m tests.helpers.interruptions 200`` sends so many, to all cases in turn, and says how each
ended: in a model that predicts, with or without
:class:`structboost.errors.InterruptedFitWarning`, or in KeyboardInterrupt.  Anything else (an
exception, a signal, a program that goes on) is shown, and makes the exit code 1.  In every other
turn Ctrl-C comes three times in a row, which ends every fit within five seconds.
"""

import contextlib
import faulthandler
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.random import default_rng

BEGUN = "begun"
ENDS = ("model, interrupted", "model, whole", "KeyboardInterrupt")
# So long a program may go on after Ctrl-C; a pass of compiling cannot be broken off.
_PATIENCE = 90
# So long after the third of three in a row, and so long lie between them.
_PATIENCE_OF_THREE = 5.0
_BETWEEN = 0.3


def noisy(n_classes=4, n=600):
    """A table that cannot be fitted soon."""
    return default_rng(0).normal(size=(n, 10)), np.arange(n) % n_classes


def face(name, outputs=None, **parameters):
    """Fit a face to the table, with its classes or with outputs that are made of it."""
    import structboost

    X, y = noisy()
    model = getattr(structboost, name)(**parameters).fit(X, y if outputs is None else outputs(X))
    assert len(getattr(model, "transform" if name == "CrossFitted" else "predict")(X[:7])) == 7


HINGE = {"objective": "hinge", "C": 200.0, "tol": 0.0, "max_iter": 2000}


def classifier(**parameters):
    face("StructBoostClassifier", **HINGE | parameters)


def cross_fitted():
    from structboost import StructBoostClassifier

    face("CrossFitted", estimator=StructBoostClassifier(**HINGE), folds=5)


def tagger(**parameters):
    from structboost import StructBoostTagger

    X, y = noisy(n=1500)
    sentences = [[{f"word{k}": 1.0, "x": value} for k, value in enumerate(row[:4])] for row in X]
    tags = [np.roll(list("ABCD"), k).tolist() for k in y]
    model = StructBoostTagger(**parameters).fit(sentences, tags)
    assert len(model.predict(sentences[:7])) == 7


def costs(X):
    return np.abs(X[:, :6] @ default_rng(1).normal(size=(6, 12))) + 1.0


def cheapest(costs):
    """Three cheapest of twelve items."""
    return np.isin(np.arange(12), np.argsort(costs)[:3]).astype(float)


def chains():
    from structboost import ChainTask, StructuredSVM

    X, y = noisy(n_classes=3, n=6400)
    X, Y = np.split(X, 800), np.split(default_rng(1).permutation(y), 800)
    model = StructuredSVM(ChainTask(3), C=1e3, tol=1e-9, max_epochs=10**6).fit(X, Y)
    assert len(model.predict(X[:3])) == 3


def own_task(seconds, n, **parameters):
    """A task whose argmax is Python, and slow."""
    from structboost import StructBoost
    from tests.helpers.slow_task import SlowTask

    X, y = noisy(n=n)
    trainer = StructBoost(SlowTask(seconds), C=50.0, tol=0.0, max_rounds=1000, **parameters).fit(
        X, y
    )
    trainer.task = SlowTask(0.0)
    assert len(trainer.predict(X[:3])) == 3


def dask():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        say(BEGUN)
        classifier(engine="dask")


def tracker():
    from examples.synthetic_clip import make_synthetic_clip
    from structboost.tracking import StructBoostTracker

    clip = make_synthetic_clip(40)
    followed = StructBoostTracker()
    frames = itertools.chain.from_iterable(itertools.repeat(list(clip.frames)))
    begun = False
    try:
        followed.init(next(frames), clip.boxes[0])
        begun = True
        for frame in frames:
            followed.update(frame)
    except KeyboardInterrupt:
        if not begun:
            raise
        assert followed.update(next(frames)).shape == (4,)
        raise


def segmenter():
    from examples.synthetic_images import make_synthetic_images
    from structboost.segmentation.segmenter import Segmenter

    made = make_synthetic_images()
    trained = Segmenter(n_segments=60, C=100.0).fit(made.images[:6], made.masks[:6])
    assert trained.predict(made.images[7]).shape == made.images[7].shape[:2]


def command():
    from structboost.cli import main as command_line
    from tests.helpers.photographs import write_folder

    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), 6, 0)
        train = "segment train --images {0}/images --masks {0}/masks --model {0}/m --C 100"
        code = command_line(train.format(folder).split())
    if code == 130:
        raise KeyboardInterrupt
    assert code == 0


CASES = {
    "one_slack, serial": lambda: classifier(engine="serial"),
    "one_slack, threads": lambda: classifier(n_jobs=2),
    "one_slack, processes": lambda: classifier(engine="processes", n_jobs=2),
    "one_slack, dask": dask,
    "m_slack": lambda: classifier(formulation="m_slack"),
    "trees": lambda: classifier(weak_learner="tree"),
    "exponential": lambda: face("MultiBoostCWClassifier", tol=0.0, max_rounds=5000),
    "AdaBoost": lambda: face("AdaBoostECCClassifier", max_rounds=5000),
    "own task, threads": lambda: own_task(0.002, 200, n_jobs=2),
    "own task, processes": lambda: own_task(0.002, 200, engine="processes", n_jobs=2),
    "own task, one argmax for minutes": lambda: own_task(300.0, 8, engine="serial"),
    "log-loss": lambda: classifier(objective="log_loss", C="auto", tol=0.01, max_iter=5000),
    "early stopping": lambda: classifier(early_stopping=True, n_iter_no_change=10**6),
    "label sets": lambda: face(
        "StructBoostMultiLabelClassifier", lambda X: (X > 0.3).astype(int), max_iter=5000
    ),
    "tagger": lambda: tagger(max_iter=2000),
    "tagger, linear": lambda: tagger(weak_learner="linear"),
    "decisions": lambda: face(
        "PredictThenOptimize", costs, problem=cheapest, C=100.0, tol=1e-9,
        weak_learner=["linear", "stump"],
    ),
    "cross-fitted": cross_fitted,
    "chain, linear": chains,
    "tracker": tracker,
    "segmenter": segmenter,
    "command": command,
}  # fmt: skip


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def interrupted_run(case, seconds, *, from_start=False, cache=None, n_presses=1):
    """How a case ends that gets Ctrl-C so many seconds after it began to train, or after the
    interpreter started, or several in a row.

    Returns
    -------
    end : str
        One of ``ENDS``, or what went wrong.
    """
    environment = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.interruptions", "--case", case],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
        cwd=Path(__file__).parents[2], preexec_fn=_listen,  # noqa: PLW1509
    )  # fmt: skip
    says = process.stdout.readline() if not from_start else ""
    time.sleep(seconds)
    # As a terminal does: to all processes of the group.
    for press in range(n_presses):
        if press:
            time.sleep(_BETWEEN)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    patience = _PATIENCE
    if n_presses > 2:
        # Other programs on this machine slow this one.
        patience = _PATIENCE_OF_THREE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    try:
        out, errors = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGABRT)  # which shows where it is
            time.sleep(1.0)
            os.killpg(process.pid, signal.SIGKILL)
        return f"went on for {patience:.0f} s: {process.communicate()[1][-1500:]}"
    last = (says + out).strip().splitlines()[-1:]
    # The signal itself ends a process that has said its end, and is about to leave.
    if process.returncode in (0, -signal.SIGINT) and last and last[0] in ENDS:
        return last[0]
    # Before Python has a handler of its own, the signal ends the process without a word.
    was_silent = from_start and not out + errors
    # Libraries may report another Ctrl-C while they are put away.
    lines = errors.splitlines()
    is_told = any(line.partition(":")[0] == "KeyboardInterrupt" for line in lines)
    if process.returncode == -signal.SIGINT and (was_silent or is_told):
        return "KeyboardInterrupt"
    if from_start and "KeyboardInterrupt\n" in errors and "\nImportError: " in errors:
        return "KeyboardInterrupt"  # which a module in C++ passed on under another name
    return f"exit code {process.returncode}: {out[-200:]} {errors[-1500:]}"


def _listen():
    """A shell has its jobs in the background ignore Ctrl-C, and all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def import_all():
    """Import what the cases need.

    Modules in C++ turn a Ctrl-C that comes while they are imported into an ImportError, or lose it.
    """
    import skimage.data  # noqa: F401

    import structboost.cli
    import structboost.segmentation.segmenter
    import tests.helpers.slow_task  # noqa: F401

    for package in (structboost, *(getattr(structboost, name) for name in structboost._PACKAGES)):
        for name in package.__all__:
            getattr(package, name)


def run_case(case):
    """Train; say how it ended."""
    from structboost.errors import InterruptedFitWarning

    faulthandler.enable()
    import_all()
    if "dask" not in case:
        say(BEGUN)
    with warnings.catch_warnings(record=True, action="always") as caught:
        CASES[case]()
    is_interrupted = any(issubclass(warning.category, InterruptedFitWarning) for warning in caught)
    say("model, interrupted" if is_interrupted else "model, whole")


def main(number, seed=0):
    """Send Ctrl-C to all cases in turn; the exit code."""
    moments = random.Random(seed)
    ends = Counter()
    for i, case in zip(range(number), itertools.cycle(CASES)):
        turn = i // len(CASES)
        with tempfile.TemporaryDirectory() as folder:
            # One in eight while it imports, one in eight while it compiles.
            end = interrupted_run(
                case,
                moments.uniform(0.0, 5.0 if turn % 8 != 7 else 10.0),
                from_start=turn % 8 == 6,
                cache=folder if turn % 8 == 7 else None,
                n_presses=3 if turn % 8 in (0, 2, 4) else 1,
            )
        ends[end if end in ENDS else "wrong"] += 1
        say(f"{i + 1} {case}: {end}")
    say(f"all: {dict(ends)}")
    return min(1, ends["wrong"])


if __name__ == "__main__":
    if sys.argv[1] == "--case":
        run_case(sys.argv[2])
    else:
        sys.exit(main(int(sys.argv[1]), *map(int, sys.argv[2:])))
