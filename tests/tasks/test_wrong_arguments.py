"""Arguments of tasks that nobody could mean, and errors that name them."""

import numpy as np
import pytest

from structboost import (
    ChainTask,
    EnumeratedTask,
    GraphTask,
    HierarchicalMultiLabelTask,
    MatchingTask,
    MultiLabelTask,
    RankingTask,
    SegmentTask,
    SpanningTreeTask,
    StructBoost,
    TaxonomyTask,
)
from structboost.errors import TaskError
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

PAIRS, ROWS = np.array([[0, 0], [1, 1]]), np.ones((2, 3))
TOKENS, NODES = [np.ones((2, 1))], np.zeros((3, 1))
POTENTIALS = np.zeros((2, 2, 1))
HIERARCHY, SETS = HierarchicalMultiLabelTask, MultiLabelTask


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (ChainTask, dict(n_tags=3, vectors=b"no"), "vectors is b'no'"),
        (ChainTask, dict(n_tags=3, forbidden=object()), "forbidden is <object.*; give pairs"),
        (ChainTask, dict(n_tags=3, forbidden=[object()]), "forbidden is .*<object.*; give pairs"),
        (ChainTask, dict(n_tags=2, forbidden=[(0, 2)]), r"forbidden has \(0, 2\)"),
        (ChainTask, dict(n_tags=2, forbidden=[(None, None)]), r"forbidden has \(None, None\)"),
        (ChainTask, dict(n_tags=1e300), "n_tags is 1e.300; give a whole number"),
        (SegmentTask, dict(n_labels=0, max_length=2), "n_labels is 0"),
        (SegmentTask, dict(n_labels=2, max_length=1.5), "max_length is 1.5"),
        (SegmentTask, dict(n_labels=2, max_length=2, forbidden=[(0, 2)]), "forbidden has"),
        (CodedTask, dict(code=b""), "code has type"),
        (TaxonomyTask, dict(taxonomy={"all": [0]}), "n_classes is 1"),
        (EnumeratedTask, dict(outputs=["a"], codes=[[1]]), "outputs is \\['a'\\]; list at"),
        (EnumeratedTask, dict(outputs=["a", "a"], codes=[[1], [0]]), "each once"),
        (EnumeratedTask, dict(outputs=[[1], [2]], codes=[[1], [0]]), "unhashable"),
        (EnumeratedTask, dict(outputs="ab", codes=np.eye(2)), "outputs is 'ab'"),
        (EnumeratedTask, dict(outputs=[0, 1], codes=[[1, 0]]), "codes has shape"),
        (EnumeratedTask, dict(outputs=[0, 1], codes=[[300], [1]]), "codes has other"),
        (EnumeratedTask, dict(outputs=[0, 1], codes=[[0], [1]], losses=[[0, 1]]), "losses has sh"),
        (EnumeratedTask, dict(outputs=[0, 1], codes=[[0], [1]], losses=-PAIRS), r"losses\[1, "),
        (EnumeratedTask, dict(outputs=[0, 1], codes=[[0], [1]], losses=np.eye(2)), "losses must"),
        (GraphTask, dict(n_labels=1), "n_labels is 1"),
        (GraphTask, dict(n_labels=2, edges=["a", "node"]), "edges is .*; give different names"),
        (GraphTask, dict(n_labels=2, pairs="both"), "pairs is 'both'"),
        (GraphTask, dict(n_labels=2, exact="no"), "exact is 'no'"),
        (MatchingTask, dict(unmatched={}), "unmatched is {}"),
        (SETS, dict(n_labels=1), "n_labels is 1"),
        (SETS, dict(n_labels=3, loss="auc"), "loss is 'auc'"),
        (SETS, dict(n_labels=3, pairs=np.nan), "pairs is nan"),
        (SETS, dict(n_labels=11, pairs=True), "at most 10 labels"),
        (SETS, dict(n_labels=2, sets=[[0, 2]]), "sets has entries"),
        (SETS, dict(n_labels=2, sets=[[0, 1, 1]]), "sets has shape"),
        (SETS, dict(n_labels=3, loss="f1", costs=[1, 1, 1]), "costs goes with loss='hamming'"),
        (SETS, dict(n_labels=3, costs=[1, 1]), "costs has shape"),
        (SETS, dict(n_labels=3, costs=[1, -1, 1]), r"costs\[1\] is"),
        (SETS, dict(n_labels=3, costs=[0, 0, 0]), "costs are all 0"),
        (HIERARCHY, dict(n_labels=3, edges=[[0, 3]]), r"edges\[0, 1\] is 3"),
        (HIERARCHY, dict(n_labels=3, edges=[[0, 1], [1, 2], [2, 1]]), "cycle at label 1"),
        (SuperpixelCRFTask, dict(n_labels=1), "n_labels is 1"),
        *((RankingTask, dict(loss=loss), "loss is") for loss in (
            "auc", "map@3", "precision@0", None
        )),
        (CandidatePairs, dict(n_left=len, n_right=2, pairs=PAIRS, features=ROWS), "n_left is"),
        (CandidatePairs, dict(n_left=2, n_right=2**70, pairs=PAIRS, features=ROWS), "n_right is"),
        (CandidatePairs, dict(n_left=2, n_right=2, pairs=PAIRS, features=ROWS[1:]), "features has"),
        (CandidatePairs, dict(n_left=2, n_right=1, pairs=PAIRS, features=ROWS), r"pairs\[1\] is"),
        (CandidatePairs, dict(n_left=2, n_right=2, pairs=0 * PAIRS, features=ROWS), "a pair twice"),
        # What np.nonzero returns is not turned around in silence.
        (CandidatePairs, dict(n_left=2, n_right=2, pairs=np.eye(2, 3) > 0, features=ROWS), "pa"),
        (BoxTable, dict(boxes=np.ones((2, 4)), table=np.ones((3, 1))), "rows of features"),
        (TrueLabels, dict(labels=np.zeros(2, int), areas=np.array([1.0, np.nan])), r"areas\[1\]"),
        (SuperpixelGraph, dict(
            potentials=POTENTIALS, edges=PAIRS[1:], edge_potentials=NODES
        ), "different nodes"),
        (SuperpixelGraph, dict(
            potentials=POTENTIALS, edges=np.array([[0, 1]]), edge_potentials=NODES
        ), "for 1 edges"),
        (SuperpixelGraph, dict(
            potentials=POTENTIALS[:0], edges=PAIRS, edge_potentials=NODES
        ), "n_superpixels"),
        (labelled_stretches, dict(X=None, Y=[[0, 1]]), "X is None, not a sequence"),
        (labelled_stretches, dict(X=TOKENS, Y=np.array(3.0)), r"Y is array\(3.*, not a sequence"),
        (labelled_stretches, dict(X=TOKENS, Y=[[0, np.nan]]), r"Y\[0\] is .*, -1 where a tag"),
        (labelled_stretches, dict(X=TOKENS, Y=[[0, 1, 1]]), r"Y\[0\] has 3 entries; give 2"),
    ],
)  # fmt: skip
def test_arguments_are_named(make, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**arguments)


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
    with pytest.raises(TaskError, match=message):
        task.parts(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ChainTask(3, forbidden=[(1, 0)]).joint_feature(None, [1, 0]), "are forbidden"),
        (lambda: ChainTask(3).joint_feature(None, [-1, 0]), "Take labelled_stretches"),
        (lambda: impossible(ChainTask(1, forbidden=[(0, 0)]), NODES), r"of 3 tags is .* X\[0\]"),
        (lambda: impossible(SegmentTask(1, 1, forbidden=[(0, 0)]), NODES), "3 tokens .* allowed"),
        (lambda: SegmentTask(2, 3, forbidden=[(1, 1)]).joint_feature(
            None, [[0, 2, 1], [2, 4, 1]]), "forbidden neighbours"),
        (lambda: SegmentTask(2, 2).joint_feature(None, [[0, 3, 1]]), "max_length=2"),
        (lambda: SegmentTask(2, 2).loss([[0, 1, 1]], [[0, 2, 1]]), "different length"),
        (lambda: GraphTask(2).loss([0, 1, 0], [0]), "An output has 1"),
        (lambda: MatchingTask().loss([0, 1], [0]), "A matching has 1 entries; give 2"),
        (lambda: SuperpixelCRFTask().loss([0, 0], [0]), "One output has 2 labels, the other 1"),
        (lambda: SpanningTreeTask().loss([-1, 0], [-1]), "A tree has 1"),
        (lambda: StructBoost(SuperpixelCRFTask(), C=1.0).fit(
            [SuperpixelGraph(POTENTIALS[:1], np.zeros((0, 2)), np.zeros((0, 1)))], [[1]]),
         "pairwise=False"),
        (lambda: RankingTask("map").argmax(None, NODES, [0, 1, 2]), "has 3 levels; loss='map' ta"),
        (lambda: RankingTask("ndcg@5").argmax(None, np.zeros((3001, 1)), np.arange(3001)),
         "has 3001 items; loss='ndcg@5' takes at most 3000"),
        (lambda: RankingTask().argmax(None, NODES, WeightedRelevance([0, 1, 0], np.ones(2))),
         "2 weights for 3 items"),
        (lambda: RankingTask("map").argmax(
            None, NODES, WeightedRelevance([0, 1, 0], np.arange(3.0))), "weighs queries only"),
        (lambda: RankingTask().loss([0, 1], np.zeros(3)), "2 entries for 3 items"),
        (lambda: TaxonomyTask({"l": [0, 1]}).codes([0, 5]), r"Y\[1\] is 5"),
        (lambda: HIERARCHY(13, [[0, 2], [1, 2]]).marginals(None, np.zeros((1, 13))),
         r"Label 2 has several parents.*objective='hinge'"),
    ],
)  # fmt: skip
def test_what_a_task_cannot_do_is_named(call, message):
    with pytest.raises(TaskError, match=message):
        call()


def impossible(task, x):
    """Search where nothing is allowed."""
    parts = task.parts(x)
    scores = {kind: np.zeros((len(p), task.kinds[kind].n_channels)) for kind, p in parts.items()}
    task.argmax(x, scores)
