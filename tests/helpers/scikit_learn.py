"""scikit-learn's own checks of an estimator."""

import warnings

from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator


def check_battery(estimator, n_passed, unlike_others=None):
    """No check fails but those with a reason, and at least so many pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(estimator, expected_failed_checks=unlike_others, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) >= n_passed
    unlike = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert unlike == set(unlike_others or ())
