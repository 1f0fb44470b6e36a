"""No part of the project grows beyond the ledger."""

import pytest

from tests.house import FOLDERS, faces, ledger, sizes, tokens


@pytest.fixture(scope="module")
def counted():
    return sizes()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FOLDERS, "docs"])
def test_no_part_is_larger_than_the_ledger_allows(name, counted):
    assert counted[name] <= ledger()[name]


def test_tokens_are_counted_without_strings_and_comments(tmp_path):
    (tmp_path / "a.py").write_text('"""A string."""\nif a:  # why\n    b = f(1)\n')
    assert tokens(tmp_path) == len("if a : b = f ( 1 )".split())


def test_faces_are_short_lines_of_classes_that_override_no_private_method():
    _, classes, twice = faces()
    assert classes <= 4
    assert not twice
