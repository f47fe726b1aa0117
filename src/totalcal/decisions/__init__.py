"""Rejection: when to answer, when to ask a person, and what the threshold costs."""

from totalcal.decisions.gate import (
    FAMILIARITY_AND_ENTROPY,
    OVERLAP_AND_DOMAIN,
    Bar,
    Cost,
    Decisions,
    Gate,
)
from totalcal.decisions.predictions import predict_like
from totalcal.decisions.rules import Coverage, FalseRejection, Risk, Rule
from totalcal.uncertainties import UNCERTAINTIES, uncertainty

__all__ = [
    "FAMILIARITY_AND_ENTROPY",
    "OVERLAP_AND_DOMAIN",
    "UNCERTAINTIES",
    "Bar",
    "Cost",
    "Coverage",
    "Decisions",
    "FalseRejection",
    "Gate",
    "Risk",
    "Rule",
    "predict_like",
    "uncertainty",
]
