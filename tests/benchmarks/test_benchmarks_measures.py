"""What the pages measure: splits, tuned learners, peers and instances, on made data."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression
from sklearn.metrics import ndcg_score

from benchmarks.ours import decisions as ours
from benchmarks.ours import methods, sparse
from benchmarks.papers import auc, decisions, mo_ecc, multiclass, tools
from benchmarks.papers.auc import RankBoost
from benchmarks.runner import commands, protocol
from benchmarks.runner.datasets import Table, parts, split
from benchmarks.runner.experiment import Source
from benchmarks.structures import chains, hierarchies, label_sets, lists, pairs, tokens
from structboost import HierarchicalMultiLabelTask, MatchingTask
from structboost.segmentation.image_files import write_png
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracks import write_boxes

pytestmark = pytest.mark.benchmarks
GLASS = Source("glass", Path())


def tables(n_classes=3, n=200):
    X, y = make_classification(n, 6, n_informative=4, n_classes=n_classes, random_state=0)
    return parts(X.astype(np.float32), y, y, repeat=0)


# Tables


def test_a_split_is_seeded_stratified_and_a_partition():
    y = np.repeat([0, 1, 2, 3], [40, 20, 4, 2])
    train, validation, test = split(y, seed=3)
    assert sorted(np.concatenate([train, validation, test])) == list(range(len(y)))
    assert np.bincount(y[train]).tolist() == [20, 10, 2, 2]
    assert np.bincount(y[validation], minlength=4).tolist() == [10, 5, 1, 0]
    assert np.array_equal(train, split(y, seed=3).train)
    assert not np.array_equal(train, split(y, seed=4).train)


def test_fewer_candidates_are_spread_and_keep_the_last():
    candidates = [{"C": C} for C in range(6)]
    for n, kept in ((6, list(range(6))), (3, [0, 2, 5]), (2, [0, 5]), (1, [5])):
        assert [c["C"] for c in protocol.spread(candidates, n)] == kept


def test_a_tie_of_candidates_goes_to_the_earlier_one(monkeypatch):
    method = methods.SSVM()
    values = {1.0: 0.5, 10.0: 0.2, 100.0: 0.2}
    tried = [protocol.Trial({"C": C}, value) for C, value in values.items()]
    monkeypatch.setattr(method, "trials", lambda *_: tried, raising=False)
    assert protocol.measure(method, protocol.ERROR, tables(), 3)["C"] == 10.0


def test_spread_weights_are_taken_only_where_they_help_the_validation_part(monkeypatch):
    parts_of, method = tables(), methods.stumps(0.05)
    for helps in (True, False):

        def output(model, X, helps=helps):
            is_good = (getattr(model, "spread", 0.0) > 0) == helps
            held = len(X) == len(parts_of.validation.y)
            return parts_of.validation.y * is_good if held else np.zeros(len(X))

        monkeypatch.setattr(method, "output", output)
        result = protocol.measure(method, protocol.ERROR, parts_of, 2)
        assert result["params"].get("spread") == (0.05 if helps else None)
        assert len(result["validation"]) == 3  # two C, and the better one with spread weights


CLASSIFIERS = multiclass.learners(GLASS)
RANKERS = {one.name: one for one in (*auc.PEERS, auc.TIGHT, methods.M_SLACK)}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_of_the_tables_beats_guessing_with_settings_of_its_own(name, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.classifiers.MAX_ADABOOST_ROUNDS", 20, raising=False)
    monkeypatch.setattr(methods, "MAX_ROUNDS", 30)
    result = protocol.measure(CLASSIFIERS[name], protocol.ERROR, tables(), 1)
    assert result["value"] < 0.5
    assert len(result["validation"]) <= 2
    assert result["seconds"] > 0
    assert result["predict_us"] > 0


@pytest.mark.parametrize("name", RANKERS)
def test_a_ranker_of_the_tables_beats_guessing(name):
    result = protocol.measure(RANKERS[name], protocol.AUC, tables(2), 1)
    assert result["value"] > 0.7


def pairwise_rankboost(X, y, criterion, shrinkage, n_rounds):
    """Figure 1 of the RankBoost paper on all pairs, one weight for each."""
    worse, better = np.meshgrid(np.flatnonzero(y == 0), np.flatnonzero(y == 1), indexing="ij")
    worse, better = worse.ravel(), better.ravel()
    smoothing = 1.0 / len(worse)
    stumps = [X[:, f] > t for f in range(X.shape[1]) for t in np.unique(X[:, f])[:-1]]
    D = np.full(len(worse), 1.0 / len(worse))
    scores = np.zeros(len(y))
    for _ in range(n_rounds):
        gains, weights = [], []
        for h in stumps:
            step = h[better].astype(float) - h[worse]
            right, wrong = D[step > 0].sum(), D[step < 0].sum()
            r = right - wrong
            if criterion == "Z":
                gains.append(-(1 - right - wrong + 2 * np.sqrt(right * wrong)))
                weights.append(0.5 * np.log((right + smoothing) / (wrong + smoothing)))
            else:
                gains.append(abs(r))
                weights.append(0.5 * np.log((1 + r + smoothing) / (1 - r + smoothing)))
        best = int(np.argmax(gains))
        scores += shrinkage * weights[best] * stumps[best]
        D *= np.exp(
            shrinkage * weights[best] * (stumps[best][worse].astype(float) - stumps[best][better])
        )
        D /= D.sum()
    return scores, worse, better


@pytest.mark.parametrize("criterion", ["r", "Z"])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_rankboost_gives_the_scores_of_boosting_all_pairs(criterion, shrinkage):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, size=(80, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + rng.normal(scale=3.0, size=80) > 7).astype(np.int64)
    params = {"criterion": criterion, "shrinkage": shrinkage, "rounds": 12}
    method = RankBoost()
    scores = method.output(method.fit(Table(X, y), params), X)
    expected, worse, better = pairwise_rankboost(X, y, criterion, shrinkage, 12)
    # Stumps of equal gain may be taken in another order: what they do to the pairs must agree.
    wanted = expected[better] - expected[worse]
    np.testing.assert_allclose(scores[better] - scores[worse], wanted, atol=1e-8)


def test_code_words_and_shared_features_are_learned_on_made_tables():
    train, _, test = tables()
    result = mo_ecc.compare("mo", "stump", "stage_wise", train, test, 0)
    errors = {kind: result[kind][str(mo_ecc.ROUNDS[-1])]["test_error"] for kind in mo_ecc.KINDS}
    assert max(errors.values()) < 0.5
    curve = sparse.shared(train, test, 4)
    assert curve.features[-1] <= 5
    assert min(curve.errors) < 0.6


# Decisions


def test_costs_above_thresholds_are_no_linear_form():
    instance = ours.thresholds(0, n=300, n_test=100)
    costs = instance.expected
    predicted = LinearRegression().fit(instance.X, costs).predict(instance.X)
    assert np.mean((predicted - costs) ** 2) > 0.1 * costs.var(axis=0).mean()


def test_what_a_day_adds_to_a_worker_or_a_job_changes_no_roster():
    instance = ours.rosters(0, n=50, n_test=50)
    of_pairs = instance.costs.reshape(-1, 6, 6)
    left = of_pairs - of_pairs.mean(axis=1, keepdims=True) - of_pairs.mean(axis=2, keepdims=True)
    assert left.var() < 0.4 * of_pairs.var()
    assert instance.regret(left.reshape(100, -1), np.arange(100)) == pytest.approx(0.0)


def test_noise_of_offers_is_largest_where_the_choice_is_certain():
    instance = ours.offers(0, n=20, n_test=180)
    error = (instance.costs - instance.expected) ** 2
    surely = instance.expected > 3 * np.sort(instance.expected, axis=1)[:, -11, None]
    assert error[surely].sum() > 0.9 * error.sum()


def test_random_networks_have_a_way_to_the_end():
    for trial in range(3):
        arcs = ours.network(trial).problem.arcs.tolist()
        assert all([j, j + 1] in arcs for j in range(4))


@pytest.mark.parametrize("name", [ours.TWO_STAGE[0].name, ours.LINEAR])
def test_costs_for_testing_only_choose_no_setting(name):
    instance, rows = ours.routes(4, 135, n=40, n_test=40), np.arange(40)
    instance = instance._replace(chosen_on=(rows[:30], rows[30:]))
    method = decisions.learners(Source("degree_4", Path()))[name]
    result = ours.tuned(method, instance, 2)
    assert 0.0 < result["value"] < 1.0
    costs = instance.costs.copy()
    costs[40:] += 100.0
    repeat = ours.tuned(method, instance._replace(costs=costs), 2)
    assert repeat["params"] == result["params"]
    assert repeat["validation"] == result["validation"]


# Structures


def test_losses_of_sets_and_cuts_are_those_of_their_definitions():
    true, predicted = np.array([[1, 1, 0], [0, 0, 0]]), np.array([[1, 0, 0], [0, 0, 0]])
    losses = [loss(true, predicted) for loss in label_sets.LOSSES.values()]
    assert losses == pytest.approx([1 / 6, 1 / 2, 1 - (2 / 3 + 1) / 2])
    responses, seen = np.array([[0.4, -0.2, -3.0]]), np.array([[0, 0, 1], [1, 0, 0]])
    assert label_sets.decide_by_cut(responses, true, -0.5).tolist() == [[1, 1, 0]]
    assert label_sets.decide_seen(responses, seen, 0.0).tolist() == [[1, 0, 0]]


def test_records_are_compared_only_where_they_agree_in_a_key():
    empty = dict.fromkeys(pairs.FIELDS, "")
    left = [{**empty, "given_name": "anna", "postcode": "12"}, {**empty, "surname": "ray"}]
    right = [{**empty, "postcode": "99"}, {**empty, "given_name": "anne", "postcode": "12"}]
    x = pairs.candidates(left, right)
    assert x.pairs.tolist() == [[0, 1]]  # nothing in common is no key
    # Letter pairs " a", "an", "nn" of 5 and 5; only the name and the postcode are not empty.
    assert x.features[0, :2].tolist() == [0.6, 0.0]
    assert x.features[0, 1::2].sum() == len(pairs.FIELDS) - 2
    assert pairs.among_candidates(x, np.array([1, 0])).tolist() == [1, -1]
    # A true pair that is no candidate counts as missed.
    part = pairs.Pairs([x], [np.array([1, -1])])
    task = MatchingTask(unmatched=True)
    assert pairs.error(task, lambda x: np.ones(1, int), part) == pytest.approx(100 / 3)


def test_scores_of_a_hierarchy_are_closed_and_count_where_they_are_evaluated():
    Y = np.array([[1, 0, 0], [1, 1, 1], [1, 0, 1]])
    task = HierarchicalMultiLabelTask(3, [[0, 1]])
    counts, part = np.array([True, True, False]), np.array([0, 2, 2])
    data = hierarchies.Rows(np.zeros((3, 1)), Y, part, counts, task)
    p = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.0]])
    # 0.9, 0.9, 0.8 are right, and the label above has the score of the one below it.
    assert hierarchies.score(data, hierarchies.TEST, p) == 1.0


def test_words_are_described_by_their_letters_and_their_neighbours():
    first, second = tokens.of_chunks([("Boeing-747", "NNP", "B-NP"), ("a", "DT", "B-NP")])
    letters = {"first bo", "first boe", "last 47", "last 747", "last -747", "shape0 Aa-0"}
    assert letters | {"around _ a", "wp1 Boeing-747 DT", "pw1 NNP a"} <= set(first)
    assert "first a" in second


def test_the_discounted_gain_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 3, 30), rng.normal(size=30)
    wanted = ndcg_score(np.exp2(y)[None] - 1, scores[None], k=lists.TOP)
    assert lists.mean_ndcg(y, scores, np.array([30])) == pytest.approx(wanted)


def test_letters_are_split_into_the_words_that_they_are_of():
    words = [np.zeros((n, 2)) for n in (2, 3)]
    assert [len(word) for word in chains.split(np.zeros((5, 26)), words)] == [2, 3]
    assert chains.right([np.array([0, 1])], [np.array([0, 2])]) == 0.5


# Images and videos


def test_made_strokes_lie_inside_and_follow_their_seed():
    y, x = np.indices((80, 80))
    mask = (np.hypot(x - 40, y - 40) < 20).astype(np.uint8)
    mask[:, 70:] = 255
    made = [tools.made_strokes(mask, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    for value, inside in ((1, mask == 1), (2, mask == 0)):
        assert (made[0] == value).sum() > 20
        assert not (made[0] == value)[~inside].any()
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()


def test_strokes_on_made_photographs_cut_out_most_of_the_object(tmp_path):
    made, root = make_synthetic_images(3), tmp_path / "segmentation" / "grabcut_bsds"
    folders = {"images": made.images, "masks": made.masks, "scribbles1": made.scribbles}
    for folder, each in folders.items():
        (root / folder).mkdir(parents=True)
        for index, pixels in enumerate(each):
            write_png(root / folder / f"{index}.png", pixels)
    (root / "split.txt").write_text("0 train\n1 test\n2 test\n")
    result = tools.cut_out(Source("", tmp_path), tools.CUTTERS["structboost"], case="set 1")
    assert 0.8 < result["value"] <= 1


def test_a_made_clip_is_tracked_to_a_page_and_kept(tmp_path, capsys, monkeypatch):
    clip, folder = make_synthetic_clip(8), tmp_path / "tracking" / "deer"
    (folder / "img").mkdir(parents=True)
    for index, frame in enumerate(clip.frames):
        cv2.imwrite(str(folder / "img" / f"{index:04d}.png"), frame[:, :, ::-1])
    for name in ("groundtruth.txt", "groundtruth_mil.txt"):
        write_boxes(folder / name, clip.boxes)
    monkeypatch.setattr(commands, "UNITS", tmp_path / "units")
    run = ["run", "tracking", "--data", str(tmp_path), "--only", "deer"]
    run += ["--results", str(tmp_path / "results")]
    assert commands.main(run) == 0
    page = json.loads((tmp_path / "results" / "tracking.json").read_text())
    own = [r for r in page["records"] if (r["method"], r["metric"]) == ("structboost", "overlap")]
    assert own[0]["value"] > 0.8
    assert commands.main(run) == 0
    assert ": kept" in capsys.readouterr().err
