"""Properties of single tasks beyond the searches by which all are compared."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from structboost import ChainTask, SpanningTreeTask, check_task
from structboost.contract.parts import StackedParts
from structboost.inference.boxes import boxes_around, overlaps
from structboost.tasks import SuperpixelCRFTask
from structboost.tasks.chain import labelled_stretches
from structboost.tasks.classes import BinaryTask, CodeTask
from structboost.tasks.superpixel_crf import SuperpixelGraph

corners = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 9), st.integers(1, 9))


def pixels(box):
    image = np.zeros((24, 24), bool)
    x, y, w, h = box
    image[y : y + h, x : x + w] = True
    return image


@settings(max_examples=60)
@given(corners, st.lists(corners, min_size=1, max_size=5))
def test_overlaps_of_boxes_equal_fractions_of_pixels(box, others):
    counted = [(pixels(box) & pixels(o)).sum() / (pixels(box) | pixels(o)).sum() for o in others]
    assert_allclose(overlaps(np.array(box, float), np.array(others, float)), counted)


@settings(max_examples=60)
@given(st.integers(0, 9999))
def test_a_box_overlaps_itself_wholly_however_its_corners_round(seed):
    boxes = default_rng(seed).uniform(0.1, 50.0, size=(6, 4))
    for k, box in enumerate(boxes):
        shares = overlaps(box, boxes)
        assert shares[k] == 1.0
        assert (np.delete(shares, k) < 1.0).all()


def test_candidate_boxes_fill_a_disc_within_the_image():
    box = np.array([40.0, 30.0, 10.0, 20.0])
    found = boxes_around(box, 6.0, 2.0, (100, 120))
    assert_array_equal(found[0], box)
    centers = found[:, :2] + found[:, 2:] / 2
    assert (np.hypot(*(centers - [45.0, 40.0]).T) <= 6.0 + 1e-9).all()
    assert len(found) == 29
    assert len(np.unique(found, axis=0)) == len(found)
    assert_array_equal(np.unique(found[:, 2]), [10.0])
    edge = boxes_around(np.array([0.0, 0.0, 4.0, 4.0]), 5.0, 1.0, (50, 50))
    assert_array_equal((edge[:, :2] + 2.0).min(axis=0), [0.0, 0.0])
    corner = boxes_around(np.array([46.0, 46.0, 4.0, 4.0]), 5.0, 1.0, (50, 50))
    assert_array_equal((corner[:, :2] + 2.0).max(axis=0), [49.0, 49.0])


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
    paired, (tags,) = labelled_stretches([(x, x)], [[0, -1, -1, -1, -1, -1, -1]])
    assert paired[0].x[1].shape == (1, 1)
    assert tags.tolist() == [0]


def test_marginals_of_trees_keep_their_digits_where_cycles_score_high():
    task = SpanningTreeTask()
    n = 30
    many = task.marginals(np.zeros((n, n, 1)), 50 * default_rng(0).normal(size=(n**2, 1)))
    assert many.reshape(n, n).sum(axis=0)[1:] == pytest.approx(1.0)
    assert many.reshape(n, n).sum(axis=0)[0] == 0.0


def test_large_trees_score_as_those_of_networkx():
    rng = default_rng(0)
    task = SpanningTreeTask()
    for n in (20, 40):
        # Near pairs of nodes attract each other: circles within circles.
        near = np.exp(-np.abs(np.subtract.outer(np.arange(n), rng.permutation(n))))
        scores = 2 * near + 0.5 * rng.random((n, n))
        graph = networkx.DiGraph()
        pairs = [(h, d) for h in range(n) for d in range(1, n) if h != d]
        graph.add_weighted_edges_from((h, d, scores[h, d]) for h, d in pairs)
        best = networkx.maximum_spanning_arborescence(graph)
        heads = task.argmax(np.zeros((n, n, 1)), scores.reshape(-1, 1))
        assert scores[heads[1:], np.arange(1, n)].sum() == pytest.approx(best.size("weight"))


def test_void_superpixels_leave_with_their_edges_and_three_labels_are_not_exact():
    x = SuperpixelGraph(
        np.zeros((4, 2, 1)), np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), np.arange(4.0)[:, None]
    )
    left = x.restricted(np.array([True, False, True, True]))
    assert left.n_superpixels == 3
    tasks = [SuperpixelCRFTask(2), SuperpixelCRFTask(3), SuperpixelCRFTask(3, pairwise=False)]
    assert [task.exact_argmax for task in tasks] == [True, False, True]
    assert_array_equal(left.edges, [[1, 2], [0, 2]])
    assert_array_equal(left.edge_potentials[:, 0], [2.0, 3.0])


CODES = {
    "a channel per class": np.eye(4),
    "one channel, two signs": [[1], [-1]],
    "one channel each, some shared": [[1, 0], [-1, 0], [0, 1], [1, 0]],
    "none, one and many": [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, -1, 1]],
    "dense": [[1, -1, 1], [1, 1, -1], [-1, 1, 1]],
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_differences_are_the_code_of_the_class_less_that_of_its_rival(code):
    code = np.array(code, np.int8)
    rng = default_rng(0)
    losses = rng.integers(1, 3, (len(code), len(code))) * (1.0 - np.eye(len(code)))
    task = CodeTask(code, losses)
    # Few values, so that there are ties.
    scores = rng.integers(-2, 3, (300, code.shape[1])).astype(float)
    Y = rng.integers(len(code), size=300)
    found = task.separate([], Y, StackedParts({"x": scores}, {"x": np.arange(301)}))

    by_class = scores @ code.T + losses[Y]
    best = by_class.max(axis=1)
    is_best = by_class == best[:, None]
    others = is_best & (np.arange(len(code)) != Y[:, None])
    # A tie with the truth goes to the first other class.
    rivals = np.where(others.any(axis=1), others.argmax(axis=1), Y)
    assert_array_equal(found.losses, losses[Y, rivals])
    dense = np.zeros(scores.shape)
    rows, channels, values = found.differences["x"]
    np.add.at(dense, (rows, channels), values)
    assert_array_equal(dense, code[Y].astype(float) - code[rivals])
    # In order, each once, none of them zero.
    assert (np.diff(rows * code.shape[1] + channels) > 0).all()
    assert values.all()
    assert_array_equal(np.bincount(rows, minlength=300), np.diff(found.indptr["x"]))
    assert (others.any(axis=1) & is_best[np.arange(300), Y]).any()


@pytest.mark.parametrize("y", [-1, 1])
def test_a_tie_of_two_labels_goes_to_the_wrong_one_in_training(y):
    assert BinaryTask().argmax(None, np.array([[float(y)]]), y) == -y
    assert BinaryTask().argmax(None, np.zeros((1, 1))) == 1
