"""What one would pick instead: temperature scaling, MC dropout, deep ensembles; OOD scores of plain nets."""

from totalcal.baselines.baseline import (
    Ensemble,
    TemperatureScaled,
    temperature_scaled,
)
from totalcal.baselines.dropout import MCDropout
from totalcal.baselines.ood import OODScored

__all__ = [
    "Ensemble",
    "MCDropout",
    "OODScored",
    "TemperatureScaled",
    "temperature_scaled",
]
