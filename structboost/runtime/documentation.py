"""The link to the documentation that a notebook shows beside an estimator."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

__all__ = ["Documented"]


class Documented:
    """An estimator whose page scikit-learn links to in its HTML view.

    The address is the one that the installed package names as ``Documentation`` among its URLs.
    Where it names none, there is no link.
    """

    # What scikit-learn asks third parties to set (docstring of its mixin of documentation links).
    _doc_link_module = "structboost"
    _public_package = "structboost"

    @property
    def _doc_link_template(self) -> str:
        address = _address()
        if address is None:
            return ""
        return f"{address}/reference/{self._public_package}.{{estimator_name}}.html"


@cache
def _address() -> str | None:
    """Address of the documentation site, without a slash at its end."""
    try:
        urls = metadata("structboost-learn").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(url.split(", ", 1) for url in urls)
    address = named.get("Documentation")
    return None if address is None else address.rstrip("/")
