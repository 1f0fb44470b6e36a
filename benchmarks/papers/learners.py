"""First use: CPU of the import, and of a first fit with and without compiled functions."""

import os
import re
import subprocess
import sys
import tempfile

from benchmarks.runner.experiment import Experiment
from benchmarks.runner.machine import ROOT
from structboost import StructBoostClassifier

IMPORT = "import structboost, beyond scikit-learn"
CPU = "import time; began = time.process_time(); {}; print(time.process_time() - began)"


def first_use(source, learner):
    """CPU seconds of first uses, each in a process of its own."""
    digits = "from sklearn.datasets import load_digits; data = load_digits(return_X_y=True)"
    ours = f"from structboost import {learner}"
    fit = CPU.format(f"{learner}().fit(*data).predict(data[0])")
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


CLASSIFIER = {"classifier": StructBoostClassifier.__name__}
EXPERIMENTS = [Experiment({"first-use": ()}, CLASSIFIER, first_use, metrics={"cpu": "cpu"})]
