"""What was measured: the verdict, all scores beside the paper's, paired comparisons, the OOD panel, cost."""

from collections.abc import Iterable, Sequence

from totalcal.report import (
    ASPECTS,
    Entry,
    Prose,
    Section,
    Summary,
    Table,
    by_seed,
    describe,
    paired_difference,
    show,
)
from totalcal_lab.pages.boards import Board
from totalcal_lab.records.bold import bold, has_learned, in_words, winners
from totalcal_lab.records.formats import NOTHING
from totalcal_lab.records.labels import seeds_in_words
from totalcal_lab.records.paper import SEEDS, results
from totalcal_lab.records.progress import PLAIN, costs

UNBEATEN, BEATEN = "●", "○"
_STUCK = "\N{NO-BREAK SPACE}"
_MAIN = ("error", "nll", "ece", "ece_100", "auroc")
_MORE = (
    "brier", "joint_nll", "ece_debiased", "ece_smooth", "ece_classwise", "aurc", "excess_aurc", "augrc",
)  # fmt: skip


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
    """One row per model, one column per aspect; a filled dot is unbeaten by the paper's rule."""
    aspects = _aspects(board)
    unbeaten = winners(board.scores, aspects)
    rows = [
        [
            Entry(model, note="" if has_learned(scores) else "has learned nothing"),
            *(_verdict(key, scores.get(key), model in unbeaten[aspect]) for aspect, key in aspects.items()),
        ]
        for model, scores in _listed(board)
    ]
    caption = (
        f"{UNBEATEN} not beaten: within three standard deviations of the best. {BEATEN} beaten. "
        f"{over_seeds(board)}{_of_many(board)}"
    )
    columns = ["model", *(f"{aspect}: {heading(key)}" for aspect, key in aspects.items())]
    return Table.of_rows("verdict", caption, columns, rows)


def _verdict(key: str, summary: Summary | None, unbeaten: bool) -> Entry:
    if summary is None:
        return NOTHING
    return Entry(f"{UNBEATEN if unbeaten else BEATEN} {show(key, summary)}", unbeaten, summary.mean)


def results_section(board: Board) -> Section:
    """Mean ± standard deviation of every score, bold by the paper's rule."""
    main, more = measured(board, _MAIN), measured(board, _MORE)
    tables = [
        _scores(board, "results", f"{_caption(board)}{_of_many(board)}", main, board.listed),
        _scores(board, "more-results", f"More scores{_of_many(board)}", more, board.listed, folded=True),
        _paired(board),
    ]
    if len(board.listed) < len(board.models):
        tables.append(
            _scores(board, "all-results", f"All {len(board.models)} rows", main, board.models, folded=True)
        )
    return Section(
        "results",
        "All scores",
        "Bold lies within three standard deviations of the best: the rule behind the paper's Table 2.",
        [table for table in tables if table is not None and len(table.columns) > 1],
    )


def _scores(
    board: Board, name: str, caption: str, keys: Sequence[str], models: Sequence[str], folded: bool = False
) -> Table:
    columns = [_column(board, key) for key in keys]
    rows = [[Entry(model), *(column[model] for column in columns)] for model in models]
    return Table.of_rows(name, caption, ["model", *map(heading, keys)], rows, folded)


def _column(board: Board, key: str) -> dict[str, Entry]:
    found = _found(board, key)
    best = bold(key, found)
    return {
        model: score_entry(key, found.get(model), model in best, _paper(board.task, key, model))
        for model in board.models
    }


def _paper(task: str, key: str, model: str) -> str:
    entry = results().get((task, key), {}).get(model)
    return f"paper {show(key, entry.summary)}" if entry else ""


def _caption(board: Board) -> str:
    beside = any(task == board.task for task, _ in results())
    paper = f" Beneath, in small type: the paper's Table 2, over {SEEDS} seeds." if beside else ""
    return f"{over_seeds(board)}{paper}"


def _paired(board: Board) -> Table | None:
    """Every model against the best of each aspect, seed by seed: a test, where bold is a rule of thumb."""
    aspects = _aspects(board)
    if len(board.listed) < 2:
        return None
    columns = [_against_the_best(board, key) for key in aspects.values()]
    rows = [[Entry(model), *(column[model] for column in columns)] for model in board.listed]
    caption = (
        "Against the best, seed by seed: the mean difference with its 95 % interval (Student's t for pairs, "
        "one comparison at a time)"
    )
    header = ["model", *(f"{aspect}: {describe(key).title}" for aspect, key in aspects.items())]
    return Table.of_rows("paired", caption, header, rows, folded=True)


def _against_the_best(board: Board, key: str) -> dict[str, Entry]:
    values, found = by_seed([run.record for run in board.runs], key), _found(board, key)
    sign = 1 if describe(key).lower_is_better else -1
    able = {model: summary for model, summary in found.items() if summary.mean == summary.mean}
    if not able:
        return dict.fromkeys(board.listed, NOTHING)
    best = min(able, key=lambda model: sign * able[model].mean)
    entries = dict.fromkeys(board.listed, NOTHING) | {best: Entry("the best", sort=0.0)}
    for model in (model for model in board.listed if model in values and model != best):
        difference = paired_difference(values[model], values[best])
        scale, digits = (100, 1) if describe(key).percent else (1, 3)
        numbers = [f"{scale * number:+.{digits}f}".replace("-", "−") for number in difference[:3]]
        interval = (
            f"{numbers[0]} ({numbers[1]} to {numbers[2]})" if difference.low < difference.high else numbers[0]
        )
        entries[model] = Entry(interval, sort=difference.mean, note=difference.in_words())
    return entries


