"""Groups of sequences are never cut where a part is held out."""

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import StructBoostTagger
from structboost.selection.folds import random_folds


def documents(n=60):
    """Sequences of which each document has its own word, whose tag is drawn for the document."""
    rng = default_rng(0)
    X, y, groups = [], [], []
    for i in range(n):
        document = i // 4
        tag = "AB"[default_rng(document).integers(2)]
        X.append([{"own": f"d{document}"}, {"word": f"w{rng.integers(9)}"}, {"w": "x"}])
        y.append([tag, "AB"[rng.integers(2)], "A"])
        groups.append(f"document {document}")
    return X, y, groups


@pytest.mark.parametrize("n", [24, 2600])
def test_no_group_is_on_both_sides_of_a_fold(n):
    groups = default_rng(0).integers(0, n // 4, n)
    weights = np.arange(n) % 5 > 0
    folds = random_folds(np.arange(n), np.arange(n), weights.astype(float), groups=groups)
    assert len(folds) == (5 if n < 2000 else 1)
    for fold in folds:
        assert not set(groups[fold.rows]) & set(groups[fold.held_rows])
        assert sorted([*fold.rows, *fold.held_rows]) == np.flatnonzero(weights).tolist()
    if len(folds) > 1:
        held = np.concatenate([fold.held_rows for fold in folds])
        assert sorted(held) == np.flatnonzero(weights).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("are_given", [True, False])
def test_documents_of_a_tagger_are_held_out_as_a_whole(are_given, monkeypatch):
    X, y, groups = documents(n=60 if are_given else 1000)
    if are_given:
        y[5][1] = None  # two pieces of one sequence
        groups = [*groups[:5], groups[5], *groups[5:]]
    else:
        groups = np.arange(1000) // 10  # neighbours are held out together by default
    folds = []

    def recorded(*examples, groups, **options):
        folds.extend(random_folds(*examples, groups=groups))
        return folds

    monkeypatch.setattr("structboost.faces.tagger.random_folds", recorded)
    StructBoostTagger().fit(X, y, groups=documents()[2] if are_given else None)
    for fold in folds:
        rows, held = ({groups[k] for k in part} for part in (fold.rows, fold.held_rows))
        assert held
        assert not rows & held


def test_early_stopping_holds_out_whole_groups(monkeypatch):
    X, y, groups = documents()
    held = []

    def hold_out(self, sequences, of_groups):
        held.append((*real(self, sequences, of_groups), of_groups))
        return held[-1][:2]

    real = StructBoostTagger._hold_out
    monkeypatch.setattr(StructBoostTagger, "_hold_out", hold_out)
    tagger = StructBoostTagger("hinge", C=20.0, max_iter=3, early_stopping=True)
    tagger.fit(X, y, groups=groups)
    ((train, out, of_groups),) = held
    assert len(train) + len(out) == len(X)
    assert not set(of_groups[train]) & set(of_groups[out])


@pytest.mark.parametrize(
    ("settings", "groups", "message"),
    [
        ({"C": 3.0}, [*range(60)], "groups is set, and nothing is held out"),
        ({}, [1, 2], r"groups has shape \(2,\); give one for each of 60"),
        ({}, [None, *range(59)], r"groups\[0\] is None"),
        ({}, [7] * 60, "groups has one group"),
        ({}, 3, "^groups (is|has) .*give"),
        ({}, [["a"], ["b", "c"]], r"^groups(\[0\])? (is|has) .*give"),
    ],
)
def test_groups_that_do_not_fit_are_named(settings, groups, message):
    X, y, _ = documents()
    with pytest.raises(ValueError, match=message):
        StructBoostTagger(**settings).fit(X, y, groups=groups)


@pytest.mark.parametrize("objective", ["log_loss", "svm"])
def test_c_is_chosen_on_runs_of_a_single_sequence_that_need_not_begin_as_it_does(objective):
    tags = (["B-x"] + ["I-x"] * 5 + ["O"]) * 7
    X = [[{"word": tag} for tag in tags]]
    model = StructBoostTagger(objective, scheme="iob2").fit(X, [[*tags[:-1], None]])
    assert len(model.C_path_) > 1
    assert model.predict(X) == [tags]
