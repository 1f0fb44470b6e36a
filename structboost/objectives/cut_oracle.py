"""Contract of the oracles of cuts, by which hinge masters see the training examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from structboost._typing import AnyArray, BoolArray, FloatArray
from structboost.contract.separation import KeptTruth
from structboost.files.archive import Schema
from structboost.learners.terms import Terms, TermsByKind
from structboost.runtime.called_class import Described


class Cut(NamedTuple):
    """A cut ``slack >= loss - <measure, scores>``.

    Parameters
    ----------
    key : int
        Key under which the oracle stores the measure.
    loss : float
        Mean loss of the outputs of the cut.
    """

    key: int
    loss: float


class ColumnOracle(ABC):
    """Training examples as a hinge master sees them, through the terms of the columns so far.

    Learners come before the columns that refer to them: :meth:`add_responses`, then
    :meth:`add_columns`.

    Parameters
    ----------
    kinds : iterable of str
        Kinds of the parts.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples in the risk, with sum 1.
    exact : bool
        Whether the argmax claims to be exact.

    Attributes
    ----------
    columns : TermsByKind
        Terms of the columns so far.
    calls : int
        Passes of the loss-augmented argmax over all examples.
    """

    def __init__(self, kinds: Iterable[str], example_weights: FloatArray, exact: bool) -> None:
        self.columns = TermsByKind(kinds)
        self.example_weights = example_weights
        self.exact = exact
        self.calls = 0
        self._truth = KeptTruth()

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.columns.n_columns

    @abstractmethod
    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind, as :meth:`WeightedColumns.add_responses`, dense or sparse."""

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns, as :meth:`WeightedColumns.add_columns`."""
        self.columns.add(terms, n_new)

    def keep_columns(self, mask: BoolArray) -> None:
        """Drop the columns outside of the mask, and renumber the others."""
        self.columns.keep(mask)


class CutOracle(Described, ColumnOracle):
    """Cutting planes of the risk over the columns so far (1-slack form).

    A cut at weights w is a loss L and a measure V on all parts and channels.  With the products
    ``a_j = <V, response of column j>``, all weights v satisfy::

        risk(v) >= L - sum_j a_j v_j,   with equality at v = w

    Order of calls: :meth:`cut_at` makes a cut, :meth:`products` and :meth:`combine` take cuts that
    are stored, :meth:`forget` drops them for good.  The training set stays where the engine put it.

    Parameters and attributes are those of :class:`ColumnOracle`.
    """

    @abstractmethod
    def cut_at(self, weights: FloatArray) -> tuple[Cut, FloatArray, float]:
        """Compute the cut of the risk at given weights.

        Parameters
        ----------
        weights : ndarray, shape (n_columns,)
            Weights of the columns.

        Returns
        -------
        cut : Cut
            The oracle keeps its measure until :meth:`forget`.
        products : ndarray, shape (n_columns,)
            Products of the measure with the columns.
        risk : float
            The risk at ``weights``.
        """

    @abstractmethod
    def risk_at(self, weights: FloatArray) -> float:
        """Risk at given weights, without storing a cut.

        Parameters
        ----------
        weights : ndarray, shape (n_columns,)
            Weights of the columns.

        Returns
        -------
        risk : float
            Weighted mean of the structured hinge losses of the examples.
        """

    @abstractmethod
    def products(
        self, cuts: Sequence[Cut], terms: Mapping[str, Terms], n_columns: int
    ) -> FloatArray:
        """Products of cuts with columns.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        terms : dict of str to Terms
            Terms of the columns, by kind.
        n_columns : int
            Number of columns that ``terms`` make.

        Returns
        -------
        products : ndarray, shape (n_cuts, n_columns)
            Sum of measure times response over parts and channels.
        """

    @abstractmethod
    def combine(self, cuts: Sequence[Cut], multipliers: FloatArray) -> dict[str, Any]:
        """Sum of multiplier times measure over cuts, the duals (mu of StructBoost, (11)).

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        multipliers : ndarray, shape (n_cuts,)
            One for each cut, at least 0.

        Returns
        -------
        duals : dict of str to ndarray, shape (n_parts, n_channels)
            By kind; an object of this shape for kinds that stay in shards.
        """

    @abstractmethod
    def forget(self, cuts: Sequence[Cut]) -> None:
        """Drop cuts for good.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        """

    @abstractmethod
    def state(self, cuts: Sequence[Cut]) -> dict[str, AnyArray]:
        """Arrays from which :meth:`restored_cuts` restores the cuts.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.

        Returns
        -------
        arrays : dict of str to ndarray
            They fit :meth:`schema`.
        """

    @abstractmethod
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        """Names, types and shapes that the arrays of :meth:`state` must have.

        Parameters
        ----------
        n_learners : dict of str to int
            Number of learners of each kind.

        Returns
        -------
        schema : Schema
            Their names, types and shapes.
        """

    @abstractmethod
    def restored_cuts(self, arrays: Mapping[str, AnyArray], n_cuts: int) -> list[Cut]:
        """Cuts of a state.

        Parameters
        ----------
        arrays : dict of str to ndarray
            A state that :meth:`schema` accepted.
        n_cuts : int
            Number of its cuts.

        Returns
        -------
        cuts : list of Cut
            In the order of the state.

        Raises
        ------
        DamagedFileError
            If the arrays do not hold ``n_cuts`` cuts.
        """
