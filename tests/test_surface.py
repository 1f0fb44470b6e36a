"""The names at the top are few, and each is documented."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
import zipfile

import pytest

import structboost
from tests.helpers.source import PACKAGE, tree_of
from tests.test_docs import PUBLIC

STUBS = sorted(PACKAGE.rglob("__init__.pyi"))


def test_at_most_45_names_stand_at_the_top():
    assert len(structboost.__all__) <= 45


def test_dir_lists_the_names_and_the_packages():
    assert set(dir(structboost)) == {*structboost.__all__, *structboost._PACKAGES}


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_exist_and_have_a_docstring(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name


@pytest.mark.parametrize("package", [structboost, *map(importlib.import_module, PUBLIC)])
def test_an_unknown_name_is_missing(package):
    with pytest.raises(AttributeError, match="NoSuchName"):
        package.NoSuchName  # noqa: B018


def test_importing_the_package_imports_no_plug_in():
    code = "import structboost, sys; print(*sorted(m for m in sys.modules if 'structboost' in m))"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.split() == ["structboost"]


def test_a_name_of_a_package_is_missing_with_its_place():
    remedy = r"write from structboost\.objectives import Hinge\."
    with pytest.raises(AttributeError, match=remedy):
        structboost.Hinge  # noqa: B018
    with pytest.raises(ImportError, match=remedy):
        from structboost import Hinge  # noqa: F401


def names_of_stub(stub):
    """Packages and names by module that a stub lists."""
    packages, names = set(), {}
    for node in tree_of(stub).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names), ast.unparse(node)
            imported = [alias.name for alias in node.names]
            if node.module is None:
                packages.update(imported)
            else:
                names.setdefault(node.module, []).extend(imported)
    return packages, names


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_names_that_are_imported_at_first_use_are_those_of_the_stub(stub):
    package = ".".join(stub.relative_to(PACKAGE.parent).parent.parts)
    module = importlib.import_module(package)
    assert names_of_stub(stub) == (getattr(module, "_PACKAGES", set()), module._NAMES)


ALL_NAMES = """
import importlib, structboost
for package in ("structboost", *(f"structboost.{name}" for name in structboost._PACKAGES)):
    module = importlib.import_module(package)
    for name in module.__all__:
        getattr(module, name)
print(structboost.__file__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-B", "-OO"])
def test_the_package_imports_without_stubs_from_a_zip_and_without_docstrings(option, tmp_path):
    root = tmp_path / "all.zip"
    with zipfile.ZipFile(root, "w") as file:
        for path in PACKAGE.rglob("*.py"):
            file.write(path, path.relative_to(PACKAGE.parent))
    printed = subprocess.check_output(
        [sys.executable, option, "-c", ALL_NAMES], text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert printed.strip() == str(root / "structboost" / "__init__.py")


def test_no_package_reads_a_stub_when_it_is_imported():
    for path in PACKAGE.rglob("__init__.py"):
        assert "attach_stub" not in path.read_text(), path
