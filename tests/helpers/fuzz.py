"""Public names called with values that nobody could mean.

``python -m tests.helpers.fuzz 2000 [seed] [word]`` makes so many calls, each with one bad argument
or parameter among good ones, and prints how many were refused clearly, and the others by kind: raw
errors, errors that do not name the argument, values that were taken, results that are NaN, hangs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import io
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import structboost
from structboost.conformance.checked_face import fault_of_error, shortened
from tests.helpers.faces import FACES, task_examples

PATIENCE = 60
# What a call with small arguments never needs.
_MEMORY = 8 * 2**30
# Methods of fitted faces, whose arguments are those of fit by position.
METHODS = (
    "fit predict predict_proba decision_function predict_costs predict_marginals transform score "
    "contributions staged_predict staged_decision_function fit_transform scores path save"
).split()


BUDGETS = ("max_rounds", "max_iter", "max_epochs")


class HangError(BaseException):
    """Error of a call that takes too long."""


# Values that no argument and no parameter can have.
HARD = {
    "object": lambda _: object(),
    "function": lambda _: len,
    "class": lambda _: dict,
    "module": lambda _: np,
    "bytes": lambda _: b"bytes",
    "dict of words": lambda _: {"no": "word"},
    "nan": lambda _: float("nan"),
    "complex": lambda _: 1 + 2j,
    "set": lambda _: {1.5, "a"},
    "list of objects": lambda _: [object(), object()],
    "NaT": lambda _: np.datetime64("NaT"),
    "object array": lambda _: np.array([object(), {}], object),
}
# Values that some arguments can have.
SOFT = {
    "None": lambda _: None,
    "inf": lambda _: float("inf"),
    "-inf": lambda _: -np.inf,
    "empty string": lambda _: "",
    "a word": lambda _: "no such word",
    "empty bytes": lambda _: b"",
    "-1": lambda _: -1,
    "0": lambda _: 0,
    "2.5": lambda _: 2.5,
    "1e300": lambda _: 1e300,
    "-1e300": lambda _: -1e300,
    "2**70": lambda _: 2**70,
    "-2**70": lambda _: -(2**70),
    "True": lambda _: True,
    "[]": lambda _: [],
    "{}": lambda _: {},
    "()": lambda _: (),
    "generator": lambda _: (i for i in range(3)),
    "range": lambda _: range(3),
    "nested list": lambda _: [[[]]],
    "list of None": lambda _: [None, None],
    "ragged list": lambda _: [[1.0], [1.0, 2.0]],
    "scalar array": lambda _: np.array(3.0),
    "empty array": lambda _: np.empty((0, 0)),
    "array of four dimensions": lambda _: np.zeros((2, 2, 2, 2)),
    "array of strings": lambda _: np.array(["a", "b"]),
    "array of NaN": lambda _: np.full((3, 3), np.nan),
    "array of dates": lambda _: np.array(["2020-01-01"], "datetime64[D]"),
    "structured array": lambda _: np.zeros(3, [("a", float)]),
    "numpy whole number": lambda _: np.int64(-3),
}


def arrays_like(value):
    """Change a valid array: its shape, type or one entry."""
    array = np.asarray(value)
    changed = {
        "one row less": array[:-1],
        "another dimension": array[None],
        "transposed": array.T,
        "complex": array.astype(complex) if array.dtype.kind in "biuf" else array,
        "strings": array.astype(str),
        "objects": array.astype(object),
        "no rows": array[:0],
        "negative": -array.astype(float) - 1 if array.dtype.kind in "biuf" else array,
        "huge": array.astype(float) * 1e300 + 1e300 if array.dtype.kind in "biuf" else array,
    }
    if array.size and array.dtype.kind in "biuf":
        for name, bad in (("nan", np.nan), ("inf", np.inf), ("half", 0.5), ("far", 1e9)):
            other = array.astype(float).copy()
            other.flat[-1] = bad
            changed[f"one entry {name}"] = other
        flat = array.astype(object).copy()
        flat.flat[0] = "word"
        changed["one entry a word"] = flat
    return {name: other for name, other in changed.items() if other is not array}


def bad_values(valid):
    """Name, whether nobody could mean it, and value of all bad values for a valid one."""
    may_be = ("function", "class") if callable(valid) else ()
    values = [(name, name not in may_be, make(valid)) for name, make in HARD.items()]
    values += [(name, False, make(valid)) for name, make in SOFT.items()]
    if isinstance(valid, np.ndarray):
        values += [(name, False, other) for name, other in arrays_like(valid).items()]
    elif isinstance(valid, list) and valid:
        for name, bad in (("None", None), ("a word", "word"), ("a number", 3.5), ("object", {})):
            is_hard = not (name == "a number" and isinstance(valid[-1], int | float))
            values.append((f"one entry {name}", is_hard, [*valid[:-1], bad]))
        values.append(("one entry less", False, valid[:-1]))
        if isinstance(valid[0], np.ndarray):
            for name, other in arrays_like(valid[-1]).items():
                values.append((f"last array {name}", False, [*valid[:-1], other]))
    return values


def functions():
    """Public functions and constructors with good arguments."""
    rng = np.random.default_rng(0)
    from structboost import (
        decisions,
        inference,
        learners,
        segmentation,
        selection,
        tagging,
        tasks,
        tracking,
    )
    from structboost.learners.lookup_table import LookupTable

    scores, square = rng.normal(size=(4, 3)), rng.normal(size=(4, 4))
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    pair_scores = np.abs(rng.normal(size=(3, 3, 3)))
    boxes = np.array([[1.0, 1.0, 4.0, 4.0], [2.0, 2.0, 5.0, 5.0]])
    image = rng.integers(0, 255, (16, 16, 3)).astype(np.uint8)
    mask = (image[:, :, 0] > 100).astype(np.uint8)
    arcs = np.array([[0, 1], [1, 2], [0, 2]])
    truth = np.array([1, 0, 1])
    features = [rng.normal(size=(5, 3))]
    history = [{"round": 1, "primal": 1.0, "bound": 0.5, "gap": 0.5, "certified": True}]
    tags = [["B-A", "O"]]
    trials = [{"C": 1.0, "weak_learner": "stump", "columns": 3, "loss": 0.5, "losses": [0.5]}]
    table = {
        (inference, "viterbi"): {"emissions": scores, "transitions": square[:3, :3]},
        (inference, "forward_backward"): {"emissions": scores, "transitions": square[:3, :3]},
        (inference, "semi_markov_viterbi"): {
            "spans": rng.normal(size=(4, 2, 3)),
            "transitions": square[:3, :3],
        },
        (inference, "alpha_expansion_labels"): {
            "node_energies": np.abs(scores),
            "edges": edges,
            "weights": np.ones(3),
        },
        (inference, "map_labels"): {
            "node_scores": scores,
            "edges": edges,
            "edge_scores": pair_scores,
        },
        (inference, "graph_marginals"): {
            "node_scores": scores,
            "edges": edges,
            "edge_scores": pair_scores,
        },
        (inference, "min_cut_labels"): {
            "node_energies": np.abs(scores[:, :2]),
            "edges": edges,
            "forward": np.ones(3),
            "backward": np.ones(3),
        },
        (inference, "maximum_closure"): {"scores": scores[:, 0], "edges": edges},
        (inference, "closure_marginals"): {"scores": scores[:, 0], "edges": edges},
        (inference, "maximum_spanning_arborescence"): {"scores": rng.normal(size=(4, 4))},
        (inference, "arborescence_marginals"): {"scores": rng.normal(size=(4, 4))},
        (inference, "dag_shortest_path"): {
            "costs": np.ones(3), "arcs": arcs, "source": 0, "target": 2,
        },
        (inference, "linear_assignment"): {"scores": square, "unmatched": False},
        (inference, "sparse_assignment"): {
            "scores": np.ones(3), "pairs": np.array([[0, 0], [1, 1], [2, 2]]), "shape": (3, 3),
        },
        (inference, "solve_knapsack"): {
            "values": np.ones(3), "weights": np.array([1, 2, 3]), "capacity": 3,
        },
        (inference, "traveling_salesman"): {"costs": np.ones((4, 4))},
        (inference, "most_violated_box"): {"true": 0, "boxes": boxes, "scores": np.ones(2)},
        (inference, "intersection_over_union"): {"box": boxes[0], "boxes": boxes},
        (inference, "candidate_boxes"): {
            "box": boxes[0], "radius": 2, "step": 1, "image_shape": (20, 20),
        },
        (inference, "most_violated_label_set"): {
            "scores": scores[0], "truth": truth, "loss": "f1",
        },
        (inference, "max_expected_f1"): {"probabilities": np.array([0.2, 0.5, 0.9])},
        (inference, "most_violated_ranking"): {
            "scores": scores[0], "gains": truth.astype(float), "measure": "ndcg", "k": 2,
        },
        (inference, "ranking_value"): {
            "scores": scores[0], "gains": truth.astype(float), "measure": "ndcg", "k": 2,
        },
        (inference, "violated_pairs"): {"scores": scores[0], "relevance": truth},
        (decisions, "AcyclicPath"): {"arcs": arcs, "source": 0, "target": 2},
        (decisions, "ShortestPath"): {"arcs": arcs, "source": 0, "target": 2},
        (decisions, "Assignment"): {"n_rows": 3, "n_columns": 3, "maximize": False},
        (decisions, "Choose"): {"n_items": 4, "k": 2, "maximize": False},
        (decisions, "GridPath"): {"n_rows": 3, "n_columns": 3},
        (decisions, "Knapsack"): {"weights": np.array([1.0, 2.0, 3.0]), "capacity": 3.0},
        (decisions, "LinearProgram"): {
            "A_ub": np.ones((1, 3)), "b_ub": np.ones(1), "bounds": (0.0, 1.0),
            "integrality": False, "maximize": False,
        },
        (decisions, "SolvedBy"): {"solve": np.sign, "maximize": False},
        (decisions, "MatroidBasis"): {"n_items": 3, "is_independent": all, "maximize": False},
        (decisions, "Tour"): {"n_nodes": 4},
        (structboost, "ChainTask"): {"n_tags": 3, "step_features": False, "forbidden": ()},
        (structboost.tasks, "CodedTask"): {"code": np.array([[1, -1], [-1, 1], [1, 1]])},
        (structboost, "EnumeratedTask"): {"outputs": (0, 1), "codes": np.eye(2)},
        (structboost, "GraphTask"): {
            "n_labels": 3, "edges": {"edge": ("node", "node")}, "pairs": "ordered",
        },
        (structboost, "HierarchicalMultiLabelTask"): {
            "n_labels": 3, "edges": [(0, 1), (1, 2)], "decay": 0.75,
        },
        (structboost, "MatchingTask"): {"unmatched": False},
        (structboost, "MultiLabelTask"): {"n_labels": 3, "loss": "hamming", "pairs": False},
        (structboost, "MulticlassTask"): {"n_classes": 3},
        (structboost, "PartKind"): {"n_channels": 2, "response": (-1.0, 1.0)},
        (structboost, "RankingTask"): {"loss": "pairs"},
        (structboost, "SegmentTask"): {"n_labels": 3, "max_length": 2, "loss": "tokens"},
        (structboost.tasks, "SuperpixelCRFTask"): {"n_labels": 2, "pairwise": True},
        (structboost, "TaxonomyTask"): {"taxonomy": [[0, 1], 2], "n_classes": 3},
        (decisions, "PredictThenOptimizeTask"): {"problem": decisions.Choose(3, 1)},
        # Arrays, since a list may hold whatever is an input or an output of a task.
        (structboost, "EarlyStopping"): {
            "X": np.ones((1, 2)), "Y": np.zeros(1, int), "n_iter_no_change": 3,
        },
        (structboost, "CPathDisplay"): {"path": trials, "C": 1.0},
        (structboost, "Checkpoint"): {"path": "never-made", "rounds": 5, "seconds": 60.0},
        (structboost, "ConvergenceDisplay"): {"history": history},
        (structboost, "SparsityPathDisplay"): {
            "n_learners": np.array([1, 2]), "errors": np.array([0.5, 0.4]),
        },
        (structboost, "load_model"): {"path": "never-made"},
        (tasks, "CandidatePairs"): {
            "n_left": 2, "n_right": 2, "pairs": np.array([[0, 0], [1, 1]]),
            "features": np.ones((2, 3)),
        },
        (tasks, "GraphInput"): {"nodes": np.ones((4, 2)), "edges": edges},
        (tasks, "labelled_stretches"): {
            "X": [np.ones((4, 2))], "Y": [np.array([0, -1, 1, 0])],
        },
        (learners, "active_features"): {"X": np.eye(3), "n_slots": 2},
        (learners, "StumpFamily"): {
            "features": features[0], "response": (-1.0, 1.0), "exact": False, "n_threads": 1,
            "directions": [1, 0, 0],
        },
        (learners, "FeatureFamily"): {
            "features": features[0], "response": (-1.0, 1.0), "groups": [0, 0, 1],
        },
        (learners, "TreeFamily"): {
            "features": features[0], "response": (-1.0, 1.0), "depth": 2, "confident": False,
            "directions": [1, 0, 0], "categorical": (), "random_state": 0,
        },
        (learners, "LinearFunctionFamily"): {"features": features[0], "response": (-1.0, 1.0)},
        (learners, "PiecewiseFamily"): {
            "features": features[0], "n_centers": 2, "quantiles": (0.2, 0.5), "random_state": 0,
        },
        (learners, "PatchFamily"): {
            "features": rng.random((5, 64)), "image_shape": (8, 8), "side": 3, "grid": 2,
            "overlap": 0, "n_candidates": 5, "random_state": 0,
        },
        (learners, "UnionFamily"): {"members": [learners.StumpFamily(features[0], (-1.0, 1.0))]},
        (segmentation, "confusion"): {"truth": mask, "predicted": mask, "n_labels": 2},
        (segmentation, "break_even"): {
            "truth": np.ones((3, 2), int), "margins": scores[0], "areas": np.ones(3),
        },
        (segmentation, "draw_segmentation"): {"image": image, "mask": mask, "n_labels": 2},
        (segmentation, "contact_sheet"): {
            "rows": [("one", image, {"ours": mask})], "n_labels": 2,
        },
        (segmentation, "make_synthetic_images"): {"n": 1, "random_state": 0},
        (segmentation, "read_mask"): {"path": "never-made.png"},
        (segmentation, "read_photograph"): {"path": "never-made.png"},
        (segmentation, "read_split"): {"path": "never-made.txt"},
        (segmentation, "read_folder"): {"images": "never-made", "masks": "never-made"},
        (segmentation, "SegmentationScores"): {"confusion": np.array([[3, 1], [1, 3]])},
        (segmentation, "LabelMap"): {"classes": (0, 1), "foreground": ()},
        (segmentation, "CRFSettings"): {"max_rounds": 5, "tol": 0.1, "linear_C": 0.3},
        (segmentation, "UnarySettings"): {"n_folds": 3, "group_rounds": 5},
        (segmentation, "StrokeSegmenter"): {"n_segments": 20, "longest": 64},
        (tracking, "StructBoostTracker"): {"C": 3.0, "n_stumps": 10, "random_state": 0},
        (tracking, "draw_box"): {"image": image, "box": boxes[0], "label": "a"},
        (tracking, "contact_sheet"): {
            "frames": [(0, image, {"ours": boxes[0]})], "columns": 2,
        },
        (tracking, "evaluate"): {"boxes": boxes, "truth": boxes},
        (tracking, "make_synthetic_clip"): {"n_frames": 2, "random_state": 0},
        (tracking, "write_boxes"): {"path": "fuzz.txt", "boxes": boxes},
        (tracking, "open_frames"): {"source": "never-made", "start": 0},
        (tracking, "read_boxes"): {"path": "never-made"},
        (tagging, "list_chunks"): {"tags": ["B-A", "O"]},
        (tagging, "convert_tags"): {"tags": tags, "to": "bioes", "scheme": "iob2"},
        (tagging, "detect_scheme"): {"y": tags},
        (tagging, "forbidden_pairs"): {"tags": ["B-A", "I-A", "O"], "scheme": "iob2"},
        (tagging, "chunk_scores"): {"y_true": tags, "y_pred": tags, "scheme": "iob2"},
        (tagging, "chunk_f1"): {"y_true": tags, "y_pred": tags, "average": "micro"},
        (tagging, "read_tagged"): {
            "path": "never-made", "encoding": "utf-8",
        },
        (tagging, "write_tagged"): {"path": "fuzz.txt", "X": [["a", "b"]], "separator": " "},
        (tagging, "ChunkScorer"): {"metric": "f1", "average": "micro", "scheme": "iob2"},
        (selection, "Fold"): {
            "X": np.ones((1, 2)), "Y": np.zeros(1, int), "sample_weight": None,
            "held_X": np.ones((1, 2)), "held_Y": np.zeros(1, int),
        },
        (structboost, "ShapeDisplay"): {
            "form": LookupTable.constant(np.zeros(2), 3), "feature_names": ("a", "b", "c"),
        },
        (tracking, "VideoWriter"): {"path": "never-made.mp4", "fps": 25.0},
    }  # fmt: skip
    for (package, name), good in table.items():
        yield f"{package.__name__}.{name}", getattr(package, name), good


def face_calls():
    """Methods of fitted faces, and their fits with each parameter."""
    from structboost.conformance.checked_face import Face

    faces = {name: (estimator, None, None, kind) for name, (estimator, kind) in FACES.items()}
    for name, (task, X, Y) in task_examples().items():
        trainer = structboost.StructBoost(task, C=5.0, tol=0.1, max_rounds=2)
        faces[f"StructBoost, {name}"] = trainer, X, Y, None
        trainer = structboost.StructuredSVM(task, C=5.0, tol=0.1, max_epochs=4)
        faces[f"StructuredSVM, {name}"] = trainer, X, Y, None
    for name, (estimator, X, y, kind) in faces.items():
        face = Face(estimator, X, y, kind)
        for method in METHODS:
            # Models of trees have no contributions, whatever the argument.
            if not hasattr(face.model(), method):
                continue
            if method != "contributions" or _is_called(*call_of_face(face, method)):
                yield name, face, method


def call_of_face(face, method):
    """Function, good arguments and the names of parameters that it takes."""
    examples = face.examples
    model = face.fresh() if method in ("fit", "fit_transform") else face.model()
    function = getattr(model, method)
    good = {}
    for name in inspect.signature(function).parameters:
        if name == "Cs":
            good[name] = [1.0, 5.0]
        elif name == "path":
            good[name] = str(Path(tempfile.gettempdir()) / "fuzz.model")
        elif name in ("X", "images", face.input_name):
            good[name] = examples.X
        elif name in ("y", "Y", "costs", face.output_name) and face.kind.reads_outputs:
            good[name] = examples.y
        elif name in examples.more:
            good[name] = examples.more[name]
        elif name == "sample_weight":
            good[name] = np.ones(len(examples.y))
        elif name == "groups":
            good[name] = np.arange(len(examples.y))
    return function, good


def _is_called(function, arguments):
    """Whether a call with good arguments returns."""
    try:
        function(**arguments)
    except TypeError:
        return False
    return True


def ends(result):
    """Take what an iterator gives."""
    return list(result) if isinstance(result, Iterator) else result


def has_nan(result):
    """Whether a result has a float that is NaN."""
    if isinstance(result, float | np.ndarray | np.floating):
        array = np.asarray(result)
        return array.dtype.kind == "f" and bool(np.isnan(array).any())
    if isinstance(result, list | tuple):
        return any(map(has_nan, result))
    return False


def outcome(function, arguments, name, is_hard):
    """How a call with a bad argument ends: "", or its kind and what was wrong."""

    def hang(*_):
        raise HangError

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(PATIENCE)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            result = ends(function(**arguments))
    except HangError:
        return "hang", f"longer than {PATIENCE} s"
    except Exception as error:
        # An error of a file may name its path.
        is_path = isinstance(arguments[name], str | int) or isinstance(error, OSError)
        if is_path and str(arguments[name]) in str(error):
            return "", ""
        # A shape may be wrong beside that of another argument.
        fault = fault_of_error(error, [name] if is_hard else list(arguments))
        kind = "argument not named" if fault and fault.startswith("error") else "raw error"
        return ("", "") if fault is None else (kind, fault)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if is_hard:
        return "was taken", f"gave {shortened(result)}"
    return ("NaN", f"gave {shortened(result)}") if has_nan(result) else ("", "taken")


def trials(seed, word=""):
    """Iterate without end over where, function, arguments, bad name, its value's name and kind."""
    choice = random.Random(seed)
    plain = [one for one in functions() if word in one[0]]
    faces = [(f"{name}.{method}", face, method) for name, face, method in face_calls()]
    faces = [one for one in faces if word in one[0]]
    while True:
        if plain and (not faces or choice.random() < 0.4):
            where, function, good = choice.choice(plain)
        elif choice.random() < 0.6:
            where, face, method = choice.choice(faces)
            function, good = call_of_face(face, method)
        else:
            name, face, _ = choice.choice(faces)
            where = f"{name.rpartition('.')[0]}(...).fit"
            good = face.estimator.get_params(deep=False)

            def function(face=face, **parameters):
                face.fit(face.fresh(**parameters), face.examples)

        if not good:
            continue
        name = choice.choice(list(good))
        what, is_hard, bad = choice.choice(bad_values(good[name]))
        if name in BUDGETS and what in ("2**70", "1e300"):
            continue  # as long as the user wants
        yield where, function, {**good, name: bad}, name, what, is_hard


