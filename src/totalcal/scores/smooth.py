"""A calibration error without bins: smooth ECE (Błasiok and Nakkiran, 2023)."""

import numpy as np

from totalcal.scores.arrays import Floats, Values
from totalcal.scores.calibration import CalibrationError
from totalcal.scores.checks import check_predictions

GRID = 4096  # cells over [0, 1]; the value moves by less than a cell
PRECISION = 1e-5


def smooth_ece(probabilities: Values, labels: Values) -> CalibrationError:
    """∫₀¹ |(1/n) Σ_i (1[y_i = ŷ_i] − c_i) K_σ(t, c_i)| dt, at the σ that equals the value itself.

    K_σ is a Gaussian reflected at 0 and 1. No bin edge can move the value, and no bandwidth is chosen by
    hand: the integral falls as σ grows, so there is one σ where both are equal.
    """
    array, truth = check_predictions(probabilities, labels)
    confidence = array.max(axis=1)
    residuals = _on_grid(confidence, (array.argmax(axis=1) == truth) - confidence)
    low, high = 1 / GRID, 1.0
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if _smoothed(residuals, middle) > middle else (low, middle)
    return CalibrationError(_smoothed(residuals, high), f"reflected Gaussian, σ = {high:.4f}", GRID, ())


def _on_grid(confidence: Floats, residual: Floats) -> Floats:
    """The residuals' mass in each cell, shared between the two cells whose centres are nearest."""
    position = np.clip(confidence * GRID - 0.5, 0, GRID - 1)
    left = np.minimum(position.astype(np.int64), GRID - 2)
    share = position - left
    mass = np.bincount(left, residual * (1 - share), GRID) + np.bincount(left + 1, residual * share, GRID)
    return mass / len(confidence)


def _smoothed(mass: Floats, sigma: float) -> float:
    """∫ |K_σ mass|: a Gaussian reflected at both ends is diagonal in the cosine transform."""
    from scipy.fft import dct, idct

    frequency = np.pi * np.arange(len(mass))
    smooth = idct(dct(mass) * np.exp(-np.square(frequency * sigma) / 2))
    return float(np.abs(smooth).sum())
