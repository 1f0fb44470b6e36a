"""
A classifier and the shape of each feature
==========================================

A model of linear functions and stumps is a sum of functions of one feature each: a line, with steps
where stumps were chosen. The picture is the model itself.
"""

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from structboost import ConvergenceDisplay, ShapeDisplay, StructBoostClassifier

X, y = load_wine(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
classifier = StructBoostClassifier(
    objective="hinge", C=20, tol=0.01, weak_learner=["linear", "stump"]
)
classifier.fit(X_train, y_train)
last = classifier.history_[-1]
print(f"test accuracy {classifier.score(X_test, y_test):.3f}, certified gap {last['gap']:.2%}")

# %%
# What the most important features add to the score of each class:

ShapeDisplay.from_estimator(classifier)

# %%
# How training came to its end. The optimum lies between the objective and the bound.

ConvergenceDisplay.from_estimator(classifier)
