"""Compiled code: what crosses the border to Python, and where it is cached."""

import ast
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache

import numba
import numpy as np
import pytest
from sklearn.datasets import load_iris

from structboost import MultiBoostCWClassifier, StructBoostClassifier, StructuredSVMClassifier
from structboost.runtime import dispatchers
from structboost.runtime.compiled import CompiledFunction
from tests.helpers.source import PACKAGE, tree_of

pytestmark = pytest.mark.slow


@cache
def modules():
    """Trees of all modules by name."""
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): tree_of(path)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__init__.py"
    }


def is_compiled(node):
    return isinstance(node, ast.FunctionDef) and any(
        "compiled" in ast.unparse(d) for d in node.decorator_list
    )


def names_used_by_python(node):
    """Names in a module, those inside compiled functions left out."""
    if is_compiled(node):
        return
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    for child in ast.iter_child_nodes(node):
        yield from names_used_by_python(child)


def entries():
    """Compiled functions that Python calls, with the nodes of their definitions."""
    used = {name for tree in modules().values() for name in names_used_by_python(tree)}
    for module, tree in modules().items():
        for node in tree.body:
            if is_compiled(node) and node.name in used:
                yield getattr(importlib.import_module(module), node.name), node


def named_tuples():
    """Names of the classes of the package whose objects compiled code would have to box."""
    return {
        node.name
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(word in ast.unparse(part) for part in (*node.bases, *node.decorator_list)
                for word in ("NamedTuple", "dataclass"))
    }  # fmt: skip


def test_no_compiled_function_that_python_calls_takes_or_returns_a_named_tuple():
    # Boxing one calls Python, where a pending Ctrl-C raises; numba goes on with the NULL and the
    # interpreter dies.
    word = re.compile(rf"\b({'|'.join(named_tuples())})\b")
    found = list(entries())
    assert len(found) > 50
    for dispatcher, node in found:
        assert isinstance(dispatcher, CompiledFunction), node.name
        signature = ast.unparse(node.args) + (ast.unparse(node.returns) if node.returns else "")
        assert not word.search(signature), node.name


@pytest.mark.parametrize(
    ("Trainer", "parameters"),
    [
        (
            StructBoostClassifier,
            {
                "objective": "hinge", "C": 5.0, "tol": 0.125, "spread": 0.5, "max_iter": 4,
                "columns_per_channel": 2,
            },
        ),
        (
            MultiBoostCWClassifier,
            {"C": 64.0, "tol": 0.125, "max_rounds": 3, "tau_max": 2, "random_state": 0},
        ),
        (StructuredSVMClassifier, {"C": 2.0, "tol": 0.25, "max_epochs": 30, "random_state": 0}),
    ],
)  # fmt: skip
def test_numbers_of_numpy_compile_nothing_anew_and_change_nothing(Trainer, parameters):
    X, y = load_iris(return_X_y=True)
    weight = np.arange(len(y)) % 4 + 1
    plain = Trainer(**parameters).fit(X, y, sample_weight=weight)
    before = {dispatcher: list(dispatcher.signatures) for dispatcher, _ in entries()}
    numpys = {float: np.float32, int: np.int64, str: str}
    own = {name: numpys[type(value)](value) for name, value in parameters.items()}
    estimator = Trainer(**own).fit(X, y, sample_weight=weight.astype(np.float32))
    assert {dispatcher: list(dispatcher.signatures) for dispatcher, _ in entries()} == before
    assert estimator.get_params() == Trainer(**own).get_params()
    assert all(type(getattr(estimator, name)) is type(value) for name, value in own.items())
    assert estimator.objective_ == plain.objective_
    assert np.array_equal(estimator.decision_function(X), plain.decision_function(X))


