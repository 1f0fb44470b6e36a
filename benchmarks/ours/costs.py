"""What our learners cost: CPU to an error, passes over chains, the first fit and the import."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.ours.methods import CW_TREES
from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.provenance import ROOT
from structboost import ChainTask, StructBoost

RACE_ROUNDS = 200
CHAIN = {"C": 300.0, "tol": 0.06, "random_state": 0}
CPU = "import time; began = time.process_time(); {}; print(time.process_time() - began)"


def to_their_error(train: Table, test: Table) -> dict[str, Any]:
    """CPU of LightGBM's fit without settings, and of ours with the fewest rounds to its error."""
    import lightgbm

    CW_TREES.warm_up()
    with threadpool_limits(1):
        their_model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)
        _, their_cpu = cpu_timed(their_model.fit, train.X, train.y)
        their_value = float(np.mean(their_model.predict(test.X) != test.y))
        whole = CW_TREES.fit(train, {"rounds": RACE_ROUNDS})
        errors = [np.mean(labels != test.y) for labels in whole.staged_predict(test.X)]
        rounds = next((k + 1 for k, e in enumerate(errors) if e <= their_value), len(errors))
        _, cpu = cpu_timed(CW_TREES.fit, train, {"rounds": rounds})
    found = [
        {"method": CW_TREES.name, "value": float(errors[rounds - 1]), "seconds": cpu},
        {"method": "lightgbm", "value": their_value, "seconds": their_cpu},
    ]
    return {"found": [{"metric": "error", "rounds": rounds, **one} for one in found]}


def passes_on_chains(read: Callable[[], Any]) -> dict[str, Any]:
    """Passes of the argmax and CPU to a certified gap, with one slack and with one a word."""
    words, _ = read()
    task = ChainTask(1 + max(int(y.max()) for y in words.Y))
    found = []
    with threadpool_limits(1):
        for name in ("one_slack", "m_slack"):
            StructBoost(task, formulation=name, max_rounds=3, **CHAIN).fit(words.X, words.Y)
            own = StructBoost(task, formulation=name, **CHAIN)
            model, cpu = cpu_timed(own.fit, words.X, words.Y)
            last = model.history_[-1]
            about = {"method": name, "metric": "passes", "value": last["oracle_calls"]}
            found.append({**about, "cpu": cpu, "gap": last["gap"], "rounds": last["round"]})
    return {"found": found}


def first_use() -> dict[str, Any]:
    """CPU seconds of first uses, each in a process of its own."""
    digits = "from sklearn.datasets import load_digits; data = load_digits(return_X_y=True)"
    ours = "from structboost import StructBoostClassifier"
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    fit = "StructBoostClassifier().fit(*data).predict(data[0])"
    with tempfile.TemporaryDirectory() as folder:
        cold = _cpu_of(f"{digits}; {ours}; {CPU.format(fit)}", folder)
        warm = _cpu_of(f"{digits}; {ours}; {CPU.format(fit)}", folder)
    with tempfile.TemporaryDirectory() as folder:
        lines = f"began = __import__('time').process_time()\n{snippet}"
        lines += "\nprint(__import__('time').process_time() - began)"
        readme = [_cpu_of(lines, folder) for _ in range(2)]
        imports = [
            _cpu_of(f"import sklearn; {CPU.format(one)}", folder)
            for one in ("import structboost", ours)
        ]
    seconds = {
        "fit and predict, nothing compiled": cold,
        "fit and predict, compiled before": warm,
        "README's first lines, nothing compiled": readme[0],
        "README's first lines, compiled before": readme[1],
        "import structboost, beyond scikit-learn": imports[0],
        "import of the classifier, beyond scikit-learn": imports[1],
    }
    return {"found": [{"method": k, "metric": "cpu", "value": v} for k, v in seconds.items()]}


def _cpu_of(code: str, cache: str) -> float:
    """What code prints last, run with the compiled functions of a folder only."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])
