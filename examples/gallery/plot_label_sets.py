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

X, Y = make_multilabel_classification(800, 12, n_classes=5, n_labels=2, random_state=3)
train, test = slice(0, 400), slice(400, None)
measures = {
    "share of wrong labels": hamming_loss,
    "share of wrong sets": zero_one_loss,
    "1 - F1 of a set": lambda truth, found: (
        1 - f1_score(truth, found, average="samples", zero_division=1)
    ),
}
losses = ("hamming", "subset", "f1")

# %%
# Train for each loss, and measure all of them:

table = np.empty((3, 3))
for row, loss in enumerate(losses):
    model = StructBoostMultiLabelClassifier(C=300, loss=loss, tol=0.1, max_rounds=15)
    found = model.fit(X[train], Y[train]).predict(X[test])
    table[row] = [measure(Y[test], found) for measure in measures.values()]

figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
axis.imshow(table / table.min(axis=0), cmap="Blues", vmax=1.6)
for (row, column), value in np.ndenumerate(table):
    axis.text(column, row, f"{value:.3f}", ha="center", va="center")
axis.set_xticks(range(3), list(measures))
axis.set_yticks(range(3), [f"trained for {loss}" for loss in losses])
plt.show()
