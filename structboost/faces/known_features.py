"""Warning of tokens of which nothing was in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import IntArray
from structboost.errors import warn_user
from structboost.faces.token_names import TokenNames
from structboost.faces.token_table import TokenTable
from structboost.validation import shown

# Fraction of the tokens from which on "nearly all" of them have nothing that training had.
_NEARLY_ALL = 0.95
# Fraction of bare tokens in training below which bare ones need no unknown feature to be strange.
_RARE = 0.01
# Names of training among which the nearest is looked for.
_MOST_NAMES = 5000


@dataclass(frozen=True)
class KnownFeatures:
    """Features of training that distinguish tokens.

    Parameters
    ----------
    uninformative : ndarray of int64, shape (n,)
        Indices of features that no token of training had, or that each one had with the value 1,
        such as a bias.
    bare : float
        Fraction of the tokens of training that had no other features.
    """

    uninformative: IntArray
    bare: float

    @classmethod
    def of(cls, table: Any) -> KnownFeatures:
        """Learn them from the table of all tokens of training, a TokenTable or an array."""
        n_tokens, n_features = table.shape
        if isinstance(table, TokenTable):
            entries = table.entries
            n_ones = np.bincount(entries.indices[entries.data == 1], minlength=n_features)
            n_others = np.bincount(entries.indices[entries.data != 0], minlength=n_features)
            for columns, _, _ in table.blocks:
                n_others[columns] += 1
        else:
            n_ones, n_others = (table == 1).sum(axis=0), (table != 0).sum(axis=0)
        uninformative = np.flatnonzero((n_others == 0) | (n_ones == n_tokens)).astype(np.int64)
        bare = cls(uninformative, 0.0).bare_tokens(table)
        return cls(uninformative, float(bare.mean()) if n_tokens else 0.0)

    def bare_tokens(self, table: Any) -> NDArray[np.bool_]:
        """Return which tokens have no feature that distinguishes tokens of training."""
        is_known = np.ones(table.shape[1], bool)
        is_known[self.uninformative] = False
        if not isinstance(table, TokenTable):
            return np.asarray(~(table[:, is_known] != 0).any(axis=1))
        entries = table.entries
        counts = (entries.data != 0).astype(np.int32), entries.indices, entries.indptr
        has_known = sparse.csr_array(counts, table.shape) @ is_known.astype(np.int32) > 0
        for columns, rows, _ in table.blocks:
            has_known[rows] |= bool(is_known[columns].any())
        return np.asarray(~has_known)

    def warn(
        self,
        table: Any,
        lengths: IntArray,
        tokens: Sequence[Sequence[Mapping[Any, Any]]] | None,
        names: TokenNames | None,
    ) -> None:
        """Warn if nearly all tokens of an input have nothing that training had.

        ``tokens`` are those of the table if they are dicts, of features with these ``names``.
        """
        strange = np.flatnonzero(self.bare_tokens(table))
        least = _NEARLY_ALL * table.shape[0]
        if not len(strange) or len(strange) < least:
            return
        if tokens is None or names is None:
            features = [_columns(table, row) for row in strange.tolist()]
        else:
            flat = list(chain.from_iterable(tokens))
            features = [names.unknown_features(flat[row]) for row in strange.tolist()]
        if self.bare >= _RARE:  # they are strange only where they have other features
            strange = strange[[bool(of_token) for of_token in features]]
            features = [of_token for of_token in features if of_token]
            if not len(strange) or len(strange) < least:
                return
        i = int(np.searchsorted(np.cumsum(lengths), strange[0], side="right"))
        place = f"X[{i}][{strange[0] - lengths[:i].sum()}]"
        example = _example(features[0], None if tokens is None or names is None else names.names)
        warn_user(
            f"{len(strange)} of the {table.shape[0]} tokens of X have nothing that training had: "
            f"{place} has {example}.  Such tokens get the tags of any "
            "token.  Give tokens the names, values and features that they had in training.",
            UserWarning,
        )


def _columns(table: Any, row: int) -> list[str]:
    """Return the indices of the features of a token."""
    if not isinstance(table, TokenTable):
        return list(map(str, np.flatnonzero(table[row])))
    start, end = table.entries.indptr[row : row + 2]
    return list(map(str, table.entries.indices[start:end]))


def _example(features: Sequence[str], names: Sequence[str] | None) -> str:
    """Describe the features of a token in words, beside a near one of training."""
    if not features:
        return "no feature"
    if names is None:
        return f"only features that no token of training had, or each, such as column {features[0]}"
    plain = {name.casefold(): name for name in names[:_MOST_NAMES]}
    near = get_close_matches(features[0].casefold(), plain, 1, 0.0)
    return f"{shown(features[0])}, and training had features such as {shown(plain[near[0]])}"
