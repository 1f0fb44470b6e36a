"""Smoke check of an installed wheel: fit, predict, save, load. Run it outside the checkout."""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import structboost
from structboost.inference import min_cut_labels

package = Path(structboost.__file__).parent
assert package.is_relative_to(sys.prefix), f"not the installed wheel: {package}"
assert (package / "py.typed").is_file(), "the wheel lacks py.typed"

X, y = load_iris(return_X_y=True)
classifier = structboost.StructBoostClassifier(max_iter=5).fit(X, y)
predicted = classifier.predict(X)
accuracy = classifier.score(X, y)
assert accuracy > 0.8, f"accuracy {accuracy} on iris"

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "iris.model"
    classifier.model_.save(path)
    classifier.model_ = structboost.load_model(path)
assert np.array_equal(classifier.predict(X), predicted), "predictions differ after a round trip"

# The wheel is installed alone: extras are missing, minimum cuts work.
present = {name for name in ("av", "cv2", "maxflow", "skimage") if find_spec(name)}
assert not present, f"the base installs {present}"
message = ""
try:
    structboost.tracking.StructBoostTracker()
except structboost.errors.MissingExtraError as error:
    message = str(error)
assert 'pip install "structboost-learn[vision]"' in message
cut = min_cut_labels([[0, 2], [1, 0], [1.5, 0]], [[0, 1], [1, 2]], [1.0, 1.0], [1.0, 1.0])
assert cut.tolist() == [False, True, True]

print(f"structboost {structboost.__version__}: wheel works, iris accuracy {accuracy:.3f}")
