"""Targets that pages judge themselves by, from records of every benchmark."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from benchmarks.ours.segmenting import OURS
from benchmarks.papers import (
    auc,
    defaults,
    hierarchy,
    learners,
    mo_ecc,
    multiboost_cw,
    multiclass,
    scale,
    segmentation,
    shareboost,
    speed,
    tracking,
    unions,
)
from benchmarks.peers import tree_prediction
from benchmarks.runner.commands import PAGES
from benchmarks.runner.records import record
from benchmarks.runner.units import Unit
from benchmarks.structures import by_default, label_sets, lists


def judge(page, made, expected):
    """Compare targets, each found by a word of it, with what is expected of it.

    What is expected is whether it is met, or how it was measured.
    """
    found = page.targets(made)
    for word, wanted in expected.items():
        (target,) = [target for target in found if word in target.wanted]
        assert (target.measured if isinstance(wanted, str) else target.met) == wanted, word


@pytest.mark.parametrize("name", sorted(PAGES))
def test_nothing_is_claimed_of_an_empty_page(name):
    found = PAGES[name].targets([])
    assert found
    assert {target.met for target in found} == {None}


def auc_records(value=0.99, ratio=60.0, gap=0.009):
    made = []
    levels = {"structboost_1slack": value, **dict.fromkeys(auc.PEER_NAMES, 0.98)}
    slow = [*(name for name, *_ in auc.SLOW_METHODS), auc.FULL_PROGRAM]
    for name in auc.DATASETS:
        printed = {"paper": auc.TABLE_1[name][0], "gap": gap, "gap_at_1000": gap, "seconds": 1.0}
        for method, level in levels.items():
            own = [
                record(name, method, "auc", level, **printed, **{"class": c}) for c in ("mean", 0)
            ]
            made += own
        timed = {"ratio": ratio, "pairs": 20_000, "class": "mean"}
        made += [record(name, method, "auc", None, **timed) for method in slow]
    return made


def test_auc_judges_gaps_values_and_ratios():
    assert {target.met for target in auc.targets(auc_records())} == {True}
    slow = {"50 times": "0 of 2; not segment, satimage", "HiGHS": False, "10,000 pairs": False}
    judge(auc, auc_records(ratio=0.9), slow)
    judge(auc, auc_records(value=0.5), {"below lightgbm's": False, "Table 1": False})
    # A gap that nothing proves is none.
    judge(auc, auc_records(gap=None), {"at the chosen C": False})


def test_multiclass_counts_sets_within_the_papers_margin():
    made = []
    for k, name in enumerate(multiclass.DATASETS):
        value, std = multiclass.TABLE_2["structboost_1slack"][name]
        limit = (1.01 if k < 3 else 0.99) * (value + std / 5**0.5)
        made.append(record(name, "structboost_1slack", "error", limit, gap=0.03, seconds=70.0))
        made += [record(name, peer, "error", 0.1) for peer in ("lightgbm", "histgb")]
        made.append(record(name, "multiboost_cw_trees", "error", 0.09 if k < 6 else 0.11))
        made.append(record(name, "multiboost_cw_perceptrons", "error", 0.0))
    missed = "7 of 10; not glass, svmguide2, svmguide4"
    judge(multiclass, made, {"error of structboost_1slack": missed})
    judge(multiclass, made, {"error of structboost_1slack": False, "2 %": False, "usps": False})
    # Perceptrons of another method do not count for StructBoost's.
    judge(multiclass, made, {"structboost_perceptrons": None, "multiboost_cw_trees": True})


def test_defaults_are_compared_set_by_set():
    made = []
    for k, name in enumerate((*defaults.DATASETS[:10], *defaults.BUNDLED)):
        error = 0.112 if k in (0, 1, 11) else 0.16 if k == 2 else 0.109
        cpu = 3.1 if k == 3 else 2.9
        made.append(record(name, "structboost", "error", error, cpu=cpu, rows=9, repeats=1))
        made.append(record(name, "lightgbm", "error", 0.1, cpu=1.0, rows=9, repeats=1))
    failing = f"9 of 10; not {defaults.DATASETS[2]}"
    judge(defaults, made, {"CPU": f"9 of 10; not {defaults.DATASETS[3]}", "NDCG": None})
    assert [t.measured for t in defaults.targets(made)][1] == failing
    of_classes = [False, False, False, True, False]
    assert [t.met for t in defaults.targets(made)] == [*of_classes, None, None]
    for value, met in ((0.75, True), (0.73, False)):
        ranking = record(defaults.RANKING, "structboost", "ndcg", value, cpu=1.0, rows=9)
        theirs = record(defaults.RANKING, "lightgbm", "ndcg", 0.74, cpu=1.0, rows=9)
        judge(defaults, [*made, ranking, theirs], {"NDCG": met})
    assert "11.2" in defaults.show(made)
    for letters, met in ((0.129, True), (0.131, False)):
        sets = [(name, loss) for name in by_default.LABEL_SETS for loss in label_sets.LOSSES]
        values = zip(by_default.METHODS, (letters, 0.2, 0.12), strict=True)
        losses = [
            record(name, method, loss, value, cpu=1.0, rows=9)
            for (name, loss), (method, value) in product(
                [*sets, (by_default.LETTERS, "wrong letters")], values
            )
        ]
        judge(defaults, [*made, *losses], {"label sets and tags": met})
    assert "letters, wrong letters" in defaults.show(losses)


def unions_records(name, metric, **values):
    return [
        record(
            name, method, metric, sum(of) / len(of), gap=0.02, repeats=len(of), note=None,
            values={str(k): value for k, value in enumerate(of)},
        )
        for method, of in values.items()
    ]  # fmt: skip


def test_unions_are_compared_with_the_better_part_on_common_splits():
    levels = {"ssvm": [0.3, 0.2], "lightgbm": [0.2, 0.2], "trees": [0.1, 0.1]}
    made = []
    for k, name in enumerate(unions.TABLES):
        # 2.9 and 3.1 thousandths above stumps, whose last split the union does not have.
        union = [0.2029, 0.2029] if k else [0.2031, 0.2031]
        of_trees = [0.2, 0.2] if k < 7 else [0.2, 0.21]
        own = {"stumps": [0.2, 0.2, 0.17], "linear_stumps": union}
        made += unions_records(name, "error", **levels, **own, linear_trees=of_trees)
    for k, name in enumerate(unions.RANKED):
        own = {"stumps": [0.91], "linear_stumps": [0.9071 if k else 0.9069]}
        made += unions_records(name, "auc", ssvm=[0.95 if k == 1 else 0.9], **own)
    first, second = f"9 of 10; not {unions.TABLES[0]}", ", ".join(unions.RANKED[:2])
    judge(unions, made, {"SSVM": first, "AUC": f"6 of 8; not {second}", "2 %": True})
    judge(unions, made, {"LightGBM": True, "vowel": False})
    text = unions.show(made)
    assert "+0.31 ±0.00" in text
    assert "+0.50 ±0.50" in text
    for r in made:
        if r["method"] == "linear_stumps":
            r["gap"] = None
    judge(unions, made, {"2 %": "0 of 7; not " + ", ".join(unions.TABLES[:7])})


def test_unions_average_the_classes_of_each_split():
    done = []
    for repeat, c, value in ((0, 0, 0.8), (0, 1, 0.9), (1, 0, 0.6), (1, 1, 0.9)):
        params = {"repeat": repeat, "class": c, "note": None}
        result = {"value": value, "gap": 0.01, "seconds": 1.0}
        done.append((Unit("unions", "glass", "ssvm", params, "1", dict), result))
    (made,) = unions.records("auc-glass", done)
    assert (made["metric"], made["repeats"]) == ("auc", 2)
    assert made["values"] == {"0": pytest.approx(0.85), "1": pytest.approx(0.75)}
    assert made["value"] == pytest.approx(0.8)


def test_the_discounted_gain_is_scikit_learns():
    rng = np.random.default_rng(0)
    group = np.array([12, 1, 3, 5])
    y, scores = rng.integers(0, 4, size=21), rng.normal(size=21)
    y[13:16] = 2  # no order is better than another
    queries = [slice(0, 12), slice(16, 21)]
    wanted = [ndcg_score([2.0 ** y[q] - 1], [scores[q]], k=10) for q in queries]
    assert lists.mean_ndcg(y, scores, group) == pytest.approx(np.mean(wanted))


def test_speed_and_scale():
    made = [
        record("rows", "m", "round_seconds_exponent", 1.1),
        record("rows", "m", "bytes_exponent", 0.9),
        record("usps", "lightgbm", "predict_us", 60.0, ratio=19.0),
        record("mnist", "m", "rounds_per_second", 6.0, peak_bytes=5e8),
    ]
    assert [target.met for target in speed.targets(made)] == [False, True, None, None, True, True]
    two = {"rows": 1_000_000, "workers": 2, "speed_up": 1.69, "same": True}
    dask = {"rows": 10_000, "workers": 1, "overhead_seconds": 0.06, "same": False}
    made = [
        record("engines", "processes", "rounds_per_second", 1.0, **two),
        record("engines", "dask", "rounds_per_second", 1.0, **dask),
        record("kills", "dask", "lost", 0),
    ]
    processes = "two processes 1.7 times one, "
    judge(scale, made, {f"{processes}engines": False, f"{processes}python": None, "20 kills": True})
    different = "1 of 2; not engines dask"
    judge(scale, made, {"Dask": "0 of 1; not engines 10,000", "bit by bit": different})


def test_multiboost_cw_beside_the_published_code():
    reference = multiboost_cw.PUBLISHED["errors"]["multiboost_cw1"]["vowel"]
    rounds = map(str, multiboost_cw.ROUNDS)
    errors = {c: value / 100 for c, (value, _) in zip(rounds, reference, strict=True)}
    common = {"reference": reference, "reference_seconds": 10.0, "cpu": {}, "peak_mb": 100.0}
    common["primal"] = 277.17
    bounded = {"gap": 0.0005, "C": multiboost_cw.C, "repeats": 1, **common}
    made = [
        record("vowel", "multiboost_cw1", "error", 0.1, seconds=0.5, errors=errors, **common),
        record("vowel", "multiboost_cw_tau5", "error", 0.1, **bounded),
    ]
    judge(multiboost_cw, made, {"code's spread": "1 of 4", "277.172": True, "a tenth": True})
    judge(multiboost_cw, made, {"code's spread": None})  # three more sets are to come
    made[0]["errors"]["10"] += 0.2
    made[1]["gap"] = 0.01
    judge(multiboost_cw, made, {"code's spread": "0 of 4; not vowel", "277.172": False})


def test_mo_ecc_names_the_settings_that_miss():
    common = {"rounds": 50, "gap_over_columns": 1e-5, "largest_excess": 1e-5}
    common |= {"paper": 0.025, "paper_std": 0.027}
    made = [
        record("wine", f"{kind}_ecc_lda", "error", 0.06, train_error=error, **common)
        for kind, error in (("adaboost", 0.01), ("multiboost", 0.02))
    ]
    judge(mo_ecc, made, {"training error": "0 of 1; not wine ecc_lda 50"})
    judge(mo_ecc, made, {"plus one deviation": False, "1e-4": True, "u'rho": False})


def test_shareboost_and_hierarchy():
    made = [
        record("isolet1", method, "features_needed", value * k, n_classes=k)
        for method, value in (("shareboost", 1.0), ("one_vs_rest", 1.9))
        for k in (2, 26)
    ]
    made.append(record("mnist", "shareboost_patches", "error", 0.0071))
    assert [target.met for target in shareboost.targets(made)] == [False, False, True]
    made = [record(name, "tree_minus_flat", "tree_loss", -0.1) for name in hierarchy.DATASETS]
    judge(hierarchy, made, {"tree": True})
    made[0]["value"] = 0.0
    judge(hierarchy, made, {"tree": False})


def test_tracking_counts_sequences_won():
    made = []
    for name in tracking.DATASETS:
        common = {"fps": 20.0, "largest_latency": 0.1, "init_seconds": 0.3}
        made.append(record(name, "structboost", "overlap", 0.6, **common))
        made += [record(name, method, "overlap", 0.6) for method in ("adaboost", "struck_50")]
    judge(tracking, made, {"above 0.59": True, "goal: mean": False, "25 frames": False})
    judge(tracking, made, {"CSRT on 4": "3 of 7; not tiger1, sylv, couple, deer"})
    judge(tracking, made, {"AdaBoost": False, "250 ms": "300 ms"})  # equal is not above
    judge(tracking, made, {"0.70": False, "40 frames": False, "girl and couple": True})
    judge(tracking, made, {"nowhere": "3 of 7; not tiger1, sylv, couple, deer"})
    # A mean over some of the sequences is none over all.
    judge(tracking, made[3:], {"above 0.59": None})


def test_segmentation_wants_both_measures():
    made = []
    for k, name in enumerate(segmentation.DATASETS[:6]):
        for method, value in ((OURS, 0.8), ("ssvm", 0.7), ("svm_words", 0.6)):
            for metric in segmentation.TWO_LABELS:
                worse = 0.5 if k < 2 and method == OURS and metric == "precision_recall" else value
                made.append(record(name, method, metric, worse, argmax_ms=1.0, seconds=5.0))
    missed = f"4 of 6; not {', '.join(segmentation.DATASETS[:2])}"
    judge(segmentation, made, {"5 of 6": missed, "single superpixels": False, "72 %": True})
    judge(segmentation, made, {"5 of 6": False, "accuracy 92 %": False, "msrc21": None})


def test_learners_are_judged_by_batch_race_passes_and_first_use():
    made = [
        record("trees", "structboost", "cpu_us", ours, depth=depth, batch=batch, **paces)
        for depth, batch, ours in product((1, 3), (1, 100, 10_000), (2.0,))
        for paces in [{"structboost": ours, "lightgbm": 9.0, "tl2cgen": 1.0 if depth == 1 else 3.0}]
    ]
    for name, value in zip(learners.RACES, (0.8, 1.0, 1.2), strict=True):
        made.append(record(name, learners.OWN_TREES, "error", 0.1, seconds=value))
        made.append(record(name, learners.THEIRS, "error", 0.1, seconds=2.0))
    made += [record("letters", "m_slack", "passes", 537), record("letters", "one_slack", "", 900)]
    cold = "fit and predict, nothing compiled"
    made += [record("first-use", cold, "cpu", 10.5)]
    made += [record("first-use", "import structboost, beyond scikit-learn", "cpu", 0.2)]
    slow = "6 of 8; not depth 1, 100 rows, tl2cgen, depth 1, 10,000 rows, tl2cgen"
    judge(learners, made, {"faster": slow, "half": "2 of 3; not mnist", "OCR": True})
    judge(learners, made, {"nothing compiled": False, "import": True})


def test_the_race_of_trees_holds_the_trees_of_the_other():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    inner = {"split_feature": 2, "threshold": -0.25}
    inner |= {"left_child": {"leaf_value": 3.0}, "right_child": {"leaf_value": 5.0}}
    root = {"split_feature": 1, "threshold": 0.5, "left_child": inner}
    root["right_child"] = {"leaf_value": -1.0}
    booster = SimpleNamespace(
        dump_model=lambda: {"tree_info": [{"tree_structure": root}, {"tree_structure": inner}]},
        num_model_per_iteration=lambda: 2,
    )
    scores = tree_prediction.as_ensemble(booster, 4, depth=3).scores(X)
    of_inner = np.where(X[:, 2] <= -0.25, 3.0, 5.0)
    expected = np.column_stack([np.where(X[:, 1] <= 0.5, of_inner, -1.0), of_inner])
    np.testing.assert_array_equal(scores, expected)
