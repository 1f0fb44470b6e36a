"""
Fewer trees for a boosted model
===============================

A boosted model has trees that it could do without. A path of weightings shows how the loss on
held-out rows depends on the number of trees, with a certificate for each: no weighting of all
trees has an objective lower by more than the gap.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from structboost import thin

X, y = load_digits(n_class=6, return_X_y=True)
X_train, X_more, y_train, y_more = train_test_split(X, y, train_size=0.4, random_state=0)
X_held, X_test, y_held, y_test = train_test_split(X_more, y_more, random_state=0)
boosted = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X_train, y_train)
thinned = thin(boosted, X_held, y_held, margin=0.02)
print(thinned.report())

# %%
# Labels on new rows:

few = (thinned.predict(X_test) == y_test).mean()
print(f"test accuracy {boosted.score(X_test, y_test):.3f} with {thinned.n_trees_before} trees")
print(f"test accuracy {few:.3f} with {thinned.n_trees} trees")

# %%
# How the path came to its end: the cross-validated rise of the loss, with its standard error.

trees = [record["trees"] for record in thinned.path]
rises = [record["loss_change"] for record in thinned.path]
errors = [record["loss_change_error"] for record in thinned.path]
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.errorbar(trees, rises, errors, marker="o", capsize=3)
axes.axhline(0.02, linestyle=":", color="grey")
axes.set(xlabel="trees", ylabel="rise of the log-loss, nats")
axes.set_title("Where fewer trees predict as well")
