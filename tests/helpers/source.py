"""The source code of the package, parsed once for all tests that read it."""

import ast
from functools import cache
from pathlib import Path

import structboost

PACKAGE = Path(structboost.__file__).parent


@cache
def tree_of(path):
    return ast.parse(path.read_text())
