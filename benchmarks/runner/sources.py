"""The code that a result depends on: the version of a unit changes with it, and with no other."""

import ast
import hashlib
import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = "structboost"
# Imports of other modules are not followed: a new table must not make results worthless.
FOLLOWED = (
    *(PACKAGE, "benchmarks.peers", "benchmarks.ours", "benchmarks.structures"),
    *("benchmarks.runner.datasets", "benchmarks.runner.protocol"),
)
# An object of a module, as a registry names it: in full, or in the registry's own package.
NAMED = re.compile(r"\.?([A-Za-z_][\w.]*):\w+")


def code_version(modules: Iterable[str], packages: Iterable[str] = ()) -> str:
    """Hash of modules and of all that they import, and the versions of installed packages.

    Comments and docstrings do not count: better words must not make results worthless.
    """
    digest = hashlib.sha256()
    for name, path in imported_sources(*modules).items():
        digest.update(name.encode())  # not the path: checkouts lie in folders of any name
        digest.update(_statements(path).encode())
    versions = [_version(name) for name in packages]
    return " ".join([digest.hexdigest()[:16], *versions])


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return f"no {package}"  # an estimate plans without it
    return f"{package} {getattr(importlib.import_module(package), '__version__', '')}"


def imported_sources(*modules: str) -> dict[str, Path]:
    """Modules and what they import, directly or not, from the packages followed, with their files.

    A public name imported from one of the library's packages counts as its own module: the
    package's ``__init__`` imports names when they are first used, so its source names no modules.
    """
    sources: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in sources or name == PACKAGE:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"There is no module {name}.")
        sources[name] = Path(spec.origin)
        waiting.extend(_imported(name, sources[name]))
    return {name: sources[name] for name in sorted(sources)}


@cache
def _statements(path: Path) -> str:
    """Statements of a file, without what only people read."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
    return ast.dump(tree)


@cache
def _imported(module: str, path: Path) -> tuple[str, ...]:
    """Modules that a file imports or names in a string, as registries do, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update(_modules_of(node.module, [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = NAMED.fullmatch(node.value)
            if match:
                both = match[1], f"{module.rpartition('.')[0]}.{match[1]}"
                names.update(name for name in both if _is_followed(name) and _is_module(name))
    return tuple(sorted(name for name in names if _is_followed(name)))


def _modules_of(module: str, names: list[str]) -> Iterator[str]:
    """The module of an import, and modules among its names or in which its names are defined."""
    yield module
    if not _is_followed(module):
        return
    yield from (f"{module}.{name}" for name in names if _is_module(f"{module}.{name}"))
    if f"{module}.".startswith(f"{PACKAGE}."):
        package = importlib.import_module(module)
        defined = [getattr(package, name, None) for name in names]
        yield from (str(getattr(one, "__module__", None) or module) for one in defined)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what should be its package is a module
        return False


def _is_followed(name: str) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in FOLLOWED)