def test_numba_is_not_imported_before_the_first_call():
    code = """
import sys
import structboost
for name in structboost.__all__:
    getattr(structboost, name)
from structboost.faces import StructBoostTagger
assert not {"numba", "llvmlite"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_first_fits_in_several_threads_import_numba_once_and_announce_it_once():
    code = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from structboost.runtime import compiled

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("numba"):
            importing.add(threading.get_ident())
            time.sleep(0.001)  # other threads run meanwhile

def announce(_):
    barrier.wait()
    compiled.announce_compilation()

importing, barrier = set(), threading.Barrier(4)
sys.meta_path.insert(0, Finder())
with ThreadPoolExecutor(4) as threads:
    list(threads.map(announce, range(4)))
assert len(importing) == 1, importing
from numba.core import event
listeners = [type(listener).__name__ for listener in event._registered["numba:compile"]]
assert listeners == ["Compilations"], listeners
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_numba_is_used_only_through_compiled_functions_of_at_most_ten_arguments():
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if is_compiled(node):
                assert len(node.args.args) <= 10, f"{module}.{node.name}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                of_numba = {"numba", "llvmlite"} & {name.split(".")[0] for name in names}
                assert module.startswith("structboost.runtime.") or not of_numba, module


# -- where neither the package nor the home can be written ---------------------------------------

WHOLE = """
import numpy as np
from structboost.runtime.blocks import add_to_tree
sums = np.zeros((1, 1, 2))
add_to_tree(sums, 0, np.ones((1, 2)), 1)
assert sums.tolist() == [[[1.0, 1.0]]]
"""
SQUARE = """
from compiled import compiled
@compiled
def square(x):
    return x * x
"""
without_folders = pytest.mark.skipif(
    sys.platform == "win32", reason="the user's folders are found otherwise there"
)


def run(tmp_path, code, **variables):
    """Run code where no cache folder can be made: files stand in their places."""
    installed, temporary = tmp_path / "installed", tmp_path / "tmp"
    for folder in [installed, *(path for path in installed.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    home = tmp_path / "file"
    home.touch()
    temporary.mkdir(exist_ok=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NUMBA")
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join((str(installed), str(PACKAGE.parent))),
        "HOME": str(home / "home"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment | variables, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return sorted(path.name for path in temporary.rglob("*.nbi"))


@pytest.fixture
def square(tmp_path):
    """A module with a compiled function, in a folder that can be closed; code that calls it."""
    (tmp_path / "installed").mkdir()
    shutil.copy(PACKAGE / "runtime" / "compiled.py", tmp_path / "installed")
    (tmp_path / "installed" / "squares.py").write_text(SQUARE)
    return "import squares; assert squares.square(3.0) == 9.0"


@without_folders
def test_the_package_works_where_neither_it_nor_the_home_can_be_written(tmp_path):
    shutil.copytree(
        PACKAGE,
        tmp_path / "installed" / "structboost",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    assert not run(tmp_path, WHOLE)


@without_folders
def test_cache_goes_to_NUMBA_CACHE_DIR(tmp_path, square):
    chosen = tmp_path / "chosen"
    assert not run(tmp_path, square, NUMBA_CACHE_DIR=str(chosen))
    assert list(chosen.rglob("*.nbi"))


# -- files of the cache that are damaged ----------------------------------------------------------


@pytest.fixture
def cached_square(tmp_path, monkeypatch):
    """Make the compiled function of a file, whose cache is in a folder of its own, as new."""
    path, cache = tmp_path / "squares.py", tmp_path / "cache"
    path.write_text(SQUARE.replace("from compiled", "from structboost.runtime.compiled"))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
    monkeypatch.setattr(dispatchers, "_reported", set())

    def new():
        spec = importlib.util.spec_from_file_location("squares", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.square

    return new, cache


def result_and_hits(square):
    return square(3.0), sum(square.stats.cache_hits.values())


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("n_bytes", [0, 3, 100])
def test_a_damaged_file_of_the_cache_is_named_and_compiled_again(cached_square, kind, n_bytes):
    new, cache = cached_square
    assert result_and_hits(new()) == (9.0, 0)
    assert result_and_hits(new()) == (9.0, 1)
    (path,) = cache.rglob(f"*.{kind}")
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.warns(RuntimeWarning, match=re.escape(str(path.parent))) as caught:
        assert result_and_hits(new()) == (9.0, 0)
    assert [warning.filename for warning in caught] == [__file__]
    assert result_and_hits(new()) == (9.0, 1)


def test_a_cache_folder_that_can_no_longer_be_written_is_named_once(cached_square):
    new, cache = cached_square
    square = new()
    assert square.stats.cache_path.startswith(str(cache))  # which makes the folder
    (folder,) = cache.iterdir()
    folder.rmdir()
    folder.touch()  # a file in its place: closed even to the administrator
    with pytest.warns(RuntimeWarning, match=re.escape(str(folder))) as caught:
        assert [square(3.0), square(3)] == [9.0, 9]
    assert len(caught) == 1
