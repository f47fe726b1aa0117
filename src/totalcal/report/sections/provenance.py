"""Where the numbers come from: commands, runs, versions, hashes, configuration."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from totalcal.records import is_score
from totalcal.report.blocks import Block, Cell, Listing, Section, Table
from totalcal.report.collect import Board, Run
from totalcal.report.commands import commands

_MOVING = frozenset({"task", "preset", "model", "seed", "majority_error", "worst", "direction"})


def provenance_section(board: Board) -> Section:
    """All that is needed to make each number again."""
    blocks: list[Block] = [
        Listing("The commands that make these numbers", commands(board), folded=False),
        _runs(board),
        _shared(board),
        Listing(
            "Configuration, what all runs share",
            _as_json(_common(_flat(run.folder.config) for run in board.runs)),
        ),
    ]
    return Section(
        "provenance",
        "Where the numbers come from",
        "A run is a folder named by the hash of its configuration; the same one gives the same records.",
        blocks,
    )


def _runs(board: Board) -> Table:
    common = _common(_flat(run.folder.config) for run in board.runs)
    rows = [
        [Cell(run.model), Cell(str(run.seed), run.seed), Cell(run.folder.name), Cell(_own(run, common))]
        for run in board.runs
    ]
    return Table(
        "runs",
        "The runs, one by one",
        ["model", "seed", "run folder", "its own configuration"],
        rows,
        folded=True,
    )


def _shared(board: Board) -> Table:
    """What every record says alike: versions, hashes, counts."""
    facts = _common({key: value for key, value in run.record.items() if _is_fact(key)} for run in board.runs)
    rows = [[Cell(key), Cell(_as_text(value))] for key, value in facts.items()]
    return Table(
        "facts",
        "Versions, hashes and counts that all records carry alike",
        ["key", "value"],
        rows,
        folded=True,
    )


def _is_fact(key: str) -> bool:
    return key not in _MOVING and not is_score(key)


def _own(run: Run, common: Mapping[str, Any]) -> str:
    own = {key: value for key, value in _flat(run.folder.config).items() if key not in common}
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
