"""Scores that others can check theirs against: pure functions of arrays, NumPy or torch.

In float64 whatever comes in, exact under ties, the same for any order and batch split. Bad input is an error.
"""

from totalcal.scores.arrays import Floats
from totalcal.scores.calibration import (
    CalibrationError,
    Reliability,
    classwise_ece,
    confidence_gap,
    debiased_calibration_error,
    ece,
    reliability,
    smooth_ece,
)
from totalcal.scores.evaluate import evaluate, evaluate_outputs, log_likelihoods
from totalcal.scores.external import (
    ExternalPredictor,
    OutputKind,
    as_predictive,
    eval_mode,
    from_arrays,
    from_module,
    from_sklearn,
)
from totalcal.scores.fit import brier, dyadic_sets, error, joint_nll, joint_nll_of_draws, nll
from totalcal.scores.ranking import (
    OperatingPoint,
    Ranking,
    augrc,
    aupr_in,
    aupr_out,
    aurc,
    auroc,
    coverage_at_risk,
    excess_aurc,
    fpr_at_tpr,
    operating_points,
    rank,
    risk_at_coverage,
)
from totalcal.scores.streaming import RunningScores
from totalcal.scores.verdict import Observed, OutOfDistribution, Verdict
from totalcal.uncertainties import P_VALUES, UNCERTAINTIES, UNFAMILIARITIES

__all__ = [
    "P_VALUES",
    "UNCERTAINTIES",
    "UNFAMILIARITIES",
    "CalibrationError",
    "ExternalPredictor",
    "Floats",
    "Observed",
    "OperatingPoint",
    "OutOfDistribution",
    "OutputKind",
    "Ranking",
    "Reliability",
    "RunningScores",
    "Verdict",
    "as_predictive",
    "augrc",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "brier",
    "classwise_ece",
    "confidence_gap",
    "coverage_at_risk",
    "debiased_calibration_error",
    "dyadic_sets",
    "ece",
    "error",
    "eval_mode",
    "evaluate",
    "evaluate_outputs",
    "excess_aurc",
    "fpr_at_tpr",
    "from_arrays",
    "from_module",
    "from_sklearn",
    "joint_nll",
    "joint_nll_of_draws",
    "log_likelihoods",
    "nll",
    "operating_points",
    "rank",
    "reliability",
    "risk_at_coverage",
    "smooth_ece",
]
