"""
Training at scale
=================

An engine spreads training over cores and machines, and a table on disk may be larger than memory.
The model is the same.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from structboost import BinnedTable, StructBoostClassifier

X, y = make_classification(10_000, 20, n_informative=8, n_classes=3, random_state=0)
X = X.astype(np.float32)
settings = {"objective": "hinge", "C": 100, "tol": 0.05}

# %%
# In this process, on two processes, and from a table on disk:

folder = Path(tempfile.mkdtemp())
np.save(folder / "features.npy", X)
on_disk = BinnedTable.from_array(folder / "table", np.load(folder / "features.npy", mmap_mode="r"))
models = {
    "one thread": StructBoostClassifier(**settings, engine="serial").fit(X, y),
    "two processes": StructBoostClassifier(**settings, engine="processes", n_jobs=2).fit(X, y),
    "table on disk": StructBoostClassifier(**settings).fit(on_disk, y),
}
first, *others = models.values()
assert all(np.allclose(first.model_.weights, other.model_.weights) for other in others)
size = sum(file.stat().st_size for file in (folder / "table").iterdir())
print(f"{size / 1e6:.1f} MB on disk for {X.nbytes / 1e6:.1f} MB of features")

# %%
# One curve, three times:

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for (name, model), width in zip(models.items(), (8, 4, 1.5), strict=True):
    primal = [record["primal"] for record in model.history_]
    axis.plot(primal, lw=width, alpha=0.6, label=name)
axis.set(xlabel="round", ylabel="objective", yscale="log")
axis.legend()
plt.show()
