"""Archives taken apart and put together."""

import io
import json

import numpy as np

from structboost.files import archive


def taken_apart(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes().decode())
    header.pop("checksum", None)
    return header, arrays


def put_together(header, arrays, *, sealed):
    """A file of today's layout with the right checksum, or of the layout that had none."""
    plain = json.loads(json.dumps(header))
    if sealed:
        plain = {**plain, "checksum": archive._checksum(plain, arrays)}
    out = io.BytesIO()
    archive._write(out, json.dumps(plain).encode(), arrays)
    return out.getvalue()


def crafted(path, change):
    """Change the header and the arrays of a file, and put its checksum right."""
    header, arrays = taken_apart(path.read_bytes())
    change(header, arrays)
    path.write_bytes(put_together(header, arrays, sealed=True))


def array_of(name, value):
    """Return the change of all entries of an array."""

    def change(header, arrays):
        arrays[name] = np.full_like(arrays[name], value)

    return change


def header_of(value, *names):
    """Return the change of a value of the header, which is named by the way to it."""

    def change(header, arrays):
        for name in names[:-1]:
            header = header[name]
        header[names[-1]] = value

    return change
