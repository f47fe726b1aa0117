"""What one would pick instead: temperature scaling, MC dropout, deep ensembles; OOD scores of plain nets."""

from totalcal.baselines.ood import OODScored
from totalcal.baselines.predictors import (
    Ensemble,
    MCDropout,
    TemperatureScaled,
    temperature_scaled,
)

__all__ = [
    "Ensemble",
    "MCDropout",
    "OODScored",
    "TemperatureScaled",
    "temperature_scaled",
]
