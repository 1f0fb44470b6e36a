"""Trained model of weak learners and weights of their columns, its file, and its predictions.

A model file is a JSON header and plain arrays, versioned and checked; loading never runs code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, Examples, Facts, FloatArray, IntArray, PathName
from structboost.contract.calls import marginals, predictions, stacked_inputs
from structboost.contract.parts import Kinds, PartKind, StackedParts
from structboost.contract.task import Task
from structboost.errors import TaskError, warn_user
from structboost.files.archive import (
    ArchiveFormat,
    Array,
    Arrays,
    DamagedFileError,
    Header,
    Part,
    Schema,
    below,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.learners import registry
from structboost.learners.contributions import Contributions, contributions_of
from structboost.learners.table import LearnerTable, LookupTable, Scorer, sparse_scores
from structboost.learners.tree_table import PairTables, WeightedTrees
from structboost.validation import by_position


@dataclass(frozen=True)
class KindEnsemble:
    """Weak learners of one kind of part, and the terms of their columns.

    Parameters
    ----------
    family : str
        Name of the weak-learner family.
    learners : LearnerTable
    columns, term_learners, channels : ndarray of int64, shape (n_terms,)
        Term t puts learner ``term_learners[t]`` on channel ``channels[t]`` in column
        ``columns[t]``.
    coefficients : ndarray of float64, shape (n_terms,)
    n_features : int
        Number of features of a part.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "columns": Array("int64", ("n_terms",), low=0, high="n_columns - 1"),
        "term_learners": Array("int64", ("n_terms",), low=0, high="n_learners - 1"),
        "channels": Array("int64", ("n_terms",), low=0, high="n_channels - 1"),
        "coefficients": Array("float64", ("n_terms",)),
    }

    family: str
    learners: LearnerTable
    columns: IntArray
    term_learners: IntArray
    channels: IntArray
    coefficients: FloatArray
    n_features: int


# Most weights of features in memory together: 128 megabytes.
_MOST_SHARES = 1 << 24
# Rows that a thread takes at a time; fewer are not worth a second one.
_ROWS_OF_THREAD = 1 << 13


