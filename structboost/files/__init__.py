"""Files that are written whole or not at all, and checked before they are used."""

from structboost.files.schema import Array, DamagedFileError, Part, Schema

__all__ = ["Array", "DamagedFileError", "Part", "Schema"]
