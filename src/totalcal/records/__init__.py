"""What runs leave behind: reading, aggregation over seeds, comparison, the result in words; no torch."""

from totalcal.records.compare import (
    Difference,
    Summary,
    aggregate,
    bold,
    by_seed,
    has_learned,
    in_words,
    paired_difference,
    show,
    summarise,
    unbeaten,
    winners,
)
from totalcal.records.labels import ASPECTS, SCORES, Record, Score, better, describe, is_score
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
