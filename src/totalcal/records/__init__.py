"""What runs leave behind: reading, aggregation over seeds, comparison, the result in words; no torch."""

from totalcal.records.aggregate import Summary, aggregate, by_seed, show, summarise
from totalcal.records.compare import (
    Difference,
    bold,
    has_learned,
    in_words,
    paired_difference,
    unbeaten,
    winners,
)
from totalcal.records.labels import ASPECTS, SCORES, Score, better, describe, is_score
from totalcal.records.lines import Record
from totalcal.records.store import append, latest, read

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
