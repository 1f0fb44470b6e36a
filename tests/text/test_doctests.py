"""The examples in the docstrings of the package run."""

import doctest
import importlib

import pytest

from tests.helpers.source import PACKAGE

MODULES = sorted(path.stem for path in (PACKAGE / "text").glob("*.py") if path.stem[0] != "_")


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_give_what_they_print(name):
    module = importlib.import_module(f"structboost.text.{name}")
    assert doctest.testmod(module).failed == 0
