"""StructBoost: column generation with a certificate (Algorithm 1).

::

    repeat
        D       = master.duals()          signed weight of every (part, channel)
        columns = pricing(D)              columns of largest edge <D, response>
        stop when no column is violated, the gap is small enough, or rounds are used up
        master.add_columns(columns); master.solve()
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from structboost.binned_table import BinnedTable
from structboost.blas_threads import one_blas_thread
from structboost.checkpoint import Checkpoint, CheckpointWriter, identity_of
from structboost.columns import ColumnRegistry, ColumnWeights
from structboost.engines.base import Engine
from structboost.engines.examples import Examples, HomeExamples, TableExamples
from structboost.engines.local import Threads
from structboost.engines.registry import ENGINES, engine_of
from structboost.engines.shard_group import ShardGroup, shard_group
from structboost.ensemble import Ensemble
from structboost.exceptions import InterruptedFitWarning, ModelFileError, TaskError
from structboost.masters.base import Formulation, Problem, RestrictedMaster
from structboost.masters.exponential import Exponential
from structboost.masters.m_slack import MSlack
from structboost.masters.one_slack import OneSlack, OneSlackMaster
from structboost.model_file import load_model
from structboost.progress import ProgressBar
from structboost.task import StackedParts, Task
from structboost.validation import checked_choice, checked_example_weights
from structboost.weak import registry
from structboost.weak.base import WeakLearnerFamily
from structboost.weak.pricing import RULES, Priced, PricingRule
from structboost.weak.sharded_stump import ShardedStumps

Callback = Callable[[Mapping[str, Any], "StructBoost"], Any]

_FORMULATIONS = ("one_slack", "m_slack", "exponential")
# A column of positive weight has edge exactly 1 at the optimum, so (8) as printed never holds.
_EDGE_TOLERANCE = 1e-6
# Solving a restricted master far below the gap that pricing leaves is wasted.
_INNER_SHARE = 0.5
# Finer than this a restricted master is not solved, whatever tol.
_FINEST = 1e-7
_MAX_IDLE_ROUNDS = 30


class StructBoost:
    """Structured prediction by boosting, with a proof of how near the optimum it is.

    Minimises ``sum(w) + C/m sum_i max_y [Delta(y_i, y) - w'(Psi(x_i, y_i) - Psi(x_i, y))]`` over ``w >= 0``
    and over a family of weak learners (StructBoost, (3) and (9)).

    Parameters
    ----------
    task : Task
        The problem: parts, joint feature, loss and argmax.
    C : float
        Weight of the training loss against the l1 norm of the weights; may be infinite in the exponential formulation.
    tol : float
        Relative gap ``(primal - bound) / primal`` at which training stops; with 0 only an exhausted pricing stops it.
    max_rounds : int
        Most rounds of column generation.
    weak_learner : {"stump", "tree", "perceptron", "svm", "lda", "feature", "piecewise"} or callable
        Family of weak learners; a callable makes it of the training parts, as
        :class:`structboost.weak.stump.StumpFamily` does.
    formulation : {"one_slack", "m_slack", "exponential"} or Formulation
        Which restricted master: one of the first two for the hinge loss, whose optimum is the same (Theorem 2.1),
        or the exponential loss over all outputs (:class:`structboost.Exponential`).
    stabilize : bool
        Whether the 1-slack master is stabilised; False is Algorithm 2 as printed.
    exact : bool
        Whether pricing goes over all distinct thresholds, or over at most 255 of a feature.
    pricing : {"own", "best"} or PricingRule
        Whether each channel has weak learners of its own, or all share them (:mod:`structboost.weak.pricing`).
    columns_per_channel : int
        Most columns added for a channel in a round, each on another feature.
    spread : float
        If positive, training ends by exchanging the weights for ones of small Euclidean norm whose relative gap is at
        most this; take it above ``tol``.  Weight is spread over like columns, as a rule for a lower test error.
        Needs the stabilised 1-slack master.
    random_state : int, RandomState or None
        For randomised weak learners; stumps need none.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Who computes on the training set; the result does not depend on it. ``"processes"`` is for tasks whose argmax is
        Python, ``"dask"`` takes the current :class:`distributed.Client`. Formulations but ``"one_slack"`` and
        :class:`structboost.NormBoundedHinge` know threads only.
    n_jobs : int or None
        Threads or processes (None: 1, or what ``joblib.parallel_config`` says; -1: all cores).
    checkpoint : str, path or Checkpoint, optional
        File that the run is written to once a minute, or as :class:`structboost.Checkpoint` says.  If it is there
        already, :meth:`fit` goes on from it, and ends in the same model as a run that was never broken off.  Needs the
        stabilised 1-slack master, and stumps or trees.
    verbose : int
        1 shows a progress bar.
    callbacks : sequence of callables, optional
        Each is called as ``callback(record, trainer)`` after every round; one that returns True stops training.

    Attributes
    ----------
    model_ : Ensemble
    history_ : list of dict
        One a round: round, primal, bound, gap, certified, cuts, columns, oracle_calls, seconds. The primal never rises,
        but for a last record of the spread weights; bound and gap are None where there is no bound (C infinite).
    objective_ : float
        Primal objective of the model, in the paper's units.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    """

    model_: Ensemble
    history_: list[dict[str, Any]]
    objective_: float
    interrupted_: bool

    def __init__(
        self,
        task: Task,
        *,
        C: float,
        tol: float = 0.01,
        max_rounds: int = 200,
        weak_learner: str | Callable[..., WeakLearnerFamily] = "stump",
        formulation: str | Formulation = "one_slack",
        stabilize: bool = True,
        exact: bool = False,
        pricing: str | PricingRule = "own",
        columns_per_channel: int = 5,
        spread: float = 0.0,
        random_state: Any = None,
        engine: str | Engine = "threads",
        n_jobs: int | None = None,
        checkpoint: str | PathLike[str] | Checkpoint | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.task = task
        self.C = C
        self.tol = tol
        self.max_rounds = max_rounds
        self.weak_learner = weak_learner
        self.formulation = formulation
        self.stabilize = stabilize
        self.exact = exact
        self.pricing = pricing
        self.columns_per_channel = columns_per_channel
        self.spread = spread
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.callbacks = callbacks
        self._run: _Run | None = None

    def fit(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any = None) -> StructBoost:
        """Train on examples ``(X[i], Y[i])``.

        Parameters
        ----------
        X, Y : sequence
            Inputs and true outputs, as the task takes them.
        sample_weight : array-like, shape (n_examples,), optional
            Weight of each example in the mean loss.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range.
        TaskError
            If the task breaks its contract.
        SolverError
            If a restricted master cannot be solved.
        """
        self.path(X, Y, [self.C], sample_weight=sample_weight, _into=[self])
        return self

    def path(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        Cs: Sequence[float],
        *,
        sample_weight: Any = None,
        _into: list[StructBoost] | None = None,
    ) -> list[StructBoost]:
        """Fit a trainer for each C, each warm started from the last: cuts and columns stay.

        Returns
        -------
        trainers : list of StructBoost
            Copies of this one, fitted, in the order of ``Cs``.
        """
        self._check_parameters(Cs)
        if self.checkpoint is not None and _into is None:
            raise ValueError("checkpoint is for fit(X, Y); leave it None for a path.")
        trainers = _into or [self._copy(C) for C in Cs]
        with one_blas_thread():
            run: _Run | None = None
            try:
                for trainer in trainers:
                    run = trainer._start(X, Y, sample_weight) if run is None else run.go_on(trainer)
                    run.boost()
                    if trainer.interrupted_:
                        break
            finally:
                if run is not None:
                    run.close()
        return [trainer for trainer in trainers if hasattr(trainer, "model_")]

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Best output of each input, by the task's ``predict``."""
        return _predict(self.task, self._fitted(), X)

    def staged_predict(self, X: Sequence[Any]) -> Any:
        """Predictions after each round, with the weights of that round."""
        return (_predict(self.task, model, X) for model in self._fitted().staged())

    def score(self, X: Sequence[Any], Y: Sequence[Any]) -> float:
        """Minus the mean loss of the predictions: larger is better."""
        outputs = self.predict(X)
        return -float(np.mean([self.task.loss(y, output) for y, output in zip(Y, outputs, strict=True)]))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model (not the task) to a file, atomically and without pickle."""
        self._fitted().save(path)

    @classmethod
    def load(cls, path: str | PathLike[str], task: Task) -> StructBoost:
        """A fitted trainer from a saved model and the task it was trained on."""
        model = load_model(path)
        if "history" not in model.metadata:
            raise ModelFileError(f"{path} was not written by StructBoost.save.")
        if dict(model.kinds) != dict(task.kinds):
            raise TaskError(f"The model in {path} has the kinds {dict(model.kinds)}, the task {dict(task.kinds)}.")
        trainer = cls(task, C=model.metadata["C"])
        trainer.model_ = model
        trainer.history_ = list(model.metadata["history"])
        trainer.objective_ = float(model.metadata["objective"])
        trainer.interrupted_ = False
        return trainer

    # -- fitting ------------------------------------------------------------------------------

    def _fitted(self) -> Ensemble:
        if self._run is not None:
            return self._run.current_model()
        if not hasattr(self, "model_"):
            raise NotFittedError("This StructBoost is not fitted yet; call fit(X, Y) first.")
        return self.model_

    def _copy(self, C: float) -> StructBoost:
        hidden = ("task", "_run")
        parameters = {k: v for k, v in vars(self).items() if not k.endswith("_") and k not in hidden}
        return StructBoost(self.task, **{**parameters, "C": C})

    def _check_parameters(self, Cs: Sequence[float]) -> None:
        if not isinstance(self.task, Task):
            raise TypeError(f"task is {self.task!r}; give an instance of a subclass of Task.")
        if not len(Cs):
            raise ValueError("Cs is empty; give at least one C.")
        formulation = self._formulation()
        formulation.check()
        for C in Cs:
            formulation.check_C(C)
        if isinstance(self.tol, bool) or not 0 <= self.tol < np.inf:
            raise ValueError(f"tol is {self.tol!r}; give a relative gap from 0.")
        if isinstance(self.spread, bool) or not 0 <= self.spread < 1:
            raise ValueError(f"spread is {self.spread!r}; give a relative gap from 0 to below 1.")
        if self.spread and not formulation.can_spread:
            raise ValueError("spread needs formulation='one_slack' and stabilize=True; leave it at 0 with others.")
        for name in ("max_rounds", "columns_per_channel"):
            value = getattr(self, name)
            if isinstance(value, bool) or int(value) != value or value < 1:
                raise ValueError(f"{name} is {value!r}; give a whole number from 1.")
        if not callable(self.weak_learner):
            checked_choice(self.weak_learner, "weak_learner", registry.NAMES)
        if not isinstance(self.pricing, PricingRule):
            checked_choice(self.pricing, "pricing", tuple(RULES))
        self._check_checkpoint(formulation)
        if not isinstance(self.engine, Engine):
            checked_choice(self.engine, "engine", ENGINES)
        if not formulation.works_on_shards and not isinstance(engine_of(self.engine, self.n_jobs), Threads):
            raise ValueError(
                f"engine is {self.engine!r}, but {type(formulation).__name__} knows threads only; take "
                "engine='threads' or formulation='one_slack'."
            )

    def _check_checkpoint(self, formulation: Formulation) -> None:
        if self.checkpoint is None:
            return
        if not (isinstance(formulation, OneSlack) and formulation.stabilize):
            raise ValueError("checkpoint needs formulation='one_slack' and stabilize=True; leave it None with others.")
        if self.weak_learner not in ("stump", "tree"):
            raise ValueError(f"checkpoint needs stumps or trees; weak_learner is {self.weak_learner!r}.")
        self._checkpoint().check()

    def _checkpoint(self) -> Checkpoint:
        return self.checkpoint if isinstance(self.checkpoint, Checkpoint) else Checkpoint(str(self.checkpoint))

    def _formulation(self) -> Formulation:
        if isinstance(self.formulation, Formulation):
            return self.formulation
        name = checked_choice(self.formulation, "formulation", _FORMULATIONS)
        if name == "one_slack":
            return OneSlack(self.stabilize)
        return MSlack() if name == "m_slack" else Exponential()

    def _start(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any) -> _Run:
        """Stack the parts, bin the features, make the oracle and the master."""
        began = time.perf_counter()
        engine = engine_of(self.engine, self.n_jobs)
        examples = self._examples(X, Y, engine)
        weights = checked_example_weights(sample_weight, examples.n_examples)
        random_state = check_random_state(self.random_state)
        formulation = self._formulation()
        families = self._families(examples, engine)
        group = None
        if formulation.works_on_shards:
            bins = {kind: family.bins for kind, family in families.items() if isinstance(family, ShardedStumps)}
            group = shard_group(engine, examples, weights, bins)
        stack = examples.stack if isinstance(examples, HomeExamples) else StackedParts({}, examples.offsets)
        problem = Problem(self.task, X, Y, stack, weights, random_state, group)
        master = formulation.master(problem, self.C)
        run = _Run(self, master, ColumnRegistry(master, families), group, began)
        if self.checkpoint is not None:
            run.checkpoints = CheckpointWriter(self._checkpoint(), self._identity(examples, weights))
        return run

    def _examples(self, X: Any, Y: Any, engine: Engine) -> Examples:
        """The training set, wherever it is."""
        spread_out = hasattr(X, "__dask_graph__")
        if (spread_out or isinstance(X, BinnedTable)) and not self._searches_shards():
            raise ValueError(
                f"X is a {type(X).__name__}, which needs formulation='one_slack', weak_learner='stump' and a pricing "
                "by name; give X as arrays."
            )
        if spread_out:
            from structboost.engines.dask_cluster import DaskCluster
            from structboost.engines.dask_examples import dask_examples

            if not isinstance(engine, DaskCluster):
                raise ValueError(f"X is a Dask {type(X).__name__}; engine is {self.engine!r}, take engine='dask'.")
            return dask_examples(self.task, X, Y)
        if len(X) != len(Y):
            raise ValueError(f"X has {len(X)} examples and Y {len(Y)}; they must be equally many.")
        if not len(X):
            raise ValueError("X is empty; give at least one example.")
        return (TableExamples if isinstance(X, BinnedTable) else HomeExamples)(self.task, X, Y)

    def _identity(self, examples: Examples, weights: NDArray[np.float64]) -> str:
        """What a checkpoint must have in common with the run that goes on from it; cuts are compared besides."""
        rule = self.pricing if isinstance(self.pricing, str) else type(self.pricing).__name__
        names = ("C", "tol", "weak_learner", "exact", "columns_per_channel", "spread")
        parameters = {name: getattr(self, name) for name in names}
        kinds = {kind: [of_kind.n_channels, *of_kind.response] for kind, of_kind in self.task.kinds.items()}
        about = {**parameters, "pricing": rule, "task": type(self.task).__name__, "kinds": kinds}
        return identity_of({**about, "n_features": dict(examples.n_features)}, [weights, *examples.offsets.values()])

    def _searches_shards(self) -> bool:
        """Whether stumps are searched where the shards are: a rule of the user's may ask more of a family."""
        by_name = self.weak_learner == "stump" and not isinstance(self.pricing, PricingRule)
        return by_name and self._formulation().works_on_shards

    def _families(self, examples: Examples, engine: Engine) -> dict[str, WeakLearnerFamily]:
        """Families of weak learners of each kind."""
        kinds = self.task.kinds
        if self._searches_shards():
            return {
                kind: ShardedStumps(examples.bins(kind, exact=self.exact), of_kind.response)
                for kind, of_kind in kinds.items()
            }
        assert isinstance(examples, HomeExamples)
        make_family = self.weak_learner if callable(self.weak_learner) else registry.family(self.weak_learner)
        n_threads = engine.n_workers if isinstance(engine, Threads) else 1
        return {
            kind: make_family(examples.stack.rows[kind], of_kind.response, exact=self.exact, n_threads=n_threads)
            for kind, of_kind in kinds.items()
        }


class _Run:
    """One run of the loop: the state between rounds."""

    def __init__(
        self,
        trainer: StructBoost,
        master: RestrictedMaster,
        columns: ColumnRegistry,
        group: ShardGroup | None,
        began: float,
    ) -> None:
        self.trainer = trainer
        self.master = master
        self.columns = columns
        self.group = group
        self.began = began
        self.rule = trainer.pricing if isinstance(trainer.pricing, PricingRule) else RULES[trainer.pricing]()
        self.rule.bind(master)
        self.bound: float | None = None
        self.calls_before = master.oracle_calls
        self.checkpoints: CheckpointWriter | None = None
        self.stages: list[ColumnWeights] = []

    def go_on(self, trainer: StructBoost) -> _Run:
        """The same state for another C."""
        began = time.perf_counter()
        self.master.set_C(trainer.C)
        return _Run(trainer, self.master, self.columns, self.group, began)

    def close(self) -> None:
        """Let go of the shards."""
        if self.group is not None:
            self.group.close()

    def boost(self) -> None:
        """The loop of Algorithm 1; leaves the fitted attributes on the trainer."""
        trainer = self.trainer
        trainer.history_ = []
        trainer.interrupted_ = False
        self.stages = []
        callbacks = [*(trainer.callbacks or [])]
        bar = ProgressBar(trainer.tol, trainer.max_rounds) if trainer.verbose else None
        if bar is not None:
            callbacks.insert(0, bar)
        trainer._run = self
        try:
            self._boost(callbacks)
        except KeyboardInterrupt:
            trainer.interrupted_ = True
            warnings.warn(
                f"Training was interrupted after {len(trainer.history_)} rounds; the model kept so far is usable.",
                InterruptedFitWarning,
                stacklevel=4,
            )
        finally:
            trainer._run = None
            if bar is not None:
                bar.close()
        self._keep_model(self.stages)

    def _boost(self, callbacks: Sequence[Callback]) -> None:
        """The rounds, from the checkpoint on where there is one."""
        trainer = self.trainer
        exhausted, done = self._resume()
        if np.isinf(self.master.risk):
            self.master.solve(max(trainer.tol, _FINEST))
        priced = self._price()
        for round_ in range(len(trainer.history_) + 1, trainer.max_rounds + 1):
            if done:
                break
            n_new = self.columns.add(priced.columns)
            left = self._gap() or 0.0
            # Without new columns only a better solution of this master can help.
            tolerance = max(_INNER_SHARE * left if n_new else 0.0, _INNER_SHARE * trainer.tol, _FINEST)
            self.master.solve(tolerance, self.columns.selected)
            if self.master.drops_idle_columns:
                self.columns.drop_idle(_MAX_IDLE_ROUNDS)
            priced = self._price()
            self.stages.append(self.columns.weights())
            self._record(round_)
            exhausted = 0 if n_new or priced.largest_edge > self._min_edge else exhausted + 1
            done = self._stop(callbacks) or exhausted >= self.rule.patience
            if self.checkpoints is not None and (done or round_ == trainer.max_rounds or self.checkpoints.is_due()):
                self._write_checkpoint(exhausted, done)
        gap = self._gap()
        if trainer.spread and self.bound and gap is not None and gap < trainer.spread:
            self.master.spread(self.bound / (1.0 - trainer.spread))
            self.stages.append(self.columns.weights())
            self._record(len(trainer.history_) + 1)

    def _write_checkpoint(self, exhausted: int, done: bool) -> None:
        """All that the next rounds depend on."""
        assert self.checkpoints is not None
        assert isinstance(self.master, OneSlackMaster)
        numbers, of_master = self.master.state()
        learners, of_columns = self.columns.state()
        header = {
            "history": self.trainer.history_, "bound": self.bound, "exhausted": exhausted, "done": done,
            "master": numbers, **learners,
        }  # fmt: skip
        arrays = {
            "stage_sizes": np.array([len(stage.numbers) for stage in self.stages], np.int64),
            "stage_numbers": np.concatenate([stage.numbers for stage in self.stages]),
            "stage_weights": np.concatenate([stage.weights for stage in self.stages]),
        }
        for owner, own in (("master", of_master), ("columns", of_columns)):
            arrays |= {f"{owner}/{name}": array for name, array in own.items()}
        self.checkpoints.write(header, arrays)

    def _resume(self) -> tuple[int, bool]:
        """Go to the checkpoint, if any; returns how long pricing was exhausted, and whether all was done."""
        found = None if self.checkpoints is None else self.checkpoints.read()
        if found is None:
            return 0, False
        assert isinstance(self.master, OneSlackMaster)
        header, arrays = found
        self.columns.restore(header, _own_arrays("columns", arrays))
        self.master.restore(header["master"], _own_arrays("master", arrays))
        ends = np.cumsum(arrays["stage_sizes"])[:-1]
        numbers, weights = (np.split(arrays[f"stage_{name}"], ends) for name in ("numbers", "weights"))
        self.stages = [ColumnWeights(*stage) for stage in zip(numbers, weights, strict=True)]
        self.trainer.history_ = list(header["history"])
        self.bound = header["bound"]
        self.began = time.perf_counter() - self.trainer.history_[-1]["seconds"]
        return int(header["exhausted"]), bool(header["done"])

    def current_model(self) -> Ensemble:
        """The model kept so far, for callbacks."""
        final = self.columns.weights()
        return self.columns.ensemble(self.trainer.task.kinds, final, [final], {})

    def _price(self) -> Priced:
        """Columns for the next round, and the lower bound that their edges give (fact 5)."""
        trainer = self.trainer
        priced = self.rule.price(
            self.columns.families, self.master.duals(), trainer.columns_per_channel, self._min_edge
        )
        bound = self.master.bound(priced.largest_edge)
        if bound is not None:
            # What is proved over fewer columns than may come does not outlive them.
            best = bound if self.bound is None or not self.rule.covers_family else max(self.bound, bound)
            self.bound = best
        return priced

    @property
    def _min_edge(self) -> float:
        """Edge from which a column is violated."""
        return self.master.min_edge * (1 + _EDGE_TOLERANCE)

    @property
    def certified(self) -> bool:
        """Whether the primal is exact and the bound holds for the whole family of weak learners."""
        exact_pricing = self.rule.covers_family and all(f.exact_pricing for f in self.columns.families.values())
        return self.bound is not None and exact_pricing and self.trainer.task.exact_argmax

    def _gap(self) -> float | None:
        """Relative gap; None without a bound."""
        if self.bound is None:
            return None
        primal = self.master.primal
        return max(0.0, (primal - self.bound) / primal) if primal > 0 else 0.0

    def _record(self, round_: int) -> None:
        self.trainer.history_.append(
            {
                "round": round_,
                "primal": self.master.primal,
                "bound": self.bound,
                "gap": self._gap(),
                "certified": self.certified,
                "cuts": self.master.n_cuts,
                "columns": int(np.count_nonzero(self.master.weights)),
                "oracle_calls": self.master.oracle_calls - self.calls_before,
                "seconds": time.perf_counter() - self.began,
            }
        )

    def _stop(self, callbacks: Sequence[Callback]) -> bool:
        record = self.trainer.history_[-1]
        asked = [callback(record, self.trainer) for callback in callbacks]
        reached = self.rule.covers_family and record["gap"] is not None and record["gap"] <= self.trainer.tol
        return bool(reached or any(answer is True for answer in asked))

    def _keep_model(self, stages: list[ColumnWeights]) -> None:
        trainer = self.trainer
        trainer.objective_ = self.master.primal
        metadata = {
            "C": float(trainer.C),
            "objective": trainer.objective_,
            "history": trainer.history_,
            "formulation": str(trainer.formulation),
            "certified": self.certified,
        }
        final = self.columns.weights()
        trainer.model_ = self.columns.ensemble(trainer.task.kinds, final, stages, metadata)


def _own_arrays(owner: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays whose names begin with that of their owner, without it."""
    prefix = f"{owner}/"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _predict(task: Task, model: Ensemble, X: Sequence[Any]) -> list[Any]:
    """Predictions of ``task`` with the scores of ``model``."""
    if not len(X):
        raise ValueError("X is empty; give at least one input.")
    stack = task.stack(X)
    scores = StackedParts({kind: model.scores(rows, kind) for kind, rows in stack.rows.items()}, stack.offsets)
    return [task.predict(X[i], scores.example(i)) for i in range(len(X))]