@dataclass(frozen=True, repr=False)
class Ensemble:
    """Model ``F(x, y) = <M(x, y), Phi(x) W>``, which every trainer returns.

    The first call of :meth:`scores` builds the form that predicts fastest, look-up tables for
    stumps, and later calls use it (docs/decisions.md).

    Parameters
    ----------
    kinds : dict of str to PartKind
        Kinds of parts of the task.
    members : dict of str to KindEnsemble
        Weak learners of each kind, and the terms of the columns.
    weights : ndarray, shape (n_columns,)
        Weight of each column, which hinge masters keep at 0 or above.
    stages : ndarray, shape (n_stages, n_columns)
        Weights after each round, for staged prediction.  The last row equals ``weights``.
    metadata : dict
        Plain values that are saved with the model (classes, objective, parameters).
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "weights": Array("float64", ("n_columns",)),
        "stages": Array("float64", ("n_stages", "n_columns")),
    }

    kinds: Kinds
    members: Mapping[str, KindEnsemble]
    weights: FloatArray
    stages: FloatArray
    metadata: Facts = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_scorers": {}}

    def __repr__(self) -> str:
        kinds = [
            f"{kind}: {len(member.learners)} of the family {member.family} on "
            f"{member.n_features} features, {self.kinds[kind].n_channels} channels"
            for kind, member in self.members.items()
        ]
        return (
            f"{type(self).__name__}({len(self.weights)} columns, {self.n_stages} stages; "
            f"{'; '.join(kinds)})"
        )

    @property
    def n_learners(self) -> int:
        """Number of weak learners with a weight."""
        return sum(int(self.matrix(kind).any(axis=1).sum()) for kind in self.members)

    @property
    def families(self) -> str:
        """Names of the families of weak learners, with commas between them."""
        return ", ".join(dict.fromkeys(member.family for member in self.members.values()))

    @property
    def n_stages(self) -> int:
        """Number of rounds of boosting, each available by :meth:`at_stage`."""
        return len(self.stages)

    def matrix(self, kind: str = "x") -> FloatArray:
        """Matrix W of a kind.

        Parameters
        ----------
        kind : str
            Kind of the parts.

        Returns
        -------
        W : ndarray, shape (n_learners, n_channels)
            Weight of each weak learner on each channel.

        Raises
        ------
        KeyError
            If the model has no such kind.
        """
        member = self.members[kind]
        out = np.zeros((len(member.learners), self.kinds[kind].n_channels))
        np.add.at(
            out,
            (member.term_learners, member.channels),
            member.coefficients * self.weights[member.columns],
        )
        return out

    def at_stage(self, stage: int) -> Ensemble:
        """Return the model after a round, with its weights at that time.

        Parameters
        ----------
        stage : int
            Index of the round.

        Returns
        -------
        model : Ensemble
            A model that shares the weak learners with this one.
        """
        return replace(self, weights=self.stages[stage], stages=self.stages[: stage + 1])

    def staged(self) -> Iterator[Ensemble]:
        """Yield the models after each round.

        Returns
        -------
        models : iterator of Ensemble
            One per round, as :meth:`at_stage` returns it.
        """
        return (self.at_stage(stage) for stage in range(self.n_stages))

    def scores(self, features: Any, kind: str | None = None, n_threads: int = 1) -> FloatArray:
        """Compute the scores of parts.

        Parameters
        ----------
        features : array-like or sparse array, shape (n_parts, n_features)
            Features of the parts.
        kind : str, optional
            Kind of the parts; required if the model has several.
        n_threads : int, default=1
            Number of threads that walk down trees.  Scores do not depend on it.

        Returns
        -------
        scores : ndarray, shape (n_parts, n_channels)
            The product of the responses of the weak learners with :meth:`matrix`.

        Raises
        ------
        ValueError
            If the features have another width, or are infinite, or are missing (NaN) where the
            weak learners are neither stumps nor trees; or if the model has no such kind.
        """
        kind = self._kind(kind)
        member = self.members[kind]
        rows = member.learners.checked_rows(features, member.n_features)
        if sparse.issparse(rows):
            return sparse_scores(self.scorer(kind), rows)
        # Products of rows in another order have other last bits.
        rows, scorer = np.ascontiguousarray(rows), self.scorer(kind)
        starts = range(0, len(rows), _ROWS_OF_THREAD)
        if n_threads == 1 or len(starts) < 2 or not isinstance(scorer, WeightedTrees):
            return scorer.raw_scores(rows)
        with ThreadPoolExecutor(n_threads) as pool:
            blocks = [rows[a : a + _ROWS_OF_THREAD] for a in starts]
            return np.concatenate([*pool.map(scorer.raw_scores, blocks)])

    def scorer(self, kind: str | None = None) -> Scorer:
        """Build the scorer of a kind at the first call, for :meth:`scores`.

        Parameters
        ----------
        kind : str, optional
            Kind of the parts; required if the model has several.

        Returns
        -------
        scorer : Scorer
            Scorer of finite features of the parts.

        Raises
        ------
        ValueError
            If the model has no such kind.
        """
        kind = self._kind(kind)
        scorer = self._scorers.get(kind)
        if scorer is None:
            member = self.members[kind]
            scorer = member.learners.scorer(self.matrix(kind), member.n_features)
            # Threads that get here together build equal forms; one of them stays.
            self._scorers[kind] = scorer
        return scorer

    def compile(self, kind: str | None = None) -> LookupTable | PairTables:
        """Compile a kind to look-up tables and slopes, which add up to the scores.

        :meth:`scores` uses this form; calling it is not needed for speed.

        Parameters
        ----------
        kind : str, optional
            Kind of the parts; required if the model has several.

        Returns
        -------
        form : LookupTable or PairTables
            Look-up tables of stumps.  With linear functions, slopes of the features as well.  Of
            trees of two levels, tables of features and of pairs of features.

        Raises
        ------
        TypeError
            If the weak learners are others.
        ValueError
            If the model has no such kind.
        """
        kind = self._kind(kind)
        form = self.scorer(kind)
        if isinstance(form, LookupTable):
            return form
        pairs = PairTables.of(form, self.members[kind].n_features)
        if pairs is None:
            raise TypeError(
                "Only stumps, trees of two levels and linear functions compile to look-up tables "
                f"and slopes; the learners of {kind!r} are of the family "
                f"{self.members[kind].family!r}."
            )
        return pairs

    def contributions(
        self, features: Any, kind: str | None = None, background: Any = None
    ) -> Contributions:
        """Contribution of each feature to each score, exact for stumps, linear functions and trees.

        Without a background, a function of two features, as of trees of two levels, gives a half to
        each of them.

        Parameters
        ----------
        features : array-like, shape (n_parts, n_features)
            Features of the parts.
        kind : str, optional
            Kind of the parts; required if the model has several.
        background : array-like, shape (n_background, n_features), optional
            Other parts, with which the values are interventional SHAP values
            (:meth:`structboost.StructBoostClassifier.contributions`).

        Returns
        -------
        contributions : Contributions
            ``values``, shape (n_parts, n_features, n_channels), and ``base``, shape (n_channels,).
            ``base + values.sum(axis=1)`` are the scores.

        Raises
        ------
        TypeError
            If the weak learners depend on more than two features, and are no trees with a
            background.
        """
        kind = self._kind(kind)
        member = self.members[kind]
        tables = [features] if background is None else [features, background]
        rows = [member.learners.checked_rows(table, member.n_features) for table in tables]
        return contributions_of(self.scorer(kind), *rows)

    def feature_importances(self, kind: str | None = None) -> FloatArray:
        """Weight of each feature as a fraction of the total absolute weight.

        Parameters
        ----------
        kind : str, optional
            Kind of the parts; required if the model has several.

        Returns
        -------
        importances : ndarray, shape (n_features,)
            They sum to 1, or to 0 if no weak learner with a weight uses a feature.

        Raises
        ------
        ValueError
            If the model has no such kind.
        """
        kind = self._kind(kind)
        member = self.members[kind]
        sizes = np.abs(self.matrix(kind)).sum(axis=1)
        step = max(1, _MOST_SHARES // member.n_features)
        out = np.zeros(member.n_features)
        for a in range(0, len(sizes), step):
            some = np.arange(a, min(a + step, len(sizes)))
            out += sizes[some] @ member.learners.select(some).feature_shares(member.n_features)
        return np.asarray(out / out.sum() if out.sum() > 0 else out, np.float64)

    def save(self, path: PathName) -> None:
        """Write the model to a file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Path of the file, which replaces an existing one.

        Raises
        ------
        TypeError
            If the metadata is not plain JSON.
        ValueError
            If a family of weak learners is in no file, or weights are not finite.
        """
        FORMAT.write(path, *self.to_arrays())

    def to_arrays(self) -> tuple[Header, Arrays]:
        """Convert the model to the header and arrays of a model file."""
        arrays = {"weights": self.weights, "stages": self.stages}
        kinds = {}
        for kind, member in self.members.items():
            of_kind = self.kinds[kind]
            kinds[kind] = {
                "n_channels": of_kind.n_channels,
                "response": list(of_kind.response),
                "family": member.family,
                "n_features": member.n_features,
            }
            arrays |= {f"{kind}/{name}": getattr(member, name) for name in KindEnsemble.schema}
            arrays |= prefixed(f"{kind}/learners/", member.learners.to_arrays())
        return {"kinds": kinds, "metadata": dict(self.metadata)}, arrays

    @classmethod
    def from_arrays(cls, header: Header, arrays: Mapping[str, AnyArray]) -> Ensemble:
        """Restore a model from the result of :meth:`to_arrays`, checked by the schema.

        Raises
        ------
        ValueError, KeyError, IndexError
            If the header or the learners are damaged in a way that no schema shows.
        """
        kinds, members = {}, {}
        for kind, entry in header["kinds"].items():
            low, high = (finite_number(end, "response") for end in entry["response"])
            kinds[kind] = PartKind(entry["n_channels"], (low, high))
            terms = {name: arrays[f"{kind}/{name}"] for name in KindEnsemble.schema}
            members[kind] = KindEnsemble(
                family=entry["family"],
                learners=registry.table(entry["family"], below(f"{kind}/learners/", arrays)),
                n_features=entry["n_features"],
                **terms,
            )
            # Learners that do not fit together raise here, not at the first prediction.  No rows
            # take no memory, whatever width the header claims.
            members[kind].learners.responses(np.zeros((0, entry["n_features"])))
        return cls(kinds, members, arrays["weights"], arrays["stages"], header["metadata"])

    def _kind(self, kind: str | None) -> str:
        if kind is None:
            if len(self.members) != 1:
                raise ValueError(
                    f"The model has the kinds {sorted(self.members)}; say which with kind=."
                )
            return next(iter(self.members))
        if kind not in self.members:
            raise ValueError(f"kind is {kind!r}; the model has {sorted(self.members)}.")
        return kind


def load_model(path: PathName) -> Ensemble:
    """Read a model that :meth:`Ensemble.save` wrote.

    Files of estimators and trainers can be read, too, but the model has only scores.  The method
    ``load`` of their class gives the estimator with its labels and ``predict``.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : Ensemble
        The model.  Loading never runs code.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If it is not a model file, is damaged, or is of another version.

    Warns
    -----
    UserWarning
        If the file is of an estimator, with the name of its class.
    """
    model = read_model(path)
    name = model.metadata.get("estimator")
    if name is not None:
        warn_user(
            f"{path} holds a {name}, of which load_model reads only the scores; {name}.load reads "
            "it with labels and predict.",
            UserWarning,
        )
    return model


def read_model(path: PathName) -> Ensemble:
    """Read a model of any class, as :func:`load_model` does, without a warning."""
    with FORMAT.opened(path) as content:
        return Ensemble.from_arrays(*content)


def _schema(header: Header, names: Collection[str]) -> Schema:
    if not isinstance(header["metadata"], dict) or not header["kinds"]:
        raise DamagedFileError("its header has no kinds or no metadata")
    parts = {"": Part(Ensemble.schema)}
    for kind, entry in header["kinds"].items():
        sizes = {name: whole_number(entry[name], name, 1) for name in ("n_features", "n_channels")}
        members = registry.table_schema(entry["family"])
        learners = prefixed("learners/", members.pop(""))
        parts[f"{kind}/"] = Part({**learners, **KindEnsemble.schema}, sizes)
        for member, schema in members.items():
            parts[f"{kind}/learners/{member}"] = Part(schema, sizes)
    return parts


FORMAT = ArchiveFormat(name="structboost-model", what="structboost model", schema=_schema)


def model_predictions(task: Task, model: Ensemble, X: Examples) -> list[Any]:
    """Predictions of ``task`` with the scores of ``model``."""
    X = by_position(X)
    return predictions(task, X, model_scores(task, model, X))


def model_marginals(task: Task, model: Ensemble, X: Examples, factor: float = 1.0) -> list[Any]:
    """Marginals of each input at ``factor`` times the scores of ``model``, by kind if several."""
    X = by_position(X)
    scores = model_scores(task, model, X).times(factor)
    expected = StackedParts(marginals(task, X, scores).expected, scores.offsets)
    return [expected.example(i) for i in range(len(X))]


def model_scores(task: Task, model: Ensemble, X: Examples) -> StackedParts:
    """Scores of the parts of all inputs by ``model``."""
    return scores_of_parts(model, stacked_inputs(task, X))


def scores_of_parts(model: Ensemble, stack: StackedParts) -> StackedParts:
    """Scores of stacked parts by ``model``."""
    return StackedParts({kind: _scores(model, stack, kind) for kind in stack.rows}, stack.offsets)


def _scores(model: Ensemble, stack: StackedParts, kind: str) -> FloatArray:
    """Scores of the parts of a kind, with errors that name the input."""
    rows = stack.rows[kind]
    try:
        return model.scores(rows, kind)
    except ValueError as error:
        for i, (start, stop) in enumerate(pairwise(stack.offsets[kind].tolist())):
            try:
                model.scores(rows[start:stop], kind)
            except ValueError as of_input:
                raise TaskError(
                    f"The parts of X[{{sample}}] of kind {kind!r}: {of_input}", i
                ) from error
        raise
