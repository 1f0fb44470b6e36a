"""Tagger of sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from structboost._typing import FloatArray, IntArray, override
from structboost.errors import warn_user
from structboost.faces.base import estimator, facts_of_fit, fit_of_facts
from structboost.faces.labels import saved_classes, warn_of_one_class
from structboost.faces.objectives import (
    Objectives,
    checked_objective,
    checked_parameters,
    recipe_of,
)
from structboost.faces.recipe import Examples, Problem, Recipe
from structboost.faces.tag_prediction import (
    TagPrediction,
    chosen_offset,
    given_offset,
    pairs_of_scheme,
    scheme_of_tags,
)
from structboost.faces.tokens import (
    RowsReader,
    TokenReader,
    check_allowed,
    forbidden_indices,
    later_tags,
    tag_indices,
)
from structboost.files.archive import DamagedFileError, finite_number
from structboost.learners.feature import ActiveFeatureFamily
from structboost.linear.chain import chain_problem
from structboost.linear.linear_trainer import HeldScores
from structboost.objectives.stage_wise import StageWiseRandomField
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import Fold, random_folds
from structboost.tasks.chain import ChainTask, labelled_stretches, runs_of
from structboost.tasks.chunk_tags import Scheme
from structboost.validation import (
    AUTO,
    Auto,
    checked_choice,
    checked_weights,
    group_indices,
    is_same,
    shown,
)

# With more pairs of tags of all sequences, C is chosen on folds of so many tokens in all.
_MANY_PAIRS, _ENOUGH_TOKENS = 1 << 22, 200
# Neighbouring sequences that are held out together, and the least number of such runs: sequences of
# one document are alike (docs/decisions.md).
_RUN, _FEWEST_RUNS = 30, 100
# Rounds that a model of trees keeps, in terms of the round of the least held-out loss, where that
# ended training (docs/decisions.md).
_TIMES_THE_BEST = 2


@estimator(Objectives)
class StructBoostTagger(TagPrediction):
    """Tagger of sequences by a boosted first-order chain (:class:`structboost.ChainTask`).

    A sequence is an array (n_tokens, n_features), a sparse matrix of that shape, or a list of
    dicts, one for each token, as for scikit-learn's DictVectorizer.  A dict maps names to strings,
    bools, numbers, lists of strings, vectors of numbers, or dicts of these.  A string makes a
    binary feature, and so does each string of a list.  All vectors of a name have one length.  The
    tags of a sequence are strings, bools or numbers.

    ``X`` is a list, a series or an array of three dimensions, never one table, a dict or a
    generator, which can be read only once.

    By default it boosts trees on the tokens stage-wise for the likelihood of the tags
    (:class:`structboost.objectives.StageWiseRandomField`), which needs no C and has no certificate.
    For sparse or dict tokens that have features of zeros and ones it fits one linear function by
    the same likelihood, to a certified gap, and chooses C (docs/decisions.md).
    Features with other values, such as vectors, are dense columns beside them, whose variances sum
    to at most 5 (docs/decisions.md).  ``objective="hinge"``
    minimises the hinge of the fraction of wrong tags, to a certified gap. Engines of several
    processes need it.

    Parameters
    ----------
    forbidden : sequence of (tag, tag), optional
        Pairs of tags that never follow each other.  ``None`` means the start or the end of the
        sequence: ``(None, tag)`` forbids a first tag, ``(tag, None)`` a last one.  A tag that is
        not in ``y`` is ignored, with a warning.
    scheme : {"auto", "iob1", "iob2", "bioes", "bilou"}, optional
        Scheme of chunks that predictions follow, which forbids its pairs of tags, such as I-PER
        after O in ``"iob2"``.  ``"auto"`` takes the scheme that all tags in training follow, if
        they do.  By default, scores alone decide.
    outside_offset : float or "auto"
        Amount by which :meth:`predict` lowers the score of the tag O, which finds more chunks, or
        below 0 fewer.  0 leaves it as it is.  ``"auto"`` tries shifts from -1 to 1.5 on held-out
        sequences and takes the largest F1 of chunks, and 0 where the gain is within its standard
        error.  It is 0 unless tags mark chunks (O, B-kind, I-kind) and one linear function is
        trained by its likelihood.
    min_freq : int
        Least number of tokens in training that have a name of dicts.  Rarer ones are left out of
        the model, and ``rare_names_`` lists them.
    objective : {"log_loss", "hinge", "svm", "l1_log_loss"} or Formulation
        Function that is minimised.  ``"log_loss"``: minus the mean logarithm of the probability of
        the true tags, by stage-wise boosting, or with half the squared norm of one linear function.
        ``"hinge"``: C times the mean hinge of the fraction of wrong tags plus the l1 norm of the
        weights, to a certified gap.  ``"svm"``: C times the same plus half the squared norm of one
        linear function.  ``"l1_log_loss"``: C times the log-loss plus the l1 norm of the weights.
    weak_learner : str, callable or list of these
        Family of weak learners, as in :class:`structboost.StructBoost`.  Stumps on sparse or dict
        tokens of zeros and ones are single features, priced by one sparse product.  ``"linear"``
        with ``objective="log_loss"`` is one linear function, of such features unchanged and of
        others standardised.  Other families make such tokens dense.  ``"auto"`` with
        ``objective="log_loss"`` is ``"linear"`` for such tokens, else trees.
    early_stopping : bool
        Whether to hold out whole sequences, stop when their error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round.  The certificate then refers to the
        last round trained.

    Attributes
    ----------
    classes_ : ndarray
        The tags, in ascending order.
    feature_names_ : list of str
        Names of the features, if tokens are dicts.
    feature_weights_ : ndarray, shape (n_features, n_classes)
        Amount that each feature (row) adds to the score of each tag (column).  Missing unless
        features are 0 and 1 and the weak learners are linear functions or stumps.
    outside_offset_ : float
        Amount by which :meth:`predict` lowers the score of the tag O: ``outside_offset``, or what
        was chosen.  It may be set after a fit.
    rare_names_ : sequence of str
        Names that ``min_freq`` left out, if tokens are dicts.  A file of the model has none.
    scheme_ : str or None
        Scheme that predictions follow, if any.
    transitions_ : ndarray, shape (n_classes, n_classes)
        Score of each tag (row) before each tag (column).

    See Also
    --------
    structboost.text.TokenFeatures : Features of words, for a pipeline.
    structboost.text.TwoStageTagger : Tagger of named entities.
    structboost.CrossFitted : Out-of-fold features of tokens.
    structboost.ChainTask : The task that it trains.

    Examples
    --------
    >>> from structboost import StructBoostTagger
    >>> sentences = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}]]
    >>> tags = [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> tagger = StructBoostTagger(C=10.0).fit(sentences, tags)
    >>> tagger.predict([[{"word": "the"}, {"word": "dog"}]])
    [['DET', 'NOUN']]
    """

    forbidden: Sequence[tuple[Any, Any]] | None = None
    scheme: Auto | Scheme | None = None
    outside_offset: float | Auto = AUTO
    min_freq: int = 1

    _objectives = ("log_loss", "hinge", "svm", "l1_log_loss")

    @committed
    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        sample_weight: Any = None,
        groups: Any = None,
        *,
        eval_set: Any = None,
    ) -> Self:
        """Train on sequences and their tags.

        Parameters
        ----------
        X : sequence
            Sequences of tokens, all of one form.
        y : sequence of sequences
            Tags of each sequence, one for each token, with None or NaN if a tag is unknown.
        sample_weight : array-like, shape (n_sequences,), optional
            Weight of each sequence in the mean loss.
        groups : array-like, shape (n_sequences,), optional
            Group of each sequence, such as its document, which is held out as a whole where C is
            chosen or training stops early.  By default, runs of up to 30 neighbouring sequences
            are held out together to choose C, if there are at least 200.  To choose C on one
            sequence alone, it is cut into ten runs, which are then trained as sequences.
        eval_set : (X, y), optional
            Held-out sequences and their tags, which take the place of those that
            ``early_stopping`` draws, and of folds on which C and ``outside_offset`` are chosen.

        Raises
        ------
        ValueError, TypeError
            If a sequence and its tags do not fit; the message names the sequence.

        Warns
        -----
        ConstantPredictionWarning
            If ``y`` has one tag, which the model then always predicts.
        """
        checked_objective(self)
        reader = TokenReader(min_freq=self.min_freq)
        rows = reader.fit(X, takes_active=_takes_active(self.weak_learner))
        recipe = self._recipe(is_active=reader.is_active)
        self._check_held_parameters(eval_set, recipe)
        chooses_C, is_likelihood = recipe.chooses_C, recipe.objective == "log_loss"
        is_linear_likelihood = is_likelihood and recipe.linear is not None
        classes, tags = tag_indices(y, _lengths(rows))
        scheme = scheme_of_tags(self.scheme, classes, tags)
        forbidden = forbidden_indices(self.forbidden, classes)
        if len(forbidden) < len(self.forbidden or ()):
            warn_user(
                "forbidden has pairs with a tag that y does not have, which do nothing.  The tags "
                f"of y are {shown(classes.tolist())}.",
                UserWarning,
            )
        forbidden += forbidden_indices(pairs_of_scheme(scheme, classes), classes)
        check_allowed(tags, forbidden, classes)
        weights = checked_weights(sample_weight, len(rows))
        of_groups = None if groups is None else group_indices(groups, "groups", len(rows))
        offset = given_offset(self.outside_offset, classes)
        chooses_offset = offset is None and is_linear_likelihood
        draws = eval_set is None and (chooses_C or chooses_offset or self.early_stopping)
        if groups is not None and not draws:
            raise ValueError(
                "groups is set, and nothing is held out of X; leave it out, or write C='auto' with "
                "an objective that reads C, or early_stopping=True, and no eval_set."
            )
        training = [i for i in range(len(rows)) if weights[i] > 0 and (tags[i] >= 0).any()]
        if not training:
            raise ValueError(
                "sample_weight leaves no sequence that has a known tag; weigh one above 0."
            )
        held: list[int] = []
        everything = training
        if self.early_stopping and eval_set is None:
            training, held = self._hold_out(training, of_groups)

        def pieces(at: Sequence[int]) -> tuple[Any, Any, FloatArray]:
            """Split sequences at unknown tags, into pieces with the weight of the sequence."""
            sizes = [_n_pieces(tags[i]) for i in at]
            stretches = labelled_stretches([rows[i] for i in at], [tags[i] for i in at])
            return *stretches, np.repeat(weights[list(at)], sizes)

        of_held = Examples(*pieces(held)) if held else None
        if eval_set is not None:
            with self._own_held_out(eval_set) as (held_X, held_y):
                held_rows = reader.later_rows(held_X)
                held_tags = later_tags(held_y, _lengths(held_rows), classes)
                check_allowed(held_tags, forbidden, classes)
                of_held = Examples(*labelled_stretches(held_rows, held_tags))

        run = min(_RUN, len(training) // _FEWEST_RUNS)
        if of_groups is None and run > 1:
            of_groups = np.arange(len(rows)) // run
        inputs, outputs, of_pieces = pieces(training)
        if chooses_C and of_held is None and len(inputs) == 1:
            inputs, outputs = runs_of(inputs[0], outputs[0])
            of_pieces = np.ones(len(inputs))
        elif of_groups is not None:
            of_groups = np.repeat(of_groups[training], [_n_pieces(tags[i]) for i in training])
        has_vectors = len(reader.vector_columns) > 0
        task = ChainTask(len(classes), vectors=has_vectors, forbidden=forbidden)
        of_model = {"classes_": classes, "scheme_": scheme, "outside_offset_": offset or 0.0}
        if len(classes) == 1:
            warn_of_one_class(classes[0].item(), "tag", "tags")
            # There are no learners of such features.
            reader.is_active, reader.vector_columns = False, np.zeros(0, np.int64)
            task = ChainTask(1, forbidden=forbidden)
            width = {"token": int(reader.n_features or 0), "step": 1}
            of_model |= _reader_attributes(reader)
            self._keep_constant(task, width, recipe.objective, **of_model)
            return self
        offsets: list[float] = []

        def choose_offset(held_out: Iterator[HeldScores]) -> None:
            offsets.append(chosen_offset(task, classes, held_out))

        def read_as_training(_: Any) -> dict[str, Any]:
            return {**of_model, "_reader": RowsReader(reader.is_active, has_vectors=has_vectors)}

        examples = Examples(inputs, outputs, of_pieces, of_groups)
        problem = Problem(
            task,
            examples,
            partial(
                _folds,
                random_state=self.random_state,
                n_tags=len(classes),
                is_likelihood=is_linear_likelihood,
                chooses_C=chooses_C,
            ),
            of_held,
            Examples(*pieces(everything)) if held else examples,
            self._held_out_score(
                task, lambda Y: [classes[tags].tolist() for tags in Y], read_as_training
            ),
            int(reader.n_features or 0),
        )
        linear: dict[str, Any] = {"active": ["token"] if reader.is_active else ()}
        if is_likelihood:
            linear["on_held_out"] = choose_offset if chooses_offset else None
            if reader.is_active:
                linear["problem"] = chain_problem
        fitted = replace(
            recipe,
            families=_families(recipe, task, is_active=reader.is_active),
            linear=recipe.linear and {**recipe.linear, **linear},
        ).train(problem)
        if offsets:
            of_model["outside_offset_"] = offsets[-1]
        self._keep(task, fitted, **of_model, **_reader_attributes(reader))
        return self

    def _recipe(self, *, is_active: bool) -> Recipe:
        """Return the fit that the parameters describe, of active features or of others."""
        is_open = is_same(self.weak_learner, AUTO) and is_active
        takes_linear = is_open and checked_objective(self).name == "log_loss"
        learners: Any = "linear" if takes_linear else None
        return recipe_of(
            self,
            checked_parameters(self, learners),
            StageWiseRandomField(),
            weak_learner=learners,
            times_the_best=_TIMES_THE_BEST,
        )

    @override
    def _facts(self) -> dict[str, Any]:
        return facts_of_fit(self) | {
            "reader": self._reader.to_plain(),
            "outside_offset": self.outside_offset_,
            "scheme": self.scheme_,
        }

    def _restore(self, facts: Mapping[str, Any]) -> None:
        classes = saved_classes(facts)
        reader = TokenReader.from_plain(facts["reader"])
        width = int(reader.n_features or 0)
        widths = {kind: member.n_features for kind, member in self.model_.members.items()}
        if widths["step"] != 1 or (not reader.is_active and width != widths["token"]):
            raise DamagedFileError(f"its tokens have {width} features")
        scheme = facts["scheme"]
        scheme = None if scheme is None else checked_choice(scheme, "scheme", Scheme)
        forbidden = forbidden_indices(self.forbidden, classes)
        task = ChainTask(
            len(classes),
            vectors=len(reader.vector_columns) > 0,
            forbidden=forbidden + forbidden_indices(pairs_of_scheme(scheme, classes), classes),
        )
        self._keep(
            task,
            fit_of_facts(self.model_, facts, task),
            classes_=classes,
            scheme_=scheme,
            outside_offset_=finite_number(facts["outside_offset"], "offset of O"),
            **_reader_attributes(reader),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.two_d_array = False
        return tags

    def _holds_out(self) -> bool:
        """Whether a fit of dicts with names holds sequences out."""
        is_active = _takes_active(self.weak_learner)
        return bool(self.early_stopping) or self._recipe(is_active=is_active).chooses_C

    @property
    @override
    def learner_(self) -> str:
        # Single features, which parameters call by the name of their weights or of their search.
        word = "stump" if self.formulation_ else "linear"
        names = self.model_.families.split(", ")
        return ", ".join(dict.fromkeys(word if n == ActiveFeatureFamily.name else n for n in names))

    def _hold_out(
        self, sequences: list[int], groups: IntArray | None
    ) -> tuple[list[int], list[int]]:
        """Return the sequences to train on and those that are held out for early stopping."""
        settings = {"test_size": self.validation_fraction, "random_state": self.random_state}
        if groups is None:
            train, held = train_test_split(sequences, **settings)
            return train, held
        if len(np.unique(groups[sequences])) < 2:
            raise ValueError("groups has one group, and early_stopping holds out whole groups.")
        split = GroupShuffleSplit(1, **settings).split(sequences, groups=groups[sequences])
        train, held = ([sequences[k] for k in part] for part in next(split))
        return train, held


def _takes_active(weak_learner: Any) -> bool:
    """Whether sparse tokens of zeros and ones may stay sparse."""
    return isinstance(weak_learner, str) and weak_learner in (AUTO, "stump", "linear")


def _families(recipe: Recipe, task: ChainTask, *, is_active: bool) -> Any:
    """Return the weak learners of each kind of parts, or None if they are those of the user."""
    learners = recipe.weak_learner
    if is_active:
        return {kind: learners if kind == "vector" else ActiveFeatureFamily for kind in task.kinds}
    if recipe.objective == "log_loss" and not isinstance(learners, Mapping):
        # Pairs of tags have one constant feature, on which trees are constants, too.
        return {"token": learners, "step": "stump"}
    return None


def _folds(
    examples: Examples, *, random_state: Any, n_tags: int, is_likelihood: bool, chooses_C: bool
) -> list[Fold]:
    """Return folds of whole groups of sequences."""
    try:
        folds = random_folds(
            examples.X,
            examples.Y,
            examples.weights,
            groups=examples.groups,
            random_state=random_state,
            all_parts=is_likelihood,
        )
    except ValueError:
        if chooses_C or not is_likelihood:
            raise
        return []  # nothing can be held out, and no choice needs it
    if len(examples.Y) * n_tags**2 <= _MANY_PAIRS:
        return folds
    # A fit is expensive, and each held-out token informs of its likelihood.
    held = np.cumsum([sum(map(len, fold.held_Y)) for fold in folds])
    return folds[: int(np.searchsorted(held, _ENOUGH_TOKENS)) + 1]


def _reader_attributes(reader: TokenReader) -> dict[str, Any]:
    """Return the attributes of the features of tokens."""
    attributes: dict[str, Any] = {"_reader": reader, "n_features_in_": reader.n_features}
    if reader.learned is not None:
        attributes |= {"feature_names_": reader.names, "rare_names_": reader.learned.rare}
    return attributes


def _lengths(rows: Sequence[Any]) -> list[int]:
    """Return the numbers of tokens of sequences."""
    return [len(of[0] if isinstance(of, tuple) else of) for of in rows]


def _n_pieces(tags: IntArray) -> int:
    """Return the number of pieces between unknown tags."""
    is_known = np.concatenate(([False], tags >= 0))
    return int(np.sum(is_known[1:] & ~is_known[:-1]))
