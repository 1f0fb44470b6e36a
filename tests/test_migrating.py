"""The page on migrating says what happens to each parameter of 0.2, and what to write for it."""

import pkgutil
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import structboost
from structboost._moved import OLD_NAMES

PAGE = (Path(__file__).parents[1] / "docs" / "migrating.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([a-z ]+) \| `(.+?)` \| ([a-z ]+) \| `(.+?)`[^|]*\|$", re.M)
ROWS = ROW.findall(PAGE)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.argsort(np.argsort(X[:, 0])) // 20
SETS = np.column_stack((X[:, 0] > 0, (X[:, 0] > 0) & (X[:, 1] > 0))).astype(int)
FACES = {
    "classifier": (structboost.StructBoostClassifier, (X, Y), {}),
    "ranker": (structboost.StructBoostRanker, (X, Y), {"qid": np.arange(60) // 10}),
    "tagger": (structboost.StructBoostTagger, (X.reshape(12, 5, 3), Y.reshape(12, 5)), {}),
    "label sets": (structboost.StructBoostMultiLabelClassifier, (X, SETS), {}),
}


def fit(face, text, **more):
    kind, data, of_fit = FACES[face]
    parameters = more | eval(f"dict({text})", {"Exponential": structboost.masters.Exponential})
    if "max_rounds" not in parameters:
        parameters.setdefault("max_iter", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two rounds are few
        return kind(**parameters).fit(*data, **of_fit)


def test_the_table_has_rows_for_each_estimator():
    assert {row[0] for row in ROWS} == {"any", *FACES}
    assert len(ROWS) > 20


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "before", "is_now", "write"), ROWS)
def test_parameters_of_0_2_are_treated_as_the_table_says(estimator, before, is_now, write):
    for face in [name for name in FACES if estimator in ("any", name)]:
        if is_now == "refused":
            named = re.match(r"objective=(?:['\"](\w+))?", write)[1] or ""
            with pytest.raises(ValueError, match=f"write objective='?{named}"):
                fit(face, before)
        elif is_now == "warned of":
            with pytest.warns(FutureWarning, match="max_iter"):
                fit(face, before)
        else:
            assert is_now == "likelihood"
            default = "pairwise" if face == "ranker" else "log_loss"
            assert fit(face, before).minimised_ == default
        fit(face, write, **({"C": 1.0} if "objective=" in write else {}))


def modules_now():
    rows = PAGE.split("### Modules")[1].split("###")[0].splitlines()
    cells = " ".join(row.split("|")[2] for row in rows if row.startswith("|"))
    return sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)", cells)))


@pytest.mark.parametrize("name", modules_now())
def test_modules_that_the_page_names_exist(name):
    pkgutil.resolve_name(f"structboost.{name.removeprefix('structboost.')}")


def test_the_page_lists_every_name_that_left_the_top_and_its_new_package():
    table = PAGE.split("### Names")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*) \| `structboost\.(\w+)` \|$", table, re.M)
    listed = {(home, name) for names, home in rows for name in re.findall(r"`(\w+)`", names)}
    homes = OLD_NAMES["structboost"].items()
    assert listed == {(home, name) for home, names in homes for name in names.split()}
