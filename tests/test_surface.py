"""The names at the top are few, each is documented, and those that moved still work for now."""

import importlib
import inspect
import subprocess
import sys

import pytest

import structboost
from structboost._moved import OLD_NAMES, RENAMED

PUBLIC = ["structboost", *(f"structboost.{name}" for name in sorted(structboost._PACKAGES))]
MOVED = [
    (package, home, name)
    for package, homes in OLD_NAMES.items()
    for home, names in homes.items()
    for name in names.split()
]


def test_at_most_50_names_stand_at_the_top():
    assert len(structboost.__all__) <= 50


def test_dir_lists_the_names_and_the_packages_and_no_name_that_moved():
    assert set(dir(structboost)) == {*structboost.__all__, *structboost._PACKAGES}
    assert not {name for package, _, name in MOVED if name in dir(sys.modules[package])}


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_exist_and_have_a_docstring(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name


@pytest.mark.parametrize(("package", "home", "name"), MOVED)
def test_a_name_that_moved_is_the_same_object_and_warns(package, home, name):
    module = importlib.import_module(f"structboost.{home}")
    new = RENAMED.get(name, name)
    assert new in module.__all__
    with pytest.warns(FutureWarning, match=f"from structboost.{home} import {new}"):
        moved = getattr(importlib.import_module(package), name)
    assert moved is getattr(module, new)


def test_the_warning_of_a_name_that_moved_points_at_the_import():
    with pytest.warns(FutureWarning) as caught:
        exec(compile("from structboost import TaskError", "program.py", "exec"))
    assert {warning.filename for warning in caught} == {"program.py"}


@pytest.mark.parametrize("package", [structboost, *map(importlib.import_module, OLD_NAMES)])
def test_an_unknown_name_is_missing(package):
    with pytest.raises(AttributeError, match="NoSuchName"):
        package.NoSuchName  # noqa: B018


def test_importing_the_package_imports_no_plug_in():
    code = "import structboost, sys; print(*sorted(m for m in sys.modules if 'structboost' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["structboost", "structboost._moved"]


def test_may_part_of_fit_is_can_split_and_warns():
    trainer = structboost.StructBoost(structboost.BinaryTask(), C=50.0, max_rounds=2, tol=0.5)
    with pytest.warns(FutureWarning, match="write can_split"):
        trainer.fit([[0.0], [1.0]], [-1, 1], may_part=False)


def test_a_family_that_defines_vary_is_told_to_name_it_resample():
    with pytest.warns(FutureWarning, match="declares vary, .*; name it resample"):
        type("Old", (structboost.weak.StumpFamily,), {"vary": lambda self, random_state: None})
