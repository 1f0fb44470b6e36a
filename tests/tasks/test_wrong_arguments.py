"""Arguments of tasks that nobody could mean, and errors that name them."""

import numpy as np
import pytest

from structboost import (
    ChainTask,
    EnumeratedTask,
    GraphTask,
    HierarchicalMultiLabelTask,
    MatchingTask,
    MulticlassTask,
    MultiLabelTask,
    RankingTask,
    SegmentTask,
    SpanningTreeTask,
    StructBoost,
    TaxonomyTask,
)
from structboost.tasks import (
    BoxTable,
    CandidatePairs,
    CodedTask,
    GraphInput,
    SuperpixelCRFTask,
    labelled_stretches,
)
from structboost.tasks.ranking import WeightedRelevance
from structboost.tasks.superpixel_crf import SuperpixelGraph, TrueLabels
from tests.helpers.refusals import refused

PAIRS, ROWS = np.array([[0, 0], [1, 1]]), np.ones((2, 3))
TOKENS, NODES = [np.ones((2, 1))], np.zeros((3, 1))
POTENTIALS = np.zeros((2, 2, 1))
HIERARCHY, SETS = HierarchicalMultiLabelTask, MultiLabelTask


def test_arguments_of_sequences_are_named():
    refused("vectors is b'no'", ChainTask, 3, vectors=b"no")
    refused("forbidden is <object.*; give pairs", ChainTask, 3, forbidden=object())
    refused("forbidden is .*<object.*; give pairs", ChainTask, 3, forbidden=[object()])
    refused(r"forbidden has \(0, 2\)", ChainTask, 2, forbidden=[(0, 2)])
    refused(r"forbidden has \(None, None\)", ChainTask, 2, forbidden=[(None, None)])
    refused("n_tags is 1e.300; give a whole number", ChainTask, 1e300)
    refused("n_labels is 0", SegmentTask, 0, 2)
    refused("max_length is 1.5", SegmentTask, 2, 1.5)
    refused("forbidden has", SegmentTask, 2, 2, forbidden=[(0, 2)])
    refused("X is None, not a sequence", labelled_stretches, None, [[0, 1]])
    refused(r"Y is array\(3.*, not a sequence", labelled_stretches, TOKENS, np.array(3.0))
    refused(r"Y\[0\] is .*, -1 where a tag", labelled_stretches, TOKENS, [[0, np.nan]])
    refused(r"Y\[0\] has 3 entries; give 2", labelled_stretches, TOKENS, [[0, 1, 1]])


def test_arguments_of_classes_are_named():
    refused("code has type", CodedTask, b"")
    refused("n_classes is 1", TaxonomyTask, {"all": [0]})
    refused("outputs is \\['a'\\]; list at", EnumeratedTask, ["a"], [[1]])
    refused("each once", EnumeratedTask, ["a", "a"], [[1], [0]])
    refused("unhashable", EnumeratedTask, [[1], [2]], [[1], [0]])
    refused("outputs is 'ab'", EnumeratedTask, "ab", np.eye(2))
    refused("codes has shape", EnumeratedTask, [0, 1], [[1, 0]])
    refused("codes has other", EnumeratedTask, [0, 1], [[300], [1]])
    refused("losses has sh", EnumeratedTask, [0, 1], [[0], [1]], [[0, 1]])
    refused(r"losses\[1, ", EnumeratedTask, [0, 1], [[0], [1]], -PAIRS)
    refused("losses must", EnumeratedTask, [0, 1], [[0], [1]], np.eye(2))


def test_arguments_of_graphs_are_named():
    refused("n_labels is 1", GraphTask, 1)
    refused("edges is .*; give different names", GraphTask, 2, ["a", "node"])
    refused("pairs is 'both'", GraphTask, 2, pairs="both")
    refused("exact is 'no'", GraphTask, 2, exact="no")
    refused("n_labels is 1", SuperpixelCRFTask, 1)
    refused(r"areas\[1\]", TrueLabels, np.zeros(2, int), np.array([1.0, np.nan]))
    refused("different nodes", SuperpixelGraph, POTENTIALS, PAIRS[1:], NODES)
    refused("for 1 edges", SuperpixelGraph, POTENTIALS, np.array([[0, 1]]), NODES)
    refused("n_superpixels", SuperpixelGraph, POTENTIALS[:0], PAIRS, NODES)


def test_arguments_of_matchings_and_orders_are_named():
    refused("unmatched is {}", MatchingTask, unmatched={})
    for loss in ("map@3", "precision@3", "capped_recall@0", None):
        refused("loss is", RankingTask, loss)
    refused("n_left is", CandidatePairs, len, 2, PAIRS, ROWS)
    refused("n_right is", CandidatePairs, 2, 2**70, PAIRS, ROWS)
    refused("features has", CandidatePairs, 2, 2, PAIRS, ROWS[1:])
    refused(r"pairs\[1\] is", CandidatePairs, 2, 1, PAIRS, ROWS)
    refused("a pair twice", CandidatePairs, 2, 2, 0 * PAIRS, ROWS)
    # What np.nonzero returns is not turned around in silence.
    refused("pa", CandidatePairs, 2, 2, np.eye(2, 3) > 0, ROWS)
    refused("rows of features", BoxTable, np.ones((2, 4)), np.ones((3, 1)))


