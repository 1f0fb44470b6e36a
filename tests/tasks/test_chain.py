"""Chains of tags: Viterbi and forward-backward against all sequences of tags."""

from __future__ import annotations

import numpy as np

from structboost import ChainTask, check_task
from structboost.tasks.chain import labelled_stretches


def test_partly_labelled_sequences_are_cut_into_pieces():
    task = ChainTask(3, forbidden=[(None, 2), (0, 2)])
    x, y = np.arange(7.0)[:, None], np.array([-1, 2, 1, -1, -1, 0, 1])
    X, Y = labelled_stretches([x, x[:2]], [y, [0, 1]])
    assert [piece.x.ravel().tolist() for piece in X[:2]] == [[1, 2], [5, 6]]
    assert [piece.tolist() for piece in Y[:2]] == [[2, 1], [0, 1]]
    assert [(piece.begins, piece.ends) for piece in X[:2]] == [(False, False), (False, True)]
    assert X[2] is not None
    assert len(X) == 3
    # A piece may begin with a tag that no sequence begins with.
    assert task.is_valid(X[0], Y[0])
    assert not task.is_valid(x[1:3], Y[0])
    check_task(task, X, Y)
    steered, (tags,) = labelled_stretches([(x, x[1:])], [[0, -1, -1, -1, -1, -1, -1]])
    assert steered[0].x[1].shape == (0, 1)
    assert tags.tolist() == [0]
