"""The commands that make the numbers of a board again."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence

from totalcal.records.lines import read_lines
from totalcal.report.collect import Board, Run


def commands(board: Board) -> str:
    """As few commands as make all runs, each with its seeds and settings, then those that read."""
    asked: dict[tuple[str, ...], dict[str, list[int]]] = {}  # options → model → seeds
    for run in board.runs:
        seeds_of = asked.setdefault((*_settings(run), *_corruptions(run)), {})
        seeds_of.setdefault(run.folder.config["model"], []).extend(_seeds(run))
    made = [
        shlex.join(_words(board, models, stretch, options))
        for options, seeds_of in asked.items()
        for stretch, models in _by_stretch(seeds_of).items()
    ]
    return "\n".join([*made, "totalcal table runs", "totalcal report runs -o report.html"])


def _words(board: Board, models: Sequence[str], stretch: range, options: Sequence[str]) -> list[str]:
    preset = ["--authors-settings"] if board.preset == "authors" else ["--preset", board.preset]
    first = ["--first-seed", str(stretch.start)] if stretch.start else []
    asked = ["--models", ",".join(models), "--seeds", str(len(stretch)), *first]
    return ["totalcal", "run", board.task, *asked, *preset, *options, "--out", "runs"]


def _seeds(run: Run) -> range:
    """The seed of a run; those of its members, if it is an ensemble."""
    members = run.folder.config.get("settings", {}).get("members", 1)
    return range(run.seed, run.seed + members)


def _by_stretch(seeds_of: Mapping[str, Iterable[int]]) -> dict[range, list[str]]:
    """Seeds that follow each other, and the models that have them."""
    found: dict[range, list[str]] = {}
    for model, seeds in seeds_of.items():
        for stretch in _stretches(sorted(seeds)):
            found.setdefault(stretch, []).append(model)
    return found


def _stretches(seeds: Sequence[int]) -> list[range]:
    """Ascending numbers as stretches without a gap.

    >>> _stretches([0, 1, 4])
    [range(0, 2), range(4, 5)]
    """
    starts = [seed for seed in seeds if seed - 1 not in seeds]
    ends = [seed + 1 for seed in seeds if seed + 1 not in seeds]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _settings(run: Run) -> list[str]:
    settings = run.folder.config.get("settings", {})
    chosen = {key: value for key, value in settings.items() if key != "members"}  # of an ensemble: the seeds
    return [word for key, value in chosen.items() for word in ("--set", f"{key}={_value(value)}")]


def _corruptions(run: Run) -> list[str]:
    lines = read_lines(run.folder.corruptions_file)
    if not lines:
        return []
    types = ",".join(dict.fromkeys(line["corruption"] for line in lines))
    severities = ",".join(map(str, sorted({line["severity"] for line in lines})))
    return ["--corruptions", "--corruption-types", types, "--severities", severities]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
