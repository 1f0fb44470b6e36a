"""Files that are written whole or not at all, and checked before they are used."""

from structboost.files.archive import Array, DamagedFileError, Part
from structboost.files.archive import Schema as Schema  # a type, for annotations only

__all__ = ["Array", "DamagedFileError", "Part"]
