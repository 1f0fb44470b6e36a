"""Modules that moved: their names of version 0.2 still import, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Names of version 0.2, and the modules that hold the same things now.
MOVED = {
    "boosting": ["training.boosting"],
    "columns": ["training.columns", "weak.terms", "masters.held_out"],
    "ensemble": ["model.ensemble"],
    "loop": ["training.loop"],
    "task": [
        "contract.task",
        "contract.measures",
        "contract.parts",
        "contract.listed_outputs",
        "contract.separation",
    ],
}


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        homes = MOVED[module.__name__.partition(".")[2]]
        warnings.warn(
            f"{module.__name__} moved to structboost.{homes[0]}, and its old name goes with the "
            "next version; import public names from structboost itself.",
            FutureWarning,
            stacklevel=2,
        )
        for home in reversed(homes):
            names = vars(import_module(f"structboost.{home}"))
            vars(module).update({n: value for n, value in names.items() if n[:2] != "__"})


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != "structboost" or module not in MOVED:
            return None
        return ModuleSpec(name, _Loader())


def find_moved_modules() -> None:
    """Let imports by the names of version 0.2 find the modules of today."""
    sys.meta_path.append(_Finder())
