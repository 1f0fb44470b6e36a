"""Names of other libraries, and what to write here in their place.

All constructors, ``set_params``, methods and missing attributes look a name up here.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

# Names of one thing in several classes.
_ALIKE = ("max_iter", "max_rounds", "max_epochs")
# Names of other libraries by that of the parameter that means the same.
_SAME = {
    "max_iter": "n_estimators num_iterations num_iteration num_boost_round iterations "
    "max_iterations",
    "tol": "delta",
    "learning_rate": "eta shrinkage_rate",
    "objective": "loss algorithm boosting_type boosting",
    "min_samples_leaf": "min_child_samples min_data_in_leaf min_child_weight",
    "l2_regularization": "reg_lambda lambda_l2 l2_leaf_reg",
    "max_features": "colsample_bynode colsample_bytree feature_fraction rsm",
    "random_state": "seed random_seed",
    "n_jobs": "num_threads nthread thread_count",
    "verbose": "verbosity verbose_eval silent",
    "categorical_features": "categorical_feature cat_features",
    "monotonic_cst": "monotone_constraints monotonic_constraints",
    "scoring": "eval_metric metric first_metric_only",
    "class_weight": "scale_pos_weight is_unbalance class_weights",
}
# Names of other libraries, the parameter or method that the advice needs, and the advice.
_ADVICE = (
    ("pred_contrib pred_contribs pred_interactions approx_contribs", "contributions",
     "contributions(X) returns the amount that each feature adds to a score"),
    ("raw_score output_margin prediction_type", "decision_function",
     "decision_function(X) returns scores"),
    ("num_iteration start_iteration iteration_range ntree_limit ntree_start ntree_end",
     "staged_predict",
     "staged_predict(X) yields the predictions after each round"),
    ("c1 c2", "l1_ratio",
     "for n sequences in training write C=n / (c1 + 2 * c2), l1_ratio=c1 / (c1 + 2 * c2); "
     "without c2 write objective='l1_log_loss', C=n / c1"),
    ("X_dev y_dev", "scheme",
     "C='auto', the default, holds sequences out by itself; leave X_dev, y_dev out"),
    ("epsilon", "scheme",
     "tol=... is the gap to the optimum at which a fit ends, and no bound of a slope: leave "
     "it out at first"),
    ("all_possible_transitions", "transitions",
     "transitions='all', the default, and transitions='seen' are its two values"),
    ("all_possible_states", "scheme", "every feature has a weight for every tag; leave it out"),
    ("min_freq minfreq", "scheme", "leave names that are rare out of the dicts"),
    ("model_filename", "scheme", "save(path) writes a fitted tagger, and load(path) reads it"),
    ("state_features_", "scheme",
     "feature_weights_ has them, in the order of feature_names_ and classes_"),
    ("transition_features_", "scheme", "transitions_ has them, in the order of classes_"),
    ("attributes_", "scheme", "write feature_names_"),
    ("predict_single", "scheme", "write predict([x])[0]"),
    ("predict_marginals_single", "scheme", "write predict_marginals([x])[0]"),
    ("eval_set eval_sample_weight eval_names validation_data", "early_stopping",
     "early_stopping=True of the constructor holds out validation_fraction of the rows; "
     "callbacks=[EarlyStopping(X, y)] of StructBoost watches rows of your own"),
    ("early_stopping_rounds early_stopping_round", "n_iter_no_change",
     "write early_stopping=True, n_iter_no_change=... in the constructor"),
    ("num_leaves max_leaf_nodes max_leaves", "max_depth",
     "trees are grown to a depth: max_depth=5 has up to 32 leaves"),
    ("subsample bagging_fraction bagging_freq", "max_depth",
     "each round of trees draws half of the rows by itself"),
    ("reg_alpha lambda_l1", "C", "C weighs the loss against the l1 norm, with objective='hinge'"),
    ("max_bin", "exact", "exact=False bins stumps; trees have at most 255 bins for each feature"),
    ("num_class n_classes", "", "classes are those of y in fit; classes_ lists them"),
    ("importance_type", "weak_learner",
     "feature_importances_ is the fraction of the weight on each feature; "
     "sklearn.inspection.permutation_importance(model, X, y) measures the effect of each"),
    ("feature_name feature_names", "", "give X as a data frame, whose columns have names"),
    ("init_model warm_start", "checkpoint", "checkpoint=path resumes a run from its file"),
    ("init_score base_margin", "", "no fit starts from scores of another model"),
    ("booster_", "", "model_ is the fitted model"),
    ("best_score_", "early_stopping",
     "evals_result_ has the loss of each round, after early_stopping=True"),
    ("feature_name_ feature_names_", "", "write feature_names_in_"),
    ("n_features_", "", "write n_features_in_"),
    ("to_model", "", "model_ is the fitted model, an Ensemble"),
    ("gap_ certificate_ duality_gap_", "",
     "history_[-1]['gap'] is the gap of the last round, None without a certificate"),
    ("n_classes_", "", "write len(classes_)"),
    ("n_estimators_ best_ntree_limit", "", "write n_iter_"),
    ("train_score_ validation_score_ validation_scores_", "",
     "history_ has a record of each round"),
)  # fmt: skip
_TARGETS = {name: target for target, names in _SAME.items() for name in names.split()}
_ADVICE_ON = {name: (needed, text) for names, needed, text in _ADVICE for name in names.split()}


def advice(name: str, parameters: Sequence[str]) -> str:
    """Return what to write in place of a name of another library, or an empty string."""
    needed, text = _ADVICE_ON.get(name, ("", ""))
    return f"{text}." if text and (not needed or needed in parameters) else ""


def hint(
    name: str,
    names: Sequence[str],
    parameters: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> str:
    """Suggest what to write in place of a name that does not exist, among ``names`` that do.

    ``parameters`` and ``methods`` are those of the class, where ``names`` are arguments of one of
    its methods.
    """
    target = _TARGETS.get(name, name)
    alike = _ALIKE if target in _ALIKE else (target,)
    close = [same for same in alike if same in names]
    if not close and (text := advice(name, [*(parameters or names), *methods])):
        return text
    if not close and (of_class := [same for same in (name, *alike) if same in parameters]):
        return f"{of_class[0]}=... is a parameter of the constructor."
    close = close or get_close_matches(name, names, 1, 0.6)
    return f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(names) or 'none'}."