def test_arguments_of_label_sets_are_named():
    refused("n_labels is 1", SETS, 1)
    refused("loss is 'auc'", SETS, 3, loss="auc")
    refused("pairs is nan", SETS, 3, pairs=np.nan)
    refused("at most 10 labels", SETS, 11, pairs=True)
    refused("sets has entries", SETS, 2, sets=[[0, 2]])
    refused("sets has shape", SETS, 2, sets=[[0, 1, 1]])
    refused("costs goes with loss='hamming'", SETS, 3, loss="f1", costs=[1, 1, 1])
    refused("costs has shape", SETS, 3, costs=[1, 1])
    refused(r"costs\[1\] is", SETS, 3, costs=[1, -1, 1])
    refused("costs are all 0", SETS, 3, costs=[0, 0, 0])
    refused(r"edges\[0, 1\] is 3", HIERARCHY, 3, [[0, 3]])
    refused("cycle at label 1", HIERARCHY, 3, [[0, 1], [1, 2], [2, 1]])


@pytest.mark.parametrize(
    ("task", "x", "message"),
    [
        (ChainTask(2), (NODES, NODES[1:]), "An input is a tuple; .* vectors is False"),
        (ChainTask(2, vectors=True), NODES, "a pair of tokens and vectors"),
        (ChainTask(2, vectors=True), (NODES, NODES[1:]), "a vector for each token"),
        (GraphTask(2), GraphInput(dict, []), r"is <class 'dict'>; give nodes \(n, n_features\)"),
        (GraphTask(2), GraphInput(NODES, None), "edges of kind 'edge' has type object"),
        (GraphTask(2), GraphInput(NODES, [[0, 3]]), r"kind 'edge'\[0, 1\] is 3"),
        (GraphTask(2), GraphInput(NODES, [[1, 1]]), "two different nodes"),
        (GraphTask(2), GraphInput(NODES, [[0, 1, 0], [1, 2, 2]]), r"shape \(2, 3\); give \("),
        (GraphTask(2), GraphInput(NODES, [[0, 1]], NODES), "features of 3"),
        (MatchingTask(), CandidatePairs(2, 2, PAIRS, ROWS), "unmatched=True"),
        (MatchingTask(), ROWS, r"shape \(2, 3\)"),
        (SpanningTreeTask(), np.zeros((2, 3, 1)), r"shape \(2, 3, 1\)"),
        (SuperpixelCRFTask(3), SuperpixelGraph(POTENTIALS, PAIRS[:0], NODES[:0]), "the task has 3"),
    ],
)
def test_inputs_of_a_task_are_named(task, x, message):
    refused(message, task.parts, x)


def test_what_a_task_cannot_do_is_named():
    refused("vectors of real numbers", MulticlassTask(2).stack, np.array([["1"]]))
    refused("are forbidden", ChainTask(3, forbidden=[(1, 0)]).joint_feature, None, [1, 0])
    refused("Take labelled_stretches", ChainTask(3).joint_feature, None, [-1, 0])
    refused(r"of 3 tags is .* X\[0\]", impossible, ChainTask(1, forbidden=[(0, 0)]), NODES)
    refused("3 tokens .* allowed", impossible, SegmentTask(1, 1, forbidden=[(0, 0)]), NODES)
    refused(
        "forbidden neighbours",
        SegmentTask(2, 3, forbidden=[(1, 1)]).joint_feature,
        None,
        [[0, 2, 1], [2, 4, 1]],
    )
    refused("max_length=2", SegmentTask(2, 2).joint_feature, None, [[0, 3, 1]])
    refused("different length", SegmentTask(2, 2).loss, [[0, 1, 1]], [[0, 2, 1]])
    refused("An output has 1", GraphTask(2).loss, [0, 1, 0], [0])
    refused("A matching has 1 entries; give 2", MatchingTask().loss, [0, 1], [0])
    refused("One output has 2 labels, the other 1", SuperpixelCRFTask().loss, [0, 0], [0])
    refused("A tree has 1", SpanningTreeTask().loss, [-1, 0], [-1])
    refused(
        "pairwise=False",
        StructBoost(SuperpixelCRFTask(), C=1.0).fit,
        [SuperpixelGraph(POTENTIALS[:1], np.zeros((0, 2)), np.zeros((0, 1)))],
        [[1]],
    )
    refused("has 3 levels; loss='map' ta", RankingTask("map").argmax, None, NODES, [0, 1, 2])
    refused(
        "has 3001 items; loss='ndcg@5' takes at most 3000",
        RankingTask("ndcg@5").argmax,
        None,
        np.zeros((3001, 1)),
        np.arange(3001),
    )
    refused(
        "2 weights for 3 items",
        RankingTask().argmax,
        None,
        NODES,
        WeightedRelevance([0, 1, 0], np.ones(2)),
    )
    refused(
        "weighs queries only",
        RankingTask("map").argmax,
        None,
        NODES,
        WeightedRelevance([0, 1, 0], np.arange(3.0)),
    )
    refused("2 entries for 3 items", RankingTask().loss, [0, 1], np.zeros(3))
    refused(r"Y\[1\] is 5", TaxonomyTask({"l": [0, 1]}).codes, [0, 5])
    refused(
        r"Label 2 has several parents.*objective='hinge'",
        HIERARCHY(13, [[0, 2], [1, 2]]).marginals,
        None,
        np.zeros((1, 13)),
    )


def impossible(task, x):
    """Search where nothing is allowed."""
    parts = task.parts(x)
    scores = {kind: np.zeros((len(p), task.kinds[kind].n_channels)) for kind, p in parts.items()}
    task.argmax(x, scores)
