"""
Sets of labels
==============

A photograph may show a beach, a sunset, both or none. The loss that you name decides which sets
are predicted.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score, hamming_loss, zero_one_loss

from structboost import StructBoostMultiLabelClassifier

X, Y = make_multilabel_classification(1500, 12, n_classes=5, n_labels=2, random_state=3)
train, test = slice(0, 300), slice(300, None)
measures = {
    "fraction of wrong labels": hamming_loss,
    "fraction of wrong sets": zero_one_loss,
    "1 - F1 of a set": lambda truth, found: (
        1 - f1_score(truth, found, average="samples", zero_division=1)
    ),
}
losses = ("hamming", "subset", "f1")

# %%
# Train for each loss, and measure all of them:

table = np.empty((3, 3))
for row, loss in enumerate(losses):
    model = StructBoostMultiLabelClassifier(loss=loss)
    found = model.fit(X[train], Y[train]).predict(X[test])
    table[row] = [measure(Y[test], found) for measure in measures.values()]

figure, axis = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
times_best = table / table.min(axis=0)
axis.imshow(times_best, cmap="Blues", vmin=1.0, vmax=1.6, aspect="auto")
for (row, column), value in np.ndenumerate(table):
    ink = "white" if times_best[row, column] > 1.35 else "black"
    axis.text(column, row, f"{value:.3f}", ha="center", va="center", color=ink)
axis.set_xticks(range(3), list(measures))
axis.set_yticks(range(3), [f"trained for {loss}" for loss in losses])
axis.set_title("test loss; the darker, the further above the best of its column", fontsize=10)
plt.show()
