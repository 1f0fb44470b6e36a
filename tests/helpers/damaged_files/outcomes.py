"""What comes of a damaged file."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

from structboost.errors import BinnedTableError, CheckpointError, ModelFileError, TaskError
from tests.helpers.damaged_files.damages import variant
from tests.helpers.damaged_files.kinds import KINDS

# TaskError: the file is of another task than it is loaded for.
ERRORS = (ModelFileError, CheckpointError, BinnedTableError, TaskError)


class Originals:
    """Files as they were saved, made once each, and what they are used for."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.files = {}

    def of(self, name):
        if name not in self.files:
            kind, own = KINDS[name], self.folder / name
            own.mkdir()
            kind.make(own)
            files = {
                str(path.relative_to(own)): path.read_bytes()
                for path in own.rglob("*")
                if path.is_file()
            }
            self.files[name] = files, self.used(name, files)
        return self.files[name]

    def copy(self, name, folder):
        """Write the files of a kind into a folder."""
        write(self.of(name)[0], folder)

    def used(self, name, files):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            write(files, Path(folder))
            return repr(KINDS[name].use(Path(folder)))


def write(files, folder):
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)


def outcome(originals, name, seed):
    """What comes of one variant: ``refused``, ``the same``, ``another``, or what must not be."""
    files, expected = originals.of(name)
    random = np.random.default_rng(seed)
    content, how, must_be_equal = variant(files[KINDS[name].file], random)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = originals.used(name, {**files, KINDS[name].file: content})
    except ERRORS:
        return "refused", how
    except Exception as error:
        return f"RAW {type(error).__name__}: {str(error)[:150]}", how
    if found == expected:
        return "the same", how
    return ("DIFFERENT" if must_be_equal else "another"), how
