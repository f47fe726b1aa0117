"""scikit-learn's own acceptance test."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from totalcal.estimator import ESTIMATORS, EXPECTED_FAILED_CHECKS

QUICK = {"max_epochs": 12, "learning_rate": 1e-2, "hidden": (16,), "draws": 3, "random_state": 0}


@parametrize_with_checks(
    [make(**QUICK) for make in ESTIMATORS.values()],
    expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS,
)
def test_every_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
