"""Which modules of the package a module rests on: kept results outlive changes elsewhere."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

PACKAGE = "structboost"


def imported_sources(*modules: str) -> list[Path]:
    """Files of ``modules`` of the package and of all that they import from it, directly or not.

    The package's own ``__init__`` imports everything for the user's sake and does not count.
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name == PACKAGE:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{name} is no module of {PACKAGE}.")
        found[name] = Path(spec.origin)
        waiting.extend(_imported(found[name]))
    return [found[name] for name in sorted(found)]


def _imported(path: Path) -> list[str]:
    """Modules of the package that a file names in an import, wherever it stands."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            names.append(str(node.module))
        elif isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names if alias.name.partition(".")[0] == PACKAGE)
    return names
