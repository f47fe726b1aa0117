"""What one would pick instead: temperature scaling, MC dropout, a deep ensemble, each as a predictor.

`totalcal.registry` names them; a baseline is the `BASELINE` of the file of its name.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from totalcal import registry
from totalcal.baselines.baseline import Baseline, Nets, TrainNet
from totalcal.baselines.ensemble import Ensemble
from totalcal.baselines.mc_dropout import MCDropout
from totalcal.baselines.temperature import TemperatureScaled, temperature_scaled
from totalcal.errors import UnknownNameError


def _baseline(name: str) -> Baseline:
    found: Baseline = import_module(f"{__name__}.{name}").BASELINE
    return found


BASELINES: Mapping[str, Baseline] = MappingProxyType({name: _baseline(name) for name in registry.BASELINES})


def baseline_named(name: str) -> Baseline:
    """A baseline by name.

    Raises:
        UnknownNameError: There is none of this name; it names the nearest.
    """
    if name not in BASELINES:
        raise UnknownNameError("baseline", name, BASELINES)
    return BASELINES[name]


__all__ = [
    "BASELINES",
    "Baseline",
    "Ensemble",
    "MCDropout",
    "Nets",
    "TemperatureScaled",
    "TrainNet",
    "baseline_named",
    "temperature_scaled",
]
