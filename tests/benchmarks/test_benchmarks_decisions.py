"""Costs predicted for decisions: instances, one contract for all methods, the page."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from benchmarks.ours import decisions as ours
from benchmarks.papers import decisions as page
from benchmarks.peers import network_losses
from benchmarks.runner.units import Unit


def small(instance, n=40):
    """The same with few rows."""
    rows = np.arange(n)
    return instance._replace(train=rows, test=rows + n, chosen_on=(rows[:30], rows[30:]))


def test_errors_of_clocks_change_no_decision_and_most_of_the_variance():
    instance = ours.clocks(0, n=50, n_test=150)
    errors = np.diff(np.random.default_rng(1).normal(0, 5, (200, 16))[:, instance.problem.arcs])
    moved = instance.costs + errors[:, :, 0]
    solve_all = instance.problem.solve_all
    np.testing.assert_array_equal(solve_all(moved), solve_all(instance.costs))
    assert instance.costs.var() > 5 * instance.expected.var()
    assert instance.regret(instance.costs[instance.test], instance.test) == 0.0
    expected = ours.with_expected_costs(instance)["value"]
    assert 0.0 < expected < instance.regret(-instance.expected[instance.test], instance.test)


def test_thresholds_are_no_linear_form():
    instance = ours.thresholds(0, n=300, n_test=100)
    costs = instance.expected
    # Each street has at most 4 ** 3 times of its own, whatever the weather.
    assert max(len(np.unique(costs[:, j].round(9))) for j in range(costs.shape[1])) <= 4**3
    predicted = LinearRegression().fit(instance.X, costs).predict(instance.X)
    assert np.mean((predicted - costs) ** 2) > 0.1 * costs.var(axis=0).mean()


def test_what_a_day_adds_to_a_worker_or_a_job_changes_no_roster():
    instance = ours.rosters(0, n=50, n_test=50)
    of_pairs = instance.costs.reshape(-1, 6, 6)
    # Without the means of workers and jobs, the same rosters are best.
    left = of_pairs - of_pairs.mean(axis=1, keepdims=True) - of_pairs.mean(axis=2, keepdims=True)
    assert left.var() < 0.4 * of_pairs.var()
    assert instance.regret(left.reshape(100, -1), np.arange(100)) == pytest.approx(0.0)


def test_noise_of_offers_is_largest_where_the_choice_is_certain():
    instance = ours.offers(0, n=20, n_test=180)
    taken = instance.problem.solve_all(instance.expected)
    assert taken.sum() == 10 * len(taken)
    error = (instance.costs - instance.expected) ** 2
    surely = instance.expected > 3 * np.sort(instance.expected, axis=1)[:, -11, None]
    assert error[surely].sum() > 0.9 * error.sum()


def test_the_generators_are_those_of_the_papers():
    # The first numbers that PyEPO's own generator gives for 1,000 instances with this seed.
    tours = ours.tours(n=800, n_test=200)
    assert tours.X[0, :2] == pytest.approx([-1.08411069, 0.48888577])
    assert tours.costs[0, :3] == pytest.approx([4.7579, 5.0915, 4.3113])
    assert np.float32(tours.costs).sum(dtype=float) == pytest.approx(1232446.70, abs=0.1)
    for trial in range(3):
        arcs = ours.network(trial).problem.arcs.tolist()
        assert all([j, j + 1] in arcs for j in range(4))
        assert 4 <= len(arcs) <= 10


@pytest.mark.parametrize("name", [ours.LEAST_SQUARES.name, ours.LINEAR, ours.SPARING])
def test_settings_are_chosen_on_training_rows(name):
    instance = small(ours.routes(4, 135, n=40, n_test=40))
    method = page.methods(instance)[name]
    method.candidates = method.candidates[:2]
    found = ours.tuned(method, instance, 2)
    assert 0.0 < found["value"] < 1.0
    assert len(found["validation"]) == min(2, len(method.candidates))
    # Costs that are for testing only change nothing but the value.
    costs = instance.costs.copy()
    costs[40:] += 100.0
    again = ours.tuned(method, instance._replace(costs=costs), 2)
    assert again["params"] == found["params"]
    assert again["validation"] == found["validation"]
    if name != ours.LEAST_SQUARES.name:
        assert found["exact_solves"] >= 2 * 40


@pytest.mark.skipif(not network_losses.is_installed(), reason="PyEPO and torch are not installed")
def test_losses_of_pyepo_solve_each_instance_once_per_epoch():
    instance = small(ours.routes(4, 135, n=40, n_test=40))
    method = network_losses.methods(instance.problem)[network_losses.SPO_PLUS]
    assert ours.tuned(method, instance, 1)["exact_solves"] == 40 * (1 + 20)


def test_the_page_says_what_is_missed_and_how_to_install_what_is_missing(tmp_path):
    values = {"random_forest": 0.05, ours.LINEAR: 0.08, ours.STUMPS: 0.03}
    done = [
        (Unit("decisions", "clocks", m, {}, "1", dict), {"value": v, "seconds": 1, "cpu_in_all": 2})
        for m, v in values.items()
    ]
    made = page.records("clocks", done)
    (target,) = [t for t in page.targets(made) if t.wanted.startswith("clocks")]
    assert target.measured == "0.6"
    assert target.met
    assert all(t.met is None for t in page.targets(made) if t != target)
    shown = page.show(made)
    assert "3.00" in shown
    assert network_losses.REMEDY in shown
    page.plot(made, tmp_path / "decisions.png")
    assert not list(tmp_path.iterdir())
