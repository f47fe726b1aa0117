"""The verdict: one sentence, then who is beaten on which of the three aspects."""

from totalcal.records import ASPECTS, Summary, has_learned, in_words, show, winners
from totalcal.report.blocks import Cell, Prose, Section, Table
from totalcal.report.collect import Board
from totalcal.report.score_cells import NOTHING, heading, measured, seeds_in_words

UNBEATEN, BEATEN = "●", "○"


def verdict_section(board: Board) -> Section:
    """What a reader in a hurry takes away."""
    return Section(
        "verdict",
        "The verdict",
        "A classifier is totally calibrated when it fits, is honest where classes overlap, and notices "
        "inputs from another domain.",
        [Prose(sentence(board), strong=True), verdict_table(board)],
    )


def sentence(board: Board) -> str:
    """The result in words, over those aspects that were measured."""
    return in_words(board.scores, _aspects(board))


def verdict_table(board: Board) -> Table:
    """A row a model, a column an aspect; a filled dot is unbeaten by the paper's rule."""
    aspects = _aspects(board)
    unbeaten = winners(board.scores, aspects)
    rows = [
        [
            Cell(model, note="" if has_learned(scores) else "has learned nothing"),
            *(_cell(key, scores.get(key), model in unbeaten[aspect]) for aspect, key in aspects.items()),
        ]
        for model, scores in board.scores.items()
    ]
    caption = (
        f"{UNBEATEN} not beaten: within three standard deviations of the best. {BEATEN} beaten. "
        f"{seeds_in_words(board)}"
    )
    columns = ["model", *(f"{aspect}: {heading(key)}" for aspect, key in aspects.items())]
    return Table("verdict", caption, columns, rows)


def _aspects(board: Board) -> dict[str, str]:
    keys = measured(board, tuple(ASPECTS.values()))
    return {aspect: key for aspect, key in ASPECTS.items() if key in keys}


def _cell(key: str, summary: Summary | None, unbeaten: bool) -> Cell:
    if summary is None:
        return NOTHING
    return Cell(f"{UNBEATEN if unbeaten else BEATEN} {show(key, summary)}", summary.mean, bold=unbeaten)
