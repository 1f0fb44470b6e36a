"""
A ranker that counts at the top
===============================

Documents of 60 queries, a few of them relevant. The loss is 1 minus the mean average precision of
the order, and its loss-augmented argmax is exact.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import average_precision_score

from structboost import StructBoostRanker

rng = np.random.default_rng(0)
n_queries, n_documents = 60, 30
X = rng.normal(size=(n_queries * n_documents, 5))
queries = np.repeat(np.arange(n_queries), n_documents)
fits = np.exp(-((X[:, 0] - 0.5) ** 2)) + np.maximum(X[:, 1], 0)  # not linear
relevant = fits + 0.3 * rng.normal(size=len(X)) > 1.6
train = queries < n_queries // 2

# %%
# Three losses, each with the same budget. ``C`` is chosen on queries that are held out.

precisions = {}
for loss in ("pairs", "map", "ndcg"):
    ranker = StructBoostRanker(
        objective="hinge", loss=loss, weak_learner="stump", tol=0.1, max_iter=30, random_state=0
    )
    ranker.fit(X[train], relevant[train], qid=queries[train])
    scores = ranker.predict(X[~train])
    precisions[loss] = [
        average_precision_score(relevant[~train][rows], scores[rows])
        for rows in np.split(np.arange(len(scores)), n_queries // 2)
        if relevant[~train][rows].any()
    ]
    print(f"{loss:6s} C = {ranker.C_:g}, mean average precision {np.mean(precisions[loss]):.3f}")

# %%
# The precision of each query that was not trained on. The loss that is judged is not always the
# best one to train for: on these made queries the pairs lead, so compare the losses on your own.

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
axis.boxplot(list(precisions.values()), tick_labels=list(precisions))
axis.set(xlabel="loss trained for", ylabel="average precision of a query")
plt.show()
