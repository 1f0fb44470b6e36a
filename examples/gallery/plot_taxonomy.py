"""
Classes in a tree
=================

Classes of a branch share weak learners, and the class of the least expected cost is predicted: an
error within a branch costs half. With few rows per class that helps: here each digit has twenty.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from structboost import StructBoostClassifier

X, y = load_digits(return_X_y=True)

# %%
# The tree is found on the training rows: digits whose mean pictures are close to each other are a
# branch. No setting is chosen, so nothing of the test rows is used.


def branches(X, y):
    """Branch of each digit, of three, by Ward's clusters of the mean pictures."""
    means = [X[y == digit].mean(axis=0) for digit in range(10)]
    return fcluster(linkage(means, "ward"), 3, "maxclust") - 1


def split(seed):
    return train_test_split(X, y, train_size=200, random_state=seed, stratify=y)


X_train, X_test, y_train, y_test = split(0)
branch = branches(X_train, y_train)
taxonomy = {f"branch {k}": np.flatnonzero(branch == k).tolist() for k in range(3)}
print(taxonomy)
model = StructBoostClassifier(taxonomy=taxonomy, random_state=0).fit(X_train, y_train)

# %%
# Ten splits, each with a tree of its own, beside classes without a tree. With the tree fewer test
# rows are put into another branch, and no more are wrong altogether.

figures = []
for seed in range(10):
    rows, others, labels, truth = split(seed)
    of_digit = branches(rows, labels)
    tree = {f"branch {k}": np.flatnonzero(of_digit == k).tolist() for k in range(3)}
    for taxonomy_or_none in (None, tree):
        fitted = StructBoostClassifier(taxonomy=taxonomy_or_none, random_state=0)
        predicted = fitted.fit(rows, labels).predict(others)
        figures.append([predicted != truth, of_digit[predicted] != of_digit[truth]])
percent = 100 * np.mean(figures, axis=2).reshape(10, 2, 2)
apart = percent[:, 1] - percent[:, 0]
for name, column in (("wrong", 0), ("in another branch", 1)):
    error = apart[:, column].std(ddof=1) / np.sqrt(10)
    print(f"{name}, with the tree less without: {apart[:, column].mean():+.2f} ± {error:.2f} %")

# %%
# To the left the confusions of the first split in the order of the branches, to the right the ten
# splits. Confusions within a branch are outlined.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
order = np.concatenate(list(taxonomy.values()))
counts = confusion_matrix(y_test, model.predict(X_test), labels=order)
left.imshow(np.where(np.eye(10, dtype=bool), np.nan, counts), cmap="Reds", vmax=40)
for row, column in np.argwhere(counts > 0):
    left.text(column, row, counts[row, column], ha="center", va="center", fontsize=7)
start = 0
for digits in taxonomy.values():
    box = plt.Rectangle((start - 0.5, start - 0.5), len(digits), len(digits), fill=False, lw=1.5)
    left.add_patch(box)
    start += len(digits)
left.set(xticks=range(10), xticklabels=order, yticks=range(10), yticklabels=order)
left.set(xlabel="predicted", ylabel="true", title="with the tree")
for name, column, colour in (("wrong", 0, "tab:gray"), ("in another branch", 1, "tab:red")):
    right.plot([0, 1], percent[:, :, column].T, "o-", color=colour, alpha=0.35)
    right.plot([0, 1], percent[:, :, column].mean(axis=0), "o-", color=colour, lw=3, label=name)
right.set(xticks=[0, 1], xticklabels=["no tree", "with the tree"], xlim=(-0.3, 1.3))
right.set(ylabel="% of the test rows", ylim=(0, None), title="ten splits and their mean")
right.legend()
plt.show()
