"""One linear function on standardised features as a model, its C chosen by held-out examples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray
from structboost.contract.calls import mean_loss, model_predictions
from structboost.ensemble import Ensemble, KindEnsemble
from structboost.exceptions import examples_numbered
from structboost.linear.linear_scores import is_bounded
from structboost.linear.structured_svm import StructuredSVM
from structboost.selection.folds import Fold
from structboost.task import PartKind, StackedParts, Task
from structboost.weak.active_feature import ActiveFeatureFamily, ActiveFeatureTable
from structboost.weak.linear_function import LinearFunctionTable
from structboost.weak.standardisation import Standardisation

AUTO = "auto"
# The C that are tried, until the held-out loss has not fallen twice.
_FACTOR = 10**0.5
_SMALLEST = 0.1
_MAX_STEPS = 12
_PATIENCE = 2
# Near the best C the held-out loss does not tell a gap of a few percent from none.
_COARSE = 0.1
_COARSE_EPOCHS = 30


@dataclass(eq=False, repr=False)
class LinearTrainer:
    """A :class:`structboost.StructuredSVM` on standardised features, kept as an Ensemble.

    Each channel of each kind has one linear function of weight 1.

    Parameters
    ----------
    task : Task
    C : float or "auto"
        Weight of the mean loss against half the squared norm of the standardised weights.
        ``"auto"`` takes the C of the smallest loss on the folds given to :meth:`fit`.
    tol, random_state, verbose, active
        As in :class:`structboost.StructuredSVM`; ``active`` kinds are not standardised.
    max_rounds : int
        Most exact passes.

    Attributes
    ----------
    model_, history_, objective_, interrupted_, C_, C_path_
        As in :class:`structboost.StructBoost`.
    """

    task: Task
    _: KW_ONLY
    C: float | str
    tol: float
    max_rounds: int
    random_state: Any = None
    verbose: int = 0
    active: Sequence[str] = ()
    model_: Ensemble = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)
    objective_: float = field(init=False)
    interrupted_: bool = field(init=False)
    C_: float = field(init=False)
    C_path_: list[dict[str, Any]] = field(init=False)

    def fit(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        sample_weight: Any = None,
        *,
        folds: Sequence[Fold] | None = None,
    ) -> Self:
        """Train on examples, and choose C on folds before if it is ``"auto"``.

        Raises
        ------
        ValueError, TypeError, TaskError
            If a parameter or an argument is out of its range.
        """
        self.C_path_ = []
        if self.C == AUTO:
            self.C_ = self._chosen_C(folds or [])
        else:
            self.C_ = self.C  # type: ignore[assignment]
        svm, self.model_ = self._fit(X, Y, sample_weight, self.C_)
        self.history_, self.interrupted_ = svm.history_, svm.interrupted_
        self.objective_, self.C_ = svm.objective_, float(self.C_)
        return self

    def _chosen_C(self, folds: Sequence[Fold]) -> float:
        """The C of the smallest held-out loss; the first of equals."""
        coarse = LinearTrainer(
            self.task,
            C=1.0,
            tol=max(self.tol, _COARSE),
            max_rounds=min(self.max_rounds, _COARSE_EPOCHS),
            random_state=self.random_state,
            active=self.active,
        )
        C = _SMALLEST
        for _ in range(_MAX_STEPS):
            self.C_path_.append(coarse._tried(C, folds))
            losses = [entry["loss"] for entry in self.C_path_]
            best = int(np.argmin(losses))
            if not losses[best] or len(losses) > best + _PATIENCE:
                break
            C = float(f"{C * _FACTOR:.3g}")
        return float(self.C_path_[best]["C"])

    def _tried(self, C: float, folds: Sequence[Fold]) -> dict[str, Any]:
        began = time.perf_counter()
        losses, rounds, columns = [], [], []
        for fold in folds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                with examples_numbered(fold.rows):
                    svm, model = self._fit(fold.X, fold.Y, fold.sample_weight, C)
            if svm.interrupted_:
                raise KeyboardInterrupt
            with examples_numbered(fold.held_rows):
                found = model_predictions(self.task, model, fold.held_X)
                losses.append(mean_loss(self.task, fold.held_Y, found, fold.held_weight))
            rounds.append(len(svm.history_))
            columns.append(svm.history_[-1]["columns"])
        return {
            "weak_learner": "linear",
            "C": C,
            "loss": float(np.mean(losses)),
            "losses": losses,
            "columns": float(np.mean(columns)),
            "rounds": float(np.mean(rounds)),
            "seconds": time.perf_counter() - began,
        }

    def _fit(
        self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any, C: float
    ) -> tuple[StructuredSVM, Ensemble]:
        svm = _Standardised(
            self.task,
            C=C,
            tol=self.tol,
            max_epochs=self.max_rounds,
            random_state=self.random_state,
            verbose=self.verbose,
            active=self.active,
        )
        svm.fit(X, Y, sample_weight)
        return svm, svm.model()


class _Standardised(StructuredSVM):
    """A structured SVM on features that it standardises."""

    def _stack(self, X: Sequence[Any]) -> StackedParts:
        stack = super()._stack(X)
        self._scales = {
            kind: Standardisation.of(rows, self.task.kinds[kind].response)
            for kind, rows in stack.rows.items()
            if kind not in self.active
        }
        self._widths = {kind: rows.shape[1] for kind, rows in stack.rows.items()}
        rows = {
            kind: z.rows(stack.rows[kind])[:, : len(z.scales)] for kind, z in self._scales.items()
        }
        return StackedParts({**stack.rows, **rows}, stack.offsets)

    def model(self) -> Ensemble:
        """The weights as linear functions of features that are not standardised."""
        matrices = self.w_ if isinstance(self.w_, dict) else dict.fromkeys(self._widths, self.w_)
        members, n_columns = {}, 0
        for kind, part in self.task.kinds.items():
            weights, numbers = matrices[kind], np.arange(part.n_channels)
            n_columns += part.n_channels
            if kind in self.active:
                first = n_columns - part.n_channels
                members[kind] = _of_single_features(weights, part, self._widths[kind], first)
                continue
            z = self._scales[kind]
            coefficients = weights[: len(z.scales)].T / z.scales
            intercept = -coefficients @ z.centers + (weights[-1] if z.bias else 0.0)
            spread = np.where(np.isfinite(z.scales), z.scales, 0.0)
            members[kind] = KindEnsemble(
                family="linear",
                learners=LinearFunctionTable(coefficients, intercept, z.centers, spread),
                columns=n_columns - part.n_channels + numbers,
                term_learners=numbers,
                channels=numbers,
                coefficients=np.ones(len(numbers)),
                n_features=len(z.scales),
            )
        facts = {"C": float(self.C), "history": self.history_, "objective": self.objective_}
        ones = np.ones(n_columns)
        return Ensemble(self.task.kinds, members, ones, ones[None], facts)


def _of_single_features(
    weights: FloatArray, part: PartKind, width: int, first: int
) -> KindEnsemble:
    """Weights of active features, the bias last, as single features: a column per channel."""
    used = np.flatnonzero(weights.any(axis=1))
    n_features = len(weights) - (not is_bounded(part))
    feature = np.where(used < n_features, used, -1).astype(np.int64)
    place, channel = np.nonzero(weights[used])
    ones = np.ones(len(used))
    return KindEnsemble(
        family=ActiveFeatureFamily.name,
        learners=ActiveFeatureTable(feature, np.where(feature < 0, 1.0, 0.0), ones),
        columns=first + channel.astype(np.int64),
        term_learners=place.astype(np.int64),
        channels=channel.astype(np.int64),
        coefficients=weights[used][place, channel],
        n_features=width,
    )
