"""Base of the transformers of sentences, with their files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from structboost._typing import override
from structboost.files.archive import ArchiveFormat
from structboost.files.saved import LoadedFromFile
from structboost.runtime.documentation import Documented

Arrays = Mapping[str, NDArray[Any]]


class SavedTransformer(LoadedFromFile, TransformerMixin, Documented, BaseEstimator):
    """Transformer of sentences, stored in files without pickle.

    ``fit`` ends by :meth:`_keep_parameters`.  Parameters that are set later do not change what the
    transformer does until the next fit.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        # Tokens are no data frame, whatever the output of other transformers is set to.
        super().__init_subclass__(auto_wrap_output_keys=None, **options)

    _format: ClassVar[ArchiveFormat]
    _parameters: dict[str, Any]

    @override
    def save(self, path: str | PathLike[str]) -> None:
        fitted = self._as_fitted()
        header, arrays = fitted._contents()
        parameters = {name: _plain(value) for name, value in self._parameters.items()}
        self._format.write(path, {"parameters": parameters, **header}, arrays)

    @override
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        with cls._format.opened(path) as (header, arrays):
            loaded = cls(**header["parameters"])
            loaded._check_parameters()
            loaded._restore(header, arrays)
            loaded._keep_parameters()
        return loaded

    def _keep_parameters(self) -> None:
        """Note the parameters of the fit."""
        self._parameters = self.get_params()

    def _as_fitted(self) -> Self:
        """Return the transformer with the parameters of the fit, whatever was set later."""
        check_is_fitted(self)
        return copy(self).set_params(**self._parameters)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError if a parameter is out of its range."""

    @abstractmethod
    def _contents(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the plain values and the arrays that a file holds beside the parameters."""

    @abstractmethod
    def _restore(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Set the fitted attributes from what :meth:`_contents` returned."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_parameters")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def _plain(value: Any) -> Any:
    """Return a parameter as a header of a file holds it."""
    if isinstance(value, np.random.RandomState):
        return None
    is_list = not isinstance(value, str) and hasattr(value, "__iter__")
    return list(value) if is_list else value
