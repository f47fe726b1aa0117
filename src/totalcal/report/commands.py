"""The commands that make the numbers of a board again."""

import json
import shlex
from collections.abc import Sequence

from totalcal.records.lines import read_lines
from totalcal.report.collect import Board, Run


def commands(board: Board) -> str:
    """One command for each way in which settings differ from the preset, then those that read."""
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in board.runs:
        alike.setdefault((*_settings(run), *_corruptions(run)), []).append(run)
    made = [shlex.join(_words(board, runs, options)) for options, runs in alike.items()]
    return "\n".join([*made, "totalcal table runs", "totalcal report runs -o report.html"])


def _words(board: Board, runs: Sequence[Run], options: Sequence[str]) -> list[str]:
    models = dict.fromkeys(run.folder.config["model"] for run in runs)
    preset = ["--authors-settings"] if board.preset == "authors" else ["--preset", board.preset]
    asked = ["--models", ",".join(models), "--seeds", str(len(board.seeds))]
    return ["totalcal", "run", board.task, *asked, *preset, *options, "--out", "runs"]


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
