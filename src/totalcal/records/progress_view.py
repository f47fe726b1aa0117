"""A grid's progress as people look at it: a row a model, a sign a seed, the time left."""

from collections import defaultdict
from typing import TYPE_CHECKING

from totalcal.records.folders import State
from totalcal.records.progress import GridProgress, Kind, RunProgress

if TYPE_CHECKING:
    from rich.console import Group

_SIGNS = {
    State.DONE: "[green]●[/]",
    State.FAILED: "[red]✗[/]",
    State.STOPPED: "[yellow]◌[/]",
    State.WAITING: "[dim]○[/]",
}


def progress_view(progress: GridProgress) -> "Group":
    """For rich; it reads without colours too."""
    from rich import box
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    rows: dict[Kind, list[RunProgress]] = defaultdict(list)
    for run in progress.runs:
        rows[run.kind].append(run)
    table = Table("task", "preset", "model", "seeds", box=box.SIMPLE_HEAD, pad_edge=False)
    for kind, runs in rows.items():
        table.add_row(*map(escape, kind), " ".join(map(_sign, runs)))
    failures = [
        f"[red]{escape(' '.join(run.kind))}, seed {run.seed}[/] ({run.name}): {escape(run.error)}"
        for run in progress.runs
        if run.state is State.FAILED
    ]
    return Group(table, _summary(progress), *failures)


def _sign(run: RunProgress) -> str:
    if run.state is State.RUNNING:
        return f"[cyan]{run.share:.0%}[/]"
    return _SIGNS[run.state]


def _summary(progress: GridProgress) -> str:
    counts = progress.counts
    parts = [f"{counts[State.DONE]} of {len(progress.runs)} done"]
    parts += [f"{counts[state]} {state}" for state in State if state is not State.DONE and counts[state]]
    if progress.is_busy and progress.seconds_left is not None:
        parts.append(f"about {duration(progress.seconds_left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time to plan by.

    >>> duration(42), duration(600), duration(20_000)
    ('42 s', '10 min', '5.6 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
