"""Arguments of tasks that nobody could mean, and errors that name them."""

import numpy as np
import pytest

from structboost import (
    ChainTask,
    EnumeratedTask,
    GraphTask,
    MatchingTask,
    MultiLabelTask,
    PartKind,
    SegmentTask,
    StructBoost,
    StructuredSVM,
    inference,
)
from structboost.tasks import (
    CandidatePairs,
    CodedTask,
    GraphInput,
    MulticlassTask,
    SuperpixelCRFTask,
    labelled_stretches,
)

PAIRS, ROWS = np.array([[0, 0], [1, 1]]), np.ones((2, 3))
TOKENS = [np.ones((2, 1))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ChainTask(3, step_features=b"no"), "step_features is b'no'; give True or False"),
        (lambda: ChainTask(3, forbidden=object()), "forbidden is <object.*; give pairs of tags"),
        (lambda: ChainTask(3, forbidden=[object()]), "forbidden has <object.*; give pairs of tags"),
        (lambda: ChainTask(1e300), "n_tags is 1e.300; give a whole number"),
        (lambda: SegmentTask(2, 2, forbidden=np.array(3.0)), r"forbidden is array\(3"),
        (lambda: SegmentTask(2, 2, loss=np.ones(2)), "loss is array.*; choose one of"),
        (lambda: CodedTask(b""), "code is b''; give an array of numbers"),
        (lambda: CodedTask([[2**70, 1], [1, 1]]), "code"),
        (lambda: EnumeratedTask(len, np.eye(2)), "outputs is <built-in .*; give a list"),
        (lambda: EnumeratedTask({0, 1}, np.eye(2)), "outputs is .*; give a list"),
        (lambda: GraphTask(2, object()), "edges is <object.*; give a dict of kinds"),
        (lambda: GraphTask(2, {"edge": 3}), "edges of 'edge' join 3; give two of"),
        (lambda: GraphTask(2, exact="no"), "exact is 'no'; give True or False"),
        (lambda: MatchingTask(unmatched={}), "unmatched is {}; give True or False"),
        (lambda: MultiLabelTask(3, pairs=np.nan), "pairs is nan; give True or False"),
        (lambda: SuperpixelCRFTask(pairwise=1j), "pairwise is 1j; give True or False"),
        (lambda: PartKind(1, object()), "response is <object.*; give two finite numbers"),
        (lambda: PartKind(0.5), "n_channels is 0.5"),
        (lambda: CandidatePairs(len, 2, PAIRS, ROWS), "n_left is <built-in"),
        (lambda: CandidatePairs(2, 2**70, PAIRS, ROWS), "n_right is 1180591620717411303424"),
        (lambda: CandidatePairs(2, 2, PAIRS, [[1.0], [1.0, 2.0]]), "features is"),
        (lambda: GraphInput(dict, []), "nodes is <class 'dict'>; give an array of numbers"),
        (lambda: GraphInput(ROWS, {"edge": b"no"}), r"edges\['edge'\] is b'no'; give an array"),
        (lambda: labelled_stretches(None, [[0, 1]]), "X is None, not a sequence"),
        (lambda: labelled_stretches(TOKENS, np.array(3.0)), r"Y is array\(3.*, not a sequence"),
        (lambda: inference.candidate_boxes([1, 1, 2, 2], 2**70, 1, (9, 9)), "radius is"),
    ],
)
def test_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("trainer", [StructBoost, StructuredSVM])
def test_examples_and_paths_are_named(trainer):
    model = trainer(MulticlassTask(2), C=1.0)
    X, Y = np.eye(2), [0, 1]
    with pytest.raises(TypeError, match=r"X is array\(3.*, not a sequence"):
        model.fit(np.array(3.0), Y)
    for wrong in (dict, {"no": "word"}, np.array(3.0), {0, 1}):
        with pytest.raises(TypeError, match=r"Y is .*, not a sequence; give a list of outputs"):
            model.fit(X, wrong)
    for Cs in (dict, np.array(3.0), [None], [1.0, "word"], np.ones((2, 2)), range(3)):
        with pytest.raises((TypeError, ValueError), match="Cs"):
            list(model.path(X, Y, Cs))
    with pytest.raises(TypeError, match=r"C is array"):
        trainer(MulticlassTask(2), C=np.ones(2)).fit(X, Y)


def test_a_type_of_python_is_no_weak_learner():
    with pytest.raises(TypeError, match="weak_learner is <class 'dict'>; give a name"):
        StructBoost(MulticlassTask(2), C=1.0, weak_learner=dict).fit(np.eye(2), [0, 1])
