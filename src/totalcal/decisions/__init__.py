"""Rejection: when to answer, when to ask a person, and what the threshold costs."""

from totalcal.decisions.costs import Costs
from totalcal.decisions.deciding import PerClass, Thresholds
from totalcal.decisions.discoveries import Discoveries, discoveries
from totalcal.decisions.gate import (
    Bar,
    Decisions,
    Gate,
    HeldOutRates,
    predict_like,
)
from totalcal.decisions.judging import JudgedScores, judge_scores
from totalcal.decisions.rules import Coverage, FalseRejection, Risk, Rule
from totalcal.uncertainties import UNCERTAINTIES, uncertainty

__all__ = [
    "UNCERTAINTIES",
    "Bar",
    "Costs",
    "Coverage",
    "Decisions",
    "Discoveries",
    "FalseRejection",
    "Gate",
    "HeldOutRates",
    "JudgedScores",
    "PerClass",
    "Risk",
    "Rule",
    "Thresholds",
    "discoveries",
    "judge_scores",
    "predict_like",
    "uncertainty",
]
