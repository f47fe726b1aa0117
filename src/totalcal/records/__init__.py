"""What runs leave behind: reading, aggregation over seeds, comparison, the result in words; no torch."""

from totalcal.records.aggregate import Summary, aggregate, by_seed, show, summarise
from totalcal.records.compare import Difference, bold, paired_difference, unbeaten
from totalcal.records.scoreboard import ASPECTS, SCORES, Score, better, describe, is_score
from totalcal.records.store import Record, append, latest, read
from totalcal.records.words import has_learned, in_words, winners

__all__ = [
    "ASPECTS",
    "SCORES",
    "Difference",
    "Record",
    "Score",
    "Summary",
    "aggregate",
    "append",
    "better",
    "bold",
    "by_seed",
    "describe",
    "has_learned",
    "in_words",
    "is_score",
    "latest",
    "paired_difference",
    "read",
    "show",
    "summarise",
    "unbeaten",
    "winners",
]
