"""The package without its extras: what works, and the command that the rest names."""

import json
import subprocess
import sys

import pytest

from structboost.errors import MissingExtraError
from structboost.runtime import registry

# Packages that only extras bring, and what they install besides.
BLOCKED = (
    "PIL", "av", "cv2", "dask", "distributed", "imageio", "matplotlib", "maxflow", "networkx",
    "onnx", "skimage",
)  # fmt: skip
BLOCK = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED}))
"""


def run(code):
    """Run code in a process that cannot import the packages of extras."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code], capture_output=True, text=True, check=False
    )


IMPORT_ALL = """
import importlib, pkgutil
import structboost
from structboost.errors import MissingExtraError
left_out = set()
for module in pkgutil.walk_packages(structboost.__path__, "structboost.", lambda name: None):
    try:
        importlib.import_module(module.name)
    except MissingExtraError as error:
        assert "pip install" in str(error), error
        left_out.add(module.name)
print(*sorted(left_out))
"""


@pytest.mark.slow
def test_base_imports_all_but_vision_and_dask():
    done = run(IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    left_out = done.stdout.split()
    assert {"structboost.tracking", "structboost.segmentation", "structboost.vision"} <= {*left_out}
    others = [name for name in left_out if name.split(".")[1] not in ("tracking", "segmentation")]
    assert others == ["structboost.training.dask", "structboost.vision"]


USE = """
import numpy as np
from structboost import (
    GraphTask, HierarchicalMultiLabelTask, StructBoost, StructBoostClassifier, StructuredSVM,
)
from structboost.tasks import GraphInput
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = np.argmax(X, axis=1)
assert StructBoostClassifier(max_iter=5).fit(X, y).score(X, y) > 0.7
several_parents = [(0, 2), (1, 2), (2, 3)]
Y = np.maximum.accumulate((X[:, [0, 0, 0, 0]] > [0.0, 0.2, 0.4, 0.6])[:, ::-1], axis=1)[:, ::-1]
task = HierarchicalMultiLabelTask(4, several_parents)
sets = StructuredSVM(task, C=100.0).fit(X, Y.astype(int))
assert -sets.score(X, Y.astype(int)) < 0.5
ring = [[0, 1], [1, 2], [2, 0]]
graphs = [GraphInput(x[:, None] + 0.1 * rng.normal(size=(3, 2)), ring) for x in X]
labels = [(x > 0).astype(int) for x in X]
model = StructuredSVM(GraphTask(2), C=10.0).fit(graphs, labels)
assert -model.score(graphs, labels) < 0.5
"""


@pytest.mark.slow
def test_base_fits_tables_graphs_with_cycles_and_labels_with_several_parents():
    done = run(USE)
    assert done.returncode == 0, done.stderr


WITHOUT = {
    "from structboost.segmentation import Segmenter": "vision",
    "import structboost.tracking.box_tracker": "vision",
    "from structboost import SparsityPathDisplay; SparsityPathDisplay([1], [0.5]).plot()": "plot",
    "from structboost import to_onnx; to_onnx(None)": "onnx",
    "import structboost.training.dask": "distributed",
}
ERRORS = f"""
import json, traceback
lines = {{}}
for code in {[*WITHOUT]}:
    try:
        exec(code)
    except Exception as error:
        lines[code] = traceback.format_exception_only(error)[-1]
print(json.dumps(lines))
"""


@pytest.mark.slow
def test_a_missing_extra_is_named_with_its_command():
    lines = json.loads(run(ERRORS).stdout)
    assert lines.keys() == WITHOUT.keys()
    for code, extra in WITHOUT.items():
        assert lines[code].startswith("structboost.errors.MissingExtraError: "), code
        assert f'pip install "structboost-learn[{extra}]"' in lines[code]
        assert f'in a checkout pip install -e ".[{extra}]"' in lines[code]


def test_a_command_without_its_extra_ends_with_one_line():
    done = run(
        "from structboost.cli import main; print(*(main([name]) for name in ('track', 'segment')))"
    )
    assert done.stdout == "2 2\n"
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all('pip install "structboost-learn[vision]"' in line for line in lines)


def test_a_missing_package_is_named_and_others_are_not(monkeypatch):
    monkeypatch.setattr(registry, "is_installed", lambda module: module != "cv2")
    with pytest.raises(MissingExtraError, match=r"^The filter needs opencv-python, not installed"):
        registry.require("vision", "The filter")
