"""Weak learners on the vectors of tokens, and trees whose scores linear functions combine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.learners.linear_function import LinearFunctionTable
from structboost.learners.registry import members_of
from structboost.learners.union import UNION, UnionTable
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.runtime.called_class import hint
from structboost.selection.folds import balanced_parts_of_groups, cross_fit
from structboost.validation import shown

# Folds, each of which is scored by trees that were grown on the others.
_FOLDS = 5


def members_on_vectors(weak_learner: Any) -> set[Any]:
    """Return the names of the weak learners on vectors, where these have others than names."""
    if not isinstance(weak_learner, Mapping) or "vector" not in weak_learner:
        return set()
    members = members_of(weak_learner["vector"])
    return {one if isinstance(one, str) else type(one) for one in members}


def check_kinds(
    weak_learner: Any, objective: Any, *, has_vectors: bool, is_linear: bool, is_svm: bool
) -> None:
    """Raise ValueError if weak learners of names and vectors cannot be trained.

    Parameters
    ----------
    weak_learner, objective : object
        Parameters of the tagger.
    has_vectors : bool
        Whether tokens have numbers beside names.
    is_linear, is_svm : bool
        Whether the likelihood or the hinge of one linear function is minimised.
    """
    kinds = set(weak_learner) if isinstance(weak_learner, Mapping) else set()
    names = ("token", "vector", "step")
    if others := sorted(kinds - set(names), key=str):
        raise ValueError(
            f"weak_learner is for the kinds {sorted(kinds, key=str)}; give a dict of 'token' "
            "and 'vector', the kind of all numbers, whatever their names in tokens.  About "
            f"{shown(others[0])}: {hint(str(others[0]), names)}"
        )
    members = members_on_vectors(weak_learner)
    if not members:
        return
    reason = f"weak_learner is {shown(weak_learner)}"
    if not has_vectors:
        raise ValueError(
            f"{reason}, and X has no numbers beside names of 0 and 1; name one weak learner."
        )
    if kinds != {"token", "vector"} or weak_learner["token"] not in ("linear", "stump"):
        raise ValueError(
            f"{reason}; give a dict of 'token', which is 'linear' or 'stump', and 'vector'."
        )
    if is_svm or (is_linear and not members <= {"linear", "tree"}):
        raise ValueError(
            f"{reason}, and objective={shown(objective)} has one linear function for each "
            "tag; give 'linear', 'tree' or ['linear', 'tree'] for 'vector' with "
            "objective='log_loss', or 'stump' for 'token'."
        )


def scores_of_others(
    fit: Callable[[Sequence[int]], Any],
    vectors: Sequence[FloatArray],
    groups: IntArray,
    n_tags: int,
    random_state: Any,
) -> list[FloatArray]:
    """Score the tags of each sequence by trees that were grown on sequences of other groups.

    Parameters
    ----------
    fit : callable
        ``fit(sequences)`` returns a tagger of vectors, trained on the sequences of these indices,
        whose tags are indices of tags.
    vectors : sequence of ndarray, shape (n_tokens, width)
    groups : ndarray of int, shape (n_sequences,)
    n_tags : int
    random_state : int, RandomState or None
        Seed for the folds.

    Raises
    ------
    ValueError
        If there is one group.
    """
    n_parts = min(_FOLDS, len(np.unique(groups)))
    if n_parts < 2:
        raise ValueError(
            "Trees on vectors need two sequences or more, of two groups, since each is scored by "
            "trees that were grown on others; give more, or write weak_learner='linear'."
        )
    parts = balanced_parts_of_groups(groups, n_parts, 0 if random_state is None else random_state)
    lengths = [len(vector) for vector in vectors]
    training = [(np.flatnonzero(parts != k).tolist(),) for k in range(n_parts)]
    stacked = np.concatenate(vectors)

    def predict(tagger: Any, inside: Any) -> FloatArray:
        return tree_scores(tagger, stacked[inside], n_tags)

    _, scores = cross_fit(np.repeat(parts, lengths), fit, training, predict)
    return np.split(scores, np.cumsum(lengths)[:-1])


def tree_scores(tagger: Any, vectors: FloatArray, n_tags: int) -> FloatArray:
    """Return the scores of tags by trees, 0 for tags that training did not have."""
    out = np.zeros((len(vectors), n_tags))
    if len(tagger.classes_) > 1:
        out[:, tagger.classes_.astype(np.int64)] = tagger.model_.scores(vectors, "token")
    return out


def with_trees(model: Ensemble, tagger: Any, n_columns: int) -> Ensemble:
    """Return a model whose trees replace their scores as features of its linear functions.

    Parameters
    ----------
    model : Ensemble
        Linear functions of the kind ``"vector"``, of the columns of vectors if they have these, and
        of the scores of trees.
    tagger : StructBoostTagger
        Tagger of vectors, whose tags are indices of tags.
    n_columns : int
        Number of columns of the vectors.
    """
    linear, n_tags = model.members["vector"], model.kinds["vector"].n_channels
    functions: Any = linear.learners
    trees = tagger.model_.members["token"]
    of_trees = tagger.model_.matrix("token")
    of_tags = np.zeros((len(of_trees), n_tags))
    of_tags[:, tagger.classes_.astype(np.int64)] = of_trees
    weights = of_tags @ functions.coefficients[:, -n_tags:].T
    tree, channel = np.nonzero(weights)
    n_linear = functions.coefficients.shape[1] - n_tags
    coefficients = np.zeros((n_tags, n_columns))
    centers, scales = np.zeros(n_columns), np.zeros(n_columns)
    coefficients[:, :n_linear] = functions.coefficients[:, :n_linear]
    centers[:n_linear], scales[:n_linear] = (
        functions.centers[:n_linear],
        functions.scales[:n_linear],
    )
    table = LinearFunctionTable(coefficients, functions.intercept, centers, scales)
    member = np.repeat(np.arange(2), [len(table), len(trees.learners)])
    vector = KindEnsemble(
        family=UNION.join((linear.family, trees.family)),
        learners=UnionTable(member, (table, trees.learners)),
        # Columns of linear functions have the weight 1.
        columns=np.concatenate((linear.columns, linear.columns[channel])),
        term_learners=np.concatenate((linear.term_learners, len(table) + tree)),
        channels=np.concatenate((linear.channels, channel)),
        coefficients=np.concatenate((linear.coefficients, weights[tree, channel])),
        n_features=n_columns,
    )
    return replace(model, members={**model.members, "vector": vector})
