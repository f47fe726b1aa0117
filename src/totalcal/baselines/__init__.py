"""What one would pick instead: temperature scaling, MC dropout, deep ensembles; OOD scores of plain nets."""

from totalcal.baselines.baseline import (
    BASELINES,
    Baseline,
    Ensemble,
    Nets,
    TemperatureScaled,
    TrainNet,
    baseline_named,
    temperature_scaled,
)
from totalcal.baselines.dropout import MCDropout
from totalcal.baselines.ood import OODScored

__all__ = [
    "BASELINES",
    "Baseline",
    "Ensemble",
    "MCDropout",
    "Nets",
    "OODScored",
    "TemperatureScaled",
    "TrainNet",
    "baseline_named",
    "temperature_scaled",
]
