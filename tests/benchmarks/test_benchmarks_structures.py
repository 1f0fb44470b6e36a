"""The page of structures: rows of a unit, and the rivals."""

import numpy as np
import pytest

from benchmarks.papers import structures
from benchmarks.structures import chains, label_sets
from benchmarks.structures.rows import Row


def test_the_rows_of_a_unit_become_records_and_a_table():
    rows = [Row("a", "hamming", 0.25, {"C": 3.0}), Row("a", "subset", 0.5), Row("b", "subset", 0.7)]
    finished = [(None, {"rows": [row._asdict() for row in rows], "value": 0.7})]
    made = structures.records("yeast", finished)
    assert [(r["method"], r["metric"], r["value"]) for r in made] == [row[:3] for row in rows]
    lines = structures.show(made).splitlines()
    assert lines[0] == "yeast"
    assert lines[3].split() == ["a", "0.250", "0.500", "3.0", "-"]
    assert lines[4].split() == ["b", "-", "0.700", "-", "-"]


def test_two_stages_of_letters_weigh_pairs_as_they_were_counted():
    Y = [np.array([0, 1, 0, 1, 0, 1])] * 50
    pairs = chains.pair_scores(Y)
    assert pairs[0, 1] == pytest.approx(np.log(151 / 176))
    unsure = [np.zeros((4, chains.N_LETTERS))]
    unsure[0][0, 0] = 1.0
    assert chains.viterbi(unsure, pairs)[0].tolist() == [0, 1, 0, 1]
    assert chains.right([np.array([0, 1])], [np.array([0, 2])]) == 0.5


def test_losses_of_sets_and_cuts():
    true, found = np.array([[1, 1, 0], [0, 0, 0]]), np.array([[1, 0, 0], [0, 0, 0]])
    losses = [loss(true, found) for loss in label_sets.LOSSES.values()]
    assert losses == pytest.approx([1 / 6, 1 / 2, 1 - (2 / 3 + 1) / 2])
    answers = np.array([[0.4, -0.2, -3.0]])
    assert label_sets.decide_by_cut(answers, true, -0.5).tolist() == [[1, 1, 0]]
    assert label_sets.decide_seen(answers, np.array([[0, 0, 1], [1, 0, 0]]), 0.0).tolist() == [
        [1, 0, 0]
    ]
