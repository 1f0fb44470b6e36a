"""
Pairs of features as heat maps, with a proof
============================================

A tree of two levels is a function of the features at its root and at one child. So a model of such
trees is a table for each feature and for each pair of features. Boosting finds the best tree of all
exactly. This proves how much lower the objective could be with any other trees of two levels.
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from structboost import ShapeDisplay, StructBoostClassifier

# %%
# A plant grows with rain and sun together, or where the soil has hardly any acid. One sample of ten
# has the wrong label.

rng = np.random.default_rng(0)
table = pd.DataFrame(rng.uniform(0, 10, (1200, 4)), columns=["rain", "sun", "acid", "wind"])
grows = ((table["rain"] > 4) & (table["sun"] > 5)) | (table["acid"] < 2)
grows ^= rng.random(len(table)) < 0.1
X_train, X_test, y_train, y_test = train_test_split(table, grows, random_state=0)

# %%
# Stumps add up single features, so they cannot say "together".

settings = {"objective": "hinge", "C": 15, "tol": 0.01}
stumps = StructBoostClassifier(weak_learner="stump", **settings).fit(X_train, y_train)
pairs = StructBoostClassifier(weak_learner="pair_tree", **settings).fit(X_train, y_train)
for model in (stumps, pairs):
    print(f"{model.learner_}: test accuracy {model.score(X_test, y_test):.3f}")

# %%
# The proof in words, from the last record of the fit:

last = pairs.history_[-1]
print(
    f"The objective, C times the mean hinge loss plus the sum of the weights, is "
    f"{last['primal']:.3f}.\nNo weights of any trees of two levels on these bins reach less than "
    f"{last['bound']:.3f}.\nSo another choice could lower it by at most {100 * last['gap']:.2g} %."
)

# %%
# The whole model: curves of single features, and heat maps of what two features add together. Rows
# and columns of a heat map have the mean 0, since what a feature adds alone is in its curve.

ShapeDisplay.from_estimator(pairs, features=3, pairs=3)

# %%
# The tables are the model: they give its scores.

tables = pairs.model_.compile()
scores = tables.raw_scores(X_test.to_numpy())[:, 0]
print(f"the sums differ by {np.abs(scores - pairs.decision_function(X_test)).max():.0e}")

# %%
# Contributions of features are their Shapley values: a pair is divided between its features.

values, base = pairs.contributions(X_test, background=X_train)
for name, value in zip(table.columns, values[0], strict=True):
    print(f"{name} = {X_test[name].iloc[0]:.1f} adds {value:+.2f}")