def run(n, seed=0, word="", shown=None):
    """Make so many calls; counts of how they ended, and the faults by kind and place."""
    counts, faults = Counter(), defaultdict(dict)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # for what is saved
        for i, trial in zip(range(n), trials(seed, word), strict=False):
            where, function, arguments, name, what, is_hard = trial
            if shown is not None:
                shown(f"{i} {where} {name}={what}")
            kind, text = outcome(function, arguments, name, is_hard)
            counts[kind or text or "refused"] += 1
            if kind:
                faults[kind].setdefault((where, name), []).append(f"{what}: {text}")
    return counts, faults


def main(n, seed=0, word=""):
    """Make so many calls, print what came of them; the exit code is 1 if there is a fault."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    began = time.process_time()
    with (Path(tempfile.gettempdir()) / "structboost-fuzz.log").open(
        "w"
    ) as log:  # where it was when a call does not return

        def shown(text):
            log.write(f"{text}\n")
            log.flush()
            faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)

        counts, faults = run(n, seed, word, shown)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.write(f"{n} calls, seed {seed}, {time.process_time() - began:.0f} CPU s\n")
    for kind, count in counts.most_common():
        sys.stdout.write(f"  {kind}: {count}\n")
    for kind, places in faults.items():
        sys.stdout.write(f"\n## {kind}\n")
        for (where, name), texts in sorted(places.items()):
            more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
            sys.stdout.write(f"- {where}, {name}: {texts[0]}{more}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:] if one.lstrip("-").isdigit()]
    words = [one for one in sys.argv[1:] if not one.lstrip("-").isdigit()]
    sys.exit(main(*numbers, *([0] if len(numbers) < 2 else []), *words))
