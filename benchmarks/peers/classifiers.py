"""Conventional methods: LightGBM, scikit-learn's boosted trees, AdaBoost and linear SVM."""

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from benchmarks.runner.protocol import BestRounds, Method, grid

MAX_ROUNDS, MAX_ADABOOST_ROUNDS = 2000, 500
PATIENCE, LOSS_PATIENCE = 100, 20
# In a node of AdaBoost's trees, at random where there are more: sorting all of them in each round
# would take hours on the wide tables, and lowers no error that we saw.
MAX_FEATURES = 32
MAX_ITERATIONS = 2_000
# From here on the dual solver is the faster one on our tables, at equal error.
DUAL_FROM_FEATURES = 100


class LightGBM(BestRounds):
    """Grid over leaves and rows per leaf; boosting stops when the metric no longer improves."""

    name = "lightgbm"
    candidates = grid(num_leaves=(2, 6, 31), min_data_in_leaf=(20, 3))

    def problem(self, y):
        raise NotImplementedError

    def settings(self, y, params):
        """All parameters of one training."""
        own = {name: value for name, value in params.items() if name != "rounds"}
        fixed = {"verbose": -1, "seed": 0, "deterministic": True, "force_row_wise": True}
        return {**fixed, "learning_rate": 0.1, **own, **self.problem(y), "num_threads": 1}

    def values(self, train, validation, params, objective):
        import lightgbm

        table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
        held_out = lightgbm.Dataset(validation.X, validation.y, reference=table)
        watched = {}
        stopping = lightgbm.early_stopping(PATIENCE, first_metric_only=True, verbose=False)
        callbacks = [stopping, lightgbm.record_evaluation(watched)]
        settings = {"valid_sets": [held_out], "callbacks": callbacks}
        lightgbm.train(self.settings(train.y, params), table, MAX_ROUNDS, **settings)
        ((values,),) = (metrics.values() for metrics in watched.values())
        return values

    def fit(self, train, params):
        import lightgbm

        table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
        return lightgbm.train(self.settings(train.y, params), table, params["rounds"])

    def output(self, model, X):
        return model.predict(X, raw_score=True, num_threads=1)


class LightGBMRanker(LightGBM):
    """Binary log-loss, stopped by the AUC."""

    def problem(self, y):
        return {"objective": "binary", "metric": "auc"}


class LightGBMStumpRanker(LightGBMRanker):
    """The same with stumps only: additive functions, as ours and RankBoost's are."""

    name = "lightgbm_stumps"
    candidates = grid(num_leaves=(2,), learning_rate=(0.3, 0.1, 0.03), min_data_in_leaf=(20, 3))


class LightGBMClassifier(LightGBM):
    """Softmax, stopped by the error."""

    def problem(self, y):
        return {"objective": "multiclass", "num_class": int(y.max()) + 1, "metric": "multi_error"}

    def output(self, model, X):
        return super().output(model, X).argmax(axis=1)


class HistGradientBoosting(BestRounds):
    """The same grid for scikit-learn's trees, stopped by the log-loss."""

    name = "histgb"
    candidates = grid(max_leaf_nodes=(2, 6, 31), min_samples_leaf=(20, 3))

    def values(self, train, validation, params, objective):
        stopping = {"early_stopping": True, "n_iter_no_change": LOSS_PATIENCE, "random_state": 0}
        model = HistGradientBoostingClassifier(max_iter=MAX_ROUNDS, **stopping, **params)
        model.fit(train.X, train.y, X_val=validation.X, y_val=validation.y)
        stages = model.staged_predict(validation.X)
        return [objective.measure(validation.y, stage) for stage in stages]

    def fit(self, train, params):
        own = {"max_iter" if name == "rounds" else name: value for name, value in params.items()}
        model = HistGradientBoostingClassifier(early_stopping=False, random_state=0, **own)
        return model.fit(train.X, train.y)


class AdaBoost(BestRounds):
    """SAMME over small trees."""

    name = "adaboost"
    candidates = grid(max_depth=(1, 4, 8), learning_rate=(1.0, 0.3))

    def fit(self, train, params):
        """As many rounds as the parameters say, or fewer where a tree makes no error."""
        n_features = min(MAX_FEATURES, train.X.shape[1])
        tree = DecisionTreeClassifier(max_depth=params["max_depth"], max_features=n_features)
        rounds, rate = params.get("rounds", MAX_ADABOOST_ROUNDS), params["learning_rate"]
        model = AdaBoostClassifier(tree, n_estimators=rounds, learning_rate=rate, random_state=0)
        return model.fit(train.X, train.y)

    def values(self, train, validation, params, objective):
        stages = self.fit(train, params).staged_predict(validation.X)
        return [objective.measure(validation.y, stage) for stage in stages]


class OneVsAllSVM(Method):
    """scikit-learn's LinearSVC (squared hinge) on features standardised on the training part.

    ``C`` is in the paper's units, the weight of the *mean* loss. The grid goes beyond 1000 because
    the best values lie there on vowel, satimage and svmguide4. The plain hinge was slower, and no
    better on any set.
    """

    name = "ovr_svm"
    candidates = grid(C=[float(C) for C in np.logspace(0, 5, 6)])

    def fit(self, train, params):
        C, is_dual = params["C"] / len(train.y), train.X.shape[1] >= DUAL_FROM_FEATURES
        machine = LinearSVC(C=C, dual=is_dual, max_iter=MAX_ITERATIONS, random_state=0)
        return make_pipeline(StandardScaler(), machine).fit(train.X, train.y)
