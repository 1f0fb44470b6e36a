"""
Classes in a tree
=================

Wrong classes cost the height of the first common ancestor, and classes of a branch share weak
learners. This tree is made by hand, of digits that look alike.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split

from structboost import StructBoostClassifier

taxonomy = [[0, 6, 8, 9], [1, 4, 7], [2, 3, 5]]  # round digits, straight ones, the others
order = np.concatenate(taxonomy)
branch = np.empty(10, int)
for number, digits in enumerate(taxonomy):
    branch[digits] = number

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=500, random_state=0)

# %%
# With the tree and without it, at the same settings. Confusions with digits of the same branch cost
# half, so there are more of them. Confusions with other branches are as frequent as without the
# tree: it was not learned from these pictures, so compare both before you take a tree of your own.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for axis, tree in zip(axes, (None, taxonomy), strict=True):
    model = StructBoostClassifier(objective="hinge", C=30, tol=0.05, taxonomy=tree).fit(
        X_train, y_train
    )
    found = model.predict(X_test)
    error = np.mean(found != y_test)
    other_branch = np.mean(branch[found] != branch[y_test])
    ConfusionMatrixDisplay.from_predictions(
        y_test, found, labels=order, ax=axis, colorbar=False, cmap="Blues", text_kw={"size": 7}
    )
    axis.set_title(
        f"{'with the tree' if tree else 'without a tree'}: {error:.1%} wrong,\n"
        f"{other_branch:.1%} in another branch"
    )
plt.show()
