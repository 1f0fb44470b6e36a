"""Modules that moved keep their names of version 0.2 for one version."""

import importlib
import sys

import pytest

import structboost
from structboost._moved import MOVED, RENAMED


@pytest.mark.parametrize("name", MOVED)
def test_an_old_module_name_imports_with_a_warning(name):
    sys.modules.pop(f"structboost.{name}", None)
    with pytest.warns(FutureWarning, match=f"structboost.{name} moved to structboost"):
        module = importlib.import_module(f"structboost.{name}")
    home = importlib.import_module(f"structboost.{MOVED[name][0]}")
    own = [
        n for n, value in vars(home).items() if getattr(value, "__module__", "") == home.__name__
    ]
    assert own
    assert all(getattr(module, n) is getattr(home, n) for n in own)
    sys.modules.pop(f"structboost.{name}")


def test_old_names_of_the_task_module_are_the_public_classes():
    sys.modules.pop("structboost.task", None)
    with pytest.warns(FutureWarning):
        module = importlib.import_module("structboost.task")
    for name in ("Task", "PartKind", "StackedParts", "Measure", "Separation", "Marginals"):
        assert getattr(module, name) is getattr(structboost.contract, RENAMED.get(name, name))
    sys.modules.pop("structboost.task")


def test_an_unknown_module_is_missing_as_before():
    with pytest.raises(ModuleNotFoundError, match=r"structboost\.tasc"):
        importlib.import_module("structboost.tasc")
