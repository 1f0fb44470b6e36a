"""The source code of the package, parsed once for all tests that read it."""

import ast
from functools import cache
from pathlib import Path

import structboost

PACKAGE = Path(structboost.__file__).parent


@cache
def tree_of(path):
    return ast.parse(path.read_text())


MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported(tree):
    """Modules of the package that code imports, inside functions and for types too.

    The package itself, which only collects public names, is not among them.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in members}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & set(MODULES) - {"structboost"}