def panel_section(board: Board) -> Section | None:
    """AUROC on each OOD set of the panel; None where no OOD set was shown to the models."""
    members = _members(board)
    if not members:
        return None
    summaries = measured(board, ("auroc_mean", "auroc_worst")) if len(members) > 1 else []
    areas = [*(f"auroc/{member}" for member in members), *summaries]
    alarms = measured(board, tuple(f"fpr95/{member}" for member in members))
    caption = f"AUROC in %, OOD is positive. {over_seeds(board)} {_worst(board, members)}{_of_many(board)}"
    tables = [_panel(board, "panel", caption, areas)]
    if alarms:
        rarer = "False alarms in % when 95 % of the OOD inputs are found"
        tables.append(_panel(board, "panel-alarms", rarer, alarms, folded=True))
    return Section(
        "panel",
        "OOD detection, set by set",
        "A model that detects one OOD set may fail on the next, so the worst one counts.",
        tables,
    )


def _panel(board: Board, name: str, caption: str, keys: Sequence[str], folded: bool = False) -> Table:
    best = {key: bold(key, _found(board, key)) for key in keys}
    rows = [
        [Entry(model), *(score_entry(key, scores.get(key), model in best[key]) for key in keys)]
        for model, scores in _listed(board)
    ]
    heads = [{"auroc_mean": "mean", "auroc_worst": "worst"}.get(key, key.partition("/")[2]) for key in keys]
    return Table.of_rows(name, caption, ["model", *heads], rows, folded)


def _members(board: Board) -> list[str]:
    keys = dict.fromkeys(key for scores in board.scores.values() for key in scores)
    return [key.partition("/")[2] for key in keys if key.startswith("auroc/")]


def _worst(board: Board, members: Sequence[str]) -> str:
    """Which member is hardest over all models."""
    if len(members) < 2:
        return ""
    means = {
        member: sum(summary.mean for summary in found.values()) / len(found)
        for member in members
        if (found := _found(board, f"auroc/{member}"))
    }
    return f"Hardest for these models: {min(means, key=means.__getitem__)}."


def cost_section(board: Board) -> Section | None:
    """Median seconds per epoch; None where nothing was trained."""
    found = costs(run.folder for run in board.runs)[board.task, board.preset]
    if not found:
        return None
    rows = [
        [Entry(model), Entry(f"{cost.seconds:.3g}", sort=cost.seconds), _ratio(cost.ratio)]
        for model, cost in found.items()
    ]
    caption = "Median over epochs and seeds. Runs that shared a machine's cores have slowed each other down."
    return Section(
        "cost",
        "What does it cost?",
        "The limit is the plain net on the same backbone. The paper's ETP took 1.32 times as long as BNN.",
        [Table.of_rows("cost", caption, ["model", "seconds per epoch", f"relative to {PLAIN}"], rows)],
    )


def _ratio(ratio: float | None) -> Entry:
    return NOTHING if ratio is None else Entry(f"{ratio:.2f}", sort=ratio)


def heading(key: str) -> str:
    """The head of a score's column: its title, its unit, which way is better.

    >>> heading("nll"), heading("auroc")
    ('NLL\\xa0↓', 'OOD AUROC,\\xa0%\\xa0↑')
    """
    score = describe(key)
    unit = f",{_STUCK}%" if score.percent else ""
    return f"{score.title}{unit}{_STUCK}{'↓' if score.lower_is_better else '↑'}"


def score_entry(key: str, summary: Summary | None, bold: bool = False, note: str = "") -> Entry:
    """A summary over seeds, sorted by its mean; a dash where nothing was measured."""
    return NOTHING if summary is None else Entry(show(key, summary), bold, summary.mean, note)


def measured(board: Board, keys: Iterable[str]) -> list[str]:
    """Those scores that any model of the board has."""
    return [key for key in keys if any(key in scores for scores in board.scores.values())]


def over_seeds(board: Board) -> str:
    """How many seeds stand behind a mean."""
    counts = {model: len(board.of(model)) for model in board.models}
    if max(counts.values()) == 1:
        return "One seed: no spread is known."
    return f"Mean ± standard deviation over {seeds_in_words(counts)}."


def _aspects(board: Board) -> dict[str, str]:
    keys = measured(board, ASPECTS.values())
    return {aspect: key for aspect, key in ASPECTS.items() if key in keys}


def _found(board: Board, key: str) -> dict[str, Summary]:
    return {model: scores[key] for model, scores in board.scores.items() if key in scores}


def _listed(board: Board) -> Iterable[tuple[str, dict[str, Summary]]]:
    return ((model, dict(board.scores[model])) for model in board.listed)


def _of_many(board: Board) -> str:
    shown, all_of_them = len(board.listed), len(board.models)
    return (
        ""
        if shown == all_of_them
        else f" The best {shown} of {all_of_them} rows by NLL; all of them stand under All scores."
    )
