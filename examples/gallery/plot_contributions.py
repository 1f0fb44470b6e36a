"""
What each feature adds: exact SHAP values
=========================================

A model of stumps and linear functions is a sum of functions of single features. Its SHAP values
need no sampling: they are these functions, beside their means over the training set. The package
``shap`` draws them.
"""

import matplotlib.pyplot as plt
import numpy as np
import shap
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from structboost import StructBoostClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
model = StructBoostClassifier(objective="hinge", C=20, weak_learner=["linear", "stump"]).fit(
    X_train, y_train
)
values, base = model.contributions(X_test, background=X_train)
error = np.abs(base + values.sum(axis=1) - model.decision_function(X_test)).max()
print(f"test accuracy {model.score(X_test, y_test):.3f}; the sums differ by {error:.0e}")

# %%
# All samples: each dot is a sample, its place what the feature adds to the score of class 1.

plt.rcParams["savefig.bbox"] = "tight"  # room for the names of the features
explanation = shap.Explanation(
    values, np.full(len(X_test), base), X_test.to_numpy(), feature_names=list(X.columns)
)
shap.plots.beeswarm(explanation, max_display=8)

# %%
# One sample: from the mean score of the training set to the score of the sample.

shap.plots.waterfall(explanation[0], max_display=8)
