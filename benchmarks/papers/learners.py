"""Costs of learners: CPU to LightGBM's error, first use."""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks.ours.methods import CW_TREES
from benchmarks.peers.boosters import LIGHTGBM
from benchmarks.runner.datasets import Table, load, split, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.provenance import ROOT
from benchmarks.runner.records import lookup, pick, ratio
from benchmarks.runner.targets import all_of, reach
from structboost import StructBoostClassifier

RACES, FIRST_USE = ("usps", "pendigits", "mnist"), "first-use"
THEIRS, OWN_TREES = "lightgbm", CW_TREES.name
RACE_ROUNDS = 200
COLD, IMPORT = "fit and predict, nothing compiled", "import structboost, beyond scikit-learn"
CPU = "import time; began = time.process_time(); {}; print(time.process_time() - began)"


def to_their_error(source, learner):
    """CPU of LightGBM's fit without settings, and of ours with the fewest rounds to its error."""
    data = load(source.name, source.folder)
    rows = split(data.y, 0)
    train, test = (Table(data.X[part], data.y[part]) for part in (rows.train, rows.test))
    CW_TREES.warm_up()
    their_model, their_cpu = cpu_timed(learner.fit, *train)
    error = float(np.mean(their_model.predict(test.X) != test.y))
    whole = CW_TREES.fit(train, {"rounds": RACE_ROUNDS})
    errors = [np.mean(labels != test.y) for labels in whole.staged_predict(test.X)]
    rounds = next((k + 1 for k, e in enumerate(errors) if e <= error), len(errors))
    _, cpu = cpu_timed(CW_TREES.fit, train, {"rounds": rounds})
    ours = {"method": OWN_TREES, "value": errors[rounds - 1], "seconds": cpu, "rounds": rounds}
    return {"rows": [ours, {"method": THEIRS, "value": error, "seconds": their_cpu}]}


def first_use(source, learner):
    """CPU seconds of first uses, each in a process of its own."""
    digits = "from sklearn.datasets import load_digits; data = load_digits(return_X_y=True)"
    ours = f"from structboost import {learner.__name__}"
    fit = CPU.format(f"{learner.__name__}().fit(*data).predict(data[0])")
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    began, ended = "began = time.process_time()", "print(time.process_time() - began)"
    readme = f"import time\n{began}\n{snippet}\n{ended}"
    seconds = {}
    for name, code in (
        ("fit and predict", f"{digits}; {ours}; {fit}"),
        ("README's first lines", readme),
    ):
        with tempfile.TemporaryDirectory() as folder:
            for when in ("nothing compiled", "compiled before"):
                seconds[f"{name}, {when}"] = _cpu_of(code, folder)
            seconds[IMPORT] = _cpu_of(f"import sklearn; {CPU.format('import structboost')}", folder)
    return {"rows": [{"method": name, "cpu": cpu} for name, cpu in seconds.items()]}


def _cpu_of(code, cache):
    """Number that code prints last, run with the compiled functions of a folder only."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


CLASSIFIER = {"classifier": StructBoostClassifier}
EXPERIMENTS = [
    Experiment(tabular(*RACES), {"all": LIGHTGBM}, to_their_error),
    Experiment(
        *({FIRST_USE: ()}, CLASSIFIER, first_use),
        metrics={"cpu": "cpu"},
    ),
]


def show(made):
    races = pick(made, metric="error")
    return blocks(
        across("Error, ours with the fewest rounds to LightGBM's", races, form="{:.1%}"),
        across("CPU seconds", races, "seconds", "{:.2f}"),
        listing(
            pick(made, dataset=FIRST_USE),
            field("first use", "method"),
            field("CPU s", "value", "{:.2f}"),
        ),
    )


def targets(made):
    at = lookup(made, "dataset", "method")
    ratios = {s: ratio(*(at(s, m, name="seconds") for m in (OWN_TREES, THEIRS))) for s in RACES}
    halves = [(name, r <= 0.5) for name, r in ratios.items() if r is not None]
    cold, imported = at(FIRST_USE, COLD), at(FIRST_USE, IMPORT)
    return [
        all_of("half of LightGBM's CPU to its error", halves, len(RACES)),
        reach("first fit, nothing compiled, CPU seconds", cold, "<=", 10.0),
        reach("import beyond that of scikit-learn, CPU seconds", imported, "<=", 0.3),
    ]
