"""Scores that others can check theirs against: pure functions of arrays, NumPy or torch.

In float64 whatever comes in, exact under ties, the same for any order and batch split. Bad input is an error.
"""

from totalcal.scores.arrays import Floats
from totalcal.scores.calibration import (
    CalibrationError,
    Reliability,
    classwise_ece,
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
from totalcal.scores.fit import brier, error, nll
from totalcal.scores.ranking import (
    OperatingPoint,
    Ranking,
    augrc,
    aupr_in,
    aupr_out,
    aurc,
    auroc,
    excess_aurc,
    fpr_at_tpr,
    operating_points,
    rank,
)
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
    "Verdict",
    "as_predictive",
    "augrc",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "brier",
    "classwise_ece",
    "debiased_calibration_error",
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
    "log_likelihoods",
    "nll",
    "operating_points",
    "rank",
    "reliability",
    "smooth_ece",
]
