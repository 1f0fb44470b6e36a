"""Classes that have names, and extras, imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from structboost.errors import MissingExtraError
from structboost.validation import checked_choice


class Registry:
    """Plug-ins of a parameter by name, each at ``"module:attribute"``."""

    def __init__(self, argument: str, places: Mapping[str, str]) -> None:
        self._argument = argument
        self._places: dict[str, Any] = dict(places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._places

    def check(self, name: Any) -> str:
        """Return ``name`` if it is registered, or raise a ValueError that lists all names."""
        return checked_choice(name, self._argument, tuple(self._places))

    def __getitem__(self, name: Any) -> Any:
        """Return the plug-in called ``name``, or raise ValueError if there is none."""
        place = self._places[self.check(name)]
        if isinstance(place, str):
            module, attribute = place.split(":")
            place = self._places[name] = getattr(importlib.import_module(module), attribute)
        return place

    def name_of(self, plug_in: type) -> str | None:
        """Name of a class, or None if it is not registered."""
        places = plug_in, f"{plug_in.__module__}:{plug_in.__name__}"
        return next((name for name, place in self._places.items() if place in places), None)

    def add(self, name: str, plug_in: Any) -> None:
        """Register a plug-in, or raise ValueError if another one has its name."""
        if name in self._places and self[name] is not plug_in:
            raise ValueError(
                f"{self._argument}={name!r} is already {self[name]!r}; choose another name."
            )
        self._places[name] = plug_in


# Modules by extra, and the names of their distributions.  What PyMaxflow does works without it.
EXTRAS = {
    "vision": {"av": "av", "cv2": "opencv-python", "PIL": "pillow", "skimage": "scikit-image"},
    "plot": {"matplotlib": "matplotlib"},
    "onnx": {"onnx": "onnx"},
    "distributed": {"dask": "dask", "distributed": "distributed"},
}


def require(extra: str, purpose: str, *modules: str) -> None:
    """Raise MissingExtraError if packages of one of `EXTRAS` are missing, without importing them.

    ``purpose`` is what needs them, the subject of the message.  ``modules`` are those that are
    needed, by default all of the extra.
    """
    names = EXTRAS[extra]
    missing = [names[module] for module in modules or names if not is_installed(module)]
    if missing:
        raise MissingExtraError(
            f"{purpose} needs {', '.join(missing)}, not installed here: pip install "
            f'"structboost-learn[{extra}]", or in a checkout pip install -e ".[{extra}]".'
        )


def is_installed(module: str) -> bool:
    """Whether a module is imported, or there is a file to import."""
    if module in sys.modules:
        return sys.modules[module] is not None  # None forbids the import
    return find_spec(module) is not None


def pyplot(purpose: str) -> Any:
    """Import ``matplotlib.pyplot``, or name the extra that brings it."""
    require("plot", purpose)
    import matplotlib.pyplot as plt

    return plt
