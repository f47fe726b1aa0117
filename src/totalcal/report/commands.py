"""The commands that make the numbers of a board again."""

import json
import shlex
from collections.abc import Mapping, Sequence

from totalcal.records.lines import read_lines
from totalcal.report.collect import Board, Run


def commands(board: Board) -> str:
    """As few commands as make all runs, each with its seeds and settings, then those that read."""
    asked: dict[tuple[str, ...], dict[str, list[Run]]] = {}  # options → model → runs
    for run in board.runs:
        by_model = asked.setdefault((*_settings(run), *_corruptions(run)), {})
        by_model.setdefault(run.folder.config["model"], []).append(run)
    made = [
        shlex.join(_words(board, models, seeds, options))
        for options, by_model in asked.items()
        for seeds, models in _by_seeds(by_model).items()
    ]
    return "\n".join([*made, "totalcal table runs", "totalcal report runs -o report.html"])


def _words(board: Board, models: Sequence[str], seeds: range, options: Sequence[str]) -> list[str]:
    preset = ["--authors-settings"] if board.preset == "authors" else ["--preset", board.preset]
    first = ["--first-seed", str(seeds.start)] if seeds.start else []
    asked = ["--models", ",".join(models), "--seeds", str(len(seeds)), *first]
    return ["totalcal", "run", board.task, *asked, *preset, *options, "--out", "runs"]


def _by_seeds(by_model: Mapping[str, Sequence[Run]]) -> dict[range, list[str]]:
    """Seeds that follow each other, and the models that have them."""
    found: dict[range, list[str]] = {}
    for model, runs in by_model.items():
        for seeds in _members(runs) if model == "ensemble" else _stretches([run.seed for run in runs]):
            found.setdefault(seeds, []).append(model)
    return found


def _members(runs: Sequence[Run]) -> list[range]:
    """The seeds that the nets of ensembles have: those that `run` was asked for."""
    sizes = [run.folder.config["settings"]["members"] for run in runs]
    return [range(run.seed, run.seed + size) for run, size in zip(runs, sizes, strict=True)]


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
