"""Joint features of a task by their plain definition."""

import numpy as np


def dense_features(task, x, y):
    """M(x, y) of each kind as an array of its parts and channels."""
    parts, joint = task.parts(x), task.joint_feature(x, y)
    if not isinstance(parts, dict):
        (kind,) = task.kinds
        parts, joint = {kind: parts}, {kind: joint}
    out = {kind: np.zeros((len(parts[kind]), p.n_channels)) for kind, p in task.kinds.items()}
    for kind, dense in out.items():
        if isinstance(joint[kind], tuple):
            rows, channels, values = map(np.asarray, joint[kind])
            np.add.at(dense, (rows.astype(int), channels.astype(int)), values)
        else:
            dense += np.reshape(joint[kind], dense.shape)
    return out
