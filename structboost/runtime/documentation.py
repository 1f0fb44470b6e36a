"""Link to the documentation that a notebook shows beside an estimator."""

from __future__ import annotations

from copy import copy
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import TYPE_CHECKING, Any, Self

from structboost.runtime.called_class import (
    NamesParameters,
    name_arguments_of_methods,
    parameters_of,
)
from structboost.runtime.elsewhere import advice, hint

__all__ = ["Documented"]


class Documented(NamesParameters):
    """Estimator whose calls are checked, and whose page scikit-learn links to in its HTML view.

    The address is the URL ``Documentation`` in the metadata of the installed package.  Without it
    there is no link.
    """

    # Attributes for third parties (docstring of scikit-learn's mixin of documentation links).
    _doc_link_module = "structboost"
    _public_package = "structboost"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name_arguments_of_methods(cls)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        try:
            return str(super().__repr__(N_CHAR_MAX))  # type: ignore[call-arg]
        except RecursionError:  # lists are nested too deeply in a parameter
            return f"{type(self).__name__}(...)"

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # scikit-learn reads the signature anew for each get_params.
        return list(super()._get_param_names())  # type: ignore[misc]

    def __sklearn_clone__(self) -> Self:
        try:
            return super().__sklearn_clone__()  # type: ignore[misc,no-any-return]
        except RecursionError:  # such a parameter is shared instead of copied
            parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
            copied = type(self)(**parameters)
            for name in ("_metadata_request", "_sklearn_output_config"):
                if hasattr(self, name):
                    setattr(copied, name, copy(getattr(self, name)))
            return copied

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator, and return it.

        Raises
        ------
        ValueError
            If there is no such parameter.  The message names the closest one.
        """
        names = list(self.get_params(deep=False))  # type: ignore[attr-defined]
        for name in params:
            if "__" not in name and name not in names:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}; "
                    f"{hint(name, names)}"
                )
        return super().set_params(**params)  # type: ignore[misc,no-any-return]

    if not TYPE_CHECKING:  # it would let all names pass

        def __getattr__(self, name):
            if text := advice(name, [p.name for p in parameters_of(type(self))]):
                raise AttributeError(f"{type(self).__name__} has no {name}; {text}")
            # Raises the error of the class, or of a property.
            return object.__getattribute__(self, name)

    @property
    def _doc_link_template(self) -> str:
        address = _address()
        if address is None:
            return ""
        return f"{address}/reference/{self._public_package}.{{estimator_name}}.html"


@cache
def _address() -> str | None:
    try:
        urls = metadata("structboost-learn").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(url.split(", ", 1) for url in urls)
    address = named.get("Documentation")
    return None if address is None else address.rstrip("/")
