"""`Segmenter` as users train it, with classifiers of their own."""

from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.ours.segmenting import CACHE
from benchmarks.ours.strokes import drawn
from structboost import StructBoostClassifier
from structboost.segmentation import OwnUnaries, Segmenter
from structboost.segmentation.unaries import UnarySettings

OURS, FOREST, BUILT_IN = "StructBoostClassifier", "forest and linear", "built in"
N_PHOTOGRAPHS = 30


def _forest(seed):
    """The classifier of the guide."""
    settings = {"min_samples_leaf": 4, "max_samples": 0.5, "bootstrap": True}
    trees = ExtraTreesClassifier(150, random_state=seed, **settings)
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=60))
    return VotingClassifier([("trees", trees), ("linear", linear)], voting="soft")


UNARIES = {
    BUILT_IN: lambda seed: UnarySettings(),
    OURS: lambda seed: OwnUnaries(StructBoostClassifier(random_state=seed)),
    FOREST: lambda seed: OwnUnaries(_forest(seed)),
}


def with_own_unaries(source, unaries, *, case, seed):
    """Mean IoU on photographs drawn from the test part, after training on as many others."""
    root = source.folder / "segmentation" / case
    parts = [drawn(root, part, N_PHOTOGRAPHS, seed) for part in ("train", "test")]
    train, test = (([one.image for one in p], [one.mask for one in p]) for p in parts)
    segmenter = Segmenter(C=0.3, unaries=unaries(seed), random_state=seed, cache=CACHE)
    return {"value": segmenter.fit(*train).score(*test)}
