"""Files of compiled code that are checked before they are run.

numba pickles compiled code into files.  A file that a crash or a full disk cut short makes each
later call fail, and one with a wrong byte may end the interpreter.  Here each file begins with a
digest of what follows.  A file that does not agree with it is compiled again.
"""

from __future__ import annotations

import hashlib
import pickle
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

from structboost._typing import override
from structboost.errors import warn_user

# numba is typed in parts only.
_FunctionCache: Any = caching.FunctionCache
_Files: Any = caching.IndexDataCacheFile
_N_BYTES = hashlib.sha256().digest_size
# Files of other versions of numba, or of this package, are written anew without a warning.
try:
    _VERSION = f"{numba.__version__}, structboost {version('structboost-learn')}"
except PackageNotFoundError:  # a checkout that is not installed
    _VERSION = f"{numba.__version__}, structboost"
# Damaged files, and folders that cannot be written, each of which is reported once.
_reported: set[str] = set()


class CheckedCache(_FunctionCache):
    """Cache of a compiled function, which neither trusts its files nor needs them.

    A damaged file gives a warning that names it, and so does a folder that cannot be written.

    Parameters
    ----------
    function : callable
        The function that is compiled.

    Raises
    ------
    RuntimeError
        If there is no folder for the files.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    @override
    def load_overload(self, sig: Any, target_context: Any) -> Any:
        self._cache_file.last_read = None
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _warn_of_damage(self._cache_file.last_read or self._cache_path, error)
            return None

    @override
    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(
                self._cache_path,
                f"Compiled code cannot be written to {self._cache_path} ({error}), so it is "
                "compiled in each run; set NUMBA_CACHE_DIR to a folder that can be written.",
            )


class _CheckedFiles(_Files):
    """The index of a function and its compiled forms, a file each, with digests."""

    last_read: str | None = None

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        super().__init__(cache_path, filename_base, source_stamp)
        self._version = _VERSION

    @override
    def _dump(self, obj: Any) -> bytes:
        data: bytes = super()._dump(obj)
        return hashlib.sha256(data).digest() + data

    @override
    def _load_index(self) -> Any:
        try:
            with open(self._index_path, "rb") as file:
                if pickle.load(file) != self._version:
                    return {}
                stamp, overloads = _checked(file.read())
        except FileNotFoundError:
            return {}
        except Exception as error:
            _warn_of_damage(self._index_path, error)
            return {}
        return overloads if stamp == self._source_stamp else {}

    @override
    def _load_data(self, name: str) -> Any:
        self.last_read = self._data_path(name)
        return _checked(Path(self.last_read).read_bytes())


def _checked(content: bytes) -> Any:
    """Unpickle what follows a digest, or raise ValueError."""
    digest, data = content[:_N_BYTES], content[_N_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        raise ValueError("it was cut short or changed")
    return pickle.loads(data)


def _warn_of_damage(path: str, error: Exception) -> None:
    reason = str(error) or type(error).__name__
    _warn_once(
        path, f"The compiled file {path} is damaged ({reason}); its function is compiled again."
    )


def _warn_once(path: str, message: str) -> None:
    if path not in _reported:
        _reported.add(path)
        warn_user(message, RuntimeWarning)
