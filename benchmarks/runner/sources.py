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
MEASURING = ("benchmarks.runner.datasets", "benchmarks.runner.protocol")
FOLLOWED = (PACKAGE, "benchmarks.peers", "benchmarks.ours", "benchmarks.structures", *MEASURING)
# What is in a module, as a registry names it; from the dot on, in the registry's own package.
NAMED = re.compile(rf"((?:{PACKAGE})?(?:\.\w+)+):\w+")


def code_version(modules: Iterable[str], packages: Iterable[str] = ()) -> str:
    """Hash of modules and of all that they import, and the versions of installed packages."""
    digest = hashlib.sha256()
    for name, path in imported_sources(*modules).items():
        digest.update(name.encode())  # not the path: checkouts lie in folders of any name
        digest.update(path.read_bytes())
    versions = [f"{name} {importlib.import_module(name).__version__}" for name in packages]
    return " ".join([digest.hexdigest()[:16], *versions])


def imported_sources(*modules: str) -> dict[str, Path]:
    """Modules and what they import, directly or not, from the packages followed, with their files.

    A public name imported from the package counts as its own module: the package's ``__init__``
    imports everything.
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name == PACKAGE:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"There is no module {name}.")
        found[name] = Path(spec.origin)
        waiting.extend(_imported(name, found[name], found[name].stat().st_mtime_ns))
    return {name: found[name] for name in sorted(found)}


@cache
def _imported(module: str, path: Path, modified: int) -> tuple[str, ...]:
    """Modules that a file imports or names in a string, as registries do, wherever in it.

    It is parsed once for each time of modification.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update(_modules_of(node.module, [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = NAMED.fullmatch(node.value)
            if found:
                own = module.rpartition(".")[0] if found[1].startswith(".") else ""
                names.update([own + found[1]] if _is_module(own + found[1]) else ())
    return tuple(sorted(name for name in names if _is_followed(name)))


def _modules_of(module: str, names: list[str]) -> Iterator[str]:
    """The module of an import, and modules among its names; of the package, where names are."""
    if module == PACKAGE:
        package = importlib.import_module(PACKAGE)
        yield from (getattr(getattr(package, name), "__module__", PACKAGE) for name in names)
        return
    yield module
    if _is_followed(module):
        yield from (f"{module}.{name}" for name in names if _is_module(f"{module}.{name}"))


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what should be its package is a module
        return False


def _is_followed(name: str) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in FOLLOWED)
