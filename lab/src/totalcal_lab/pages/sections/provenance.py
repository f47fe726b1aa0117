"""Where the numbers come from: the commands that make them again, runs, versions, hashes, configuration."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from totalcal.report import Block, Entry, Listing, Section, Table, is_score
from totalcal_lab.pages.boards import Board, Run
from totalcal_lab.records.store import read_lines

_MOVING = frozenset({"task", "preset", "model", "seed", "majority_error", "worst", "direction"})


def provenance_section(board: Board) -> Section:
    """All that is needed to make each number again."""
    blocks: list[Block] = [
        Listing("The commands that make these numbers", commands(board), folded=False),
        _runs(board),
        _shared(board),
        Listing(
            "Configuration, what all runs share",
            _as_json(_common(_flat(run.config) for run in board.runs)),
        ),
    ]
    return Section(
        "provenance",
        "Where the numbers come from",
        "A run is a folder named by the hash of its configuration; the same one gives the same records.",
        blocks,
    )


def _runs(board: Board) -> Table:
    common = _common(_flat(run.config) for run in board.runs)
    rows = [
        [
            Entry(run.model),
            Entry(str(run.seed), sort=run.seed),
            Entry(run.folder.name),
            Entry(_own(run, common)),
        ]
        for run in board.runs
    ]
    return Table.of_rows(
        "runs",
        "The runs, one by one",
        ["model", "seed", "run folder", "its own configuration"],
        rows,
        folded=True,
    )


def _shared(board: Board) -> Table:
    """What every record says alike: versions, hashes, counts."""
    facts = _common({key: value for key, value in run.record.items() if _is_fact(key)} for run in board.runs)
    rows = [[Entry(key), Entry(_as_text(value))] for key, value in facts.items()]
    return Table.of_rows(
        "facts",
        "Versions, hashes and counts that all records carry alike",
        ["key", "value"],
        rows,
        folded=True,
    )


def _is_fact(key: str) -> bool:
    return key not in _MOVING and not is_score(key)


def _own(run: Run, common: Mapping[str, Any]) -> str:
    own = {key: value for key, value in _flat(run.config).items() if key not in common}
    return ", ".join(f"{key}={_as_text(value)}" for key, value in own.items() if key not in _MOVING)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of all sections by name, `optimisation.learning_rate`, beside what stands above them."""
    settings = {
        f"{name}.{key}": value
        for name, section in config.get("sections", {}).items()
        for key, value in section.items()
    }
    return {key: value for key, value in config.items() if key not in ("sections", "settings")} | settings


def _common(many: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = many
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def commands(board: Board) -> str:
    """As few commands as make all runs, each with its seeds and settings, then those that read."""
    asked: dict[tuple[str, ...], dict[str, list[Run]]] = {}  # options → model → runs
    for run in board.runs:
        by_model = asked.setdefault((*_settings(run), *_corruptions(run)), {})
        by_model.setdefault(run.config["model"], []).append(run)
    made = [
        shlex.join(_words(board, models, seeds, options))
        for options, by_model in asked.items()
        for seeds, models in _by_seeds(by_model).items()
    ]
    return "\n".join([*made, "totalcal-lab table runs", "totalcal-lab report runs -o report.html"])


def _words(board: Board, models: Sequence[str], seeds: range, options: Sequence[str]) -> list[str]:
    preset = ["--authors-settings"] if board.preset == "authors" else ["--preset", board.preset]
    first = ["--first-seed", str(seeds.start)] if seeds.start else []
    asked = ["--models", ",".join(models), "--seeds", str(len(seeds)), *first]
    return ["totalcal-lab", "run", board.task, *asked, *preset, *options, "--out", "runs"]


def _by_seeds(by_model: Mapping[str, Sequence[Run]]) -> dict[range, list[str]]:
    """Seeds that follow each other, and the models that have them."""
    found: dict[range, list[str]] = {}
    for model, runs in by_model.items():
        for seeds in _members(runs) if model == "ensemble" else _stretches([run.seed for run in runs]):
            found.setdefault(seeds, []).append(model)
    return found


def _members(runs: Sequence[Run]) -> list[range]:
    """The seeds that the nets of ensembles have: those that `run` was asked for."""
    sizes = [run.config.get("settings", {}).get("members", 1) for run in runs]
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
    settings = run.config.get("settings", {})
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
