"""Archives taken apart and put together."""

from __future__ import annotations

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
