"""From what was asked for to the cells of the grid, in the order in which they run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from totalcal.bench.authors import AUTHORS, authors_overrides, base_preset
from totalcal.bench.building import build_process, data_options
from totalcal.bench.cell import Cell, Sections
from totalcal.bench.sections import all_settings, check_known, overridden
from totalcal.data.tasks import task as task_named
from totalcal.errors import InputError, UnknownNameError
from totalcal.models import MODELS
from totalcal.rivals import DROPOUT, RIVALS

_GROUPS = {"all": tuple(MODELS), "rivals": tuple(RIVALS)}
_PLAIN = "softmax"


def models_named(text: str) -> list[str]:
    """Models and rivals from a list with commas; `all` is the family, `rivals` the rivals.

    >>> models_named("etp,rivals")
    ['etp', 'temperature', 'mc_dropout', 'ensemble']
    """
    known = [*MODELS, *RIVALS]
    words = [word.strip() for word in text.split(",")]
    names = [name for word in words for name in _GROUPS.get(word, (word,))]
    for name in names:
        if name not in known:
            raise UnknownNameError("model", name, [*known, *_GROUPS])
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Grid:
    """What was asked for: a task with a preset, and settings that differ from it."""

    task: str
    preset: str
    overrides: Mapping[str, Any]

    def cells(self, models: Sequence[str], seeds: int, first_seed: int = 0) -> list[Cell]:
        """Seed-major, so that a stopped grid is a balanced one; plain nets first, since rivals build on them.

        The ensemble takes the plain nets of all seeds: it is one cell, and the last.
        """
        if seeds < 1:
            raise InputError(f"a grid needs seeds ≥ 1, but got {seeds}.")
        if first_seed < 0:
            raise InputError(f"seeds are counted from 0, but the first is to be {first_seed}.")
        names = _plain_first(models)
        check_known(self.overrides, [self._sections(name) for name in names])
        alone = [name for name in names if name != "ensemble"]
        rows = [self._row(alone, seed) for seed in range(first_seed, first_seed + seeds)]
        cells = [cell for row in rows for cell in row.values()]
        if "ensemble" in names:
            cells.append(self._cell("ensemble", first_seed, [row[_PLAIN] for row in rows]))
        for cell in rows[0].values():
            build_process(cell)  # a setting that is refused is refused before any work is done
            data_options(cell)
        return cells

    def _row(self, names: Sequence[str], seed: int) -> dict[str, Cell]:
        row: dict[str, Cell] = {}
        for name in names:
            row[name] = self._cell(name, seed, [row[_PLAIN]] if name == "temperature" else [])
        return row

    def _cell(self, name: str, seed: int, needs: Sequence[Cell]) -> Cell:
        sections, settings = overridden(self._sections(name), self.overrides)
        if name == "ensemble":
            settings["members"] = len(needs)
        return Cell(
            self.task, self.preset, name, seed, sections, settings, tuple(need.name for need in needs)
        )

    def _sections(self, name: str) -> Sections:
        """The preset's settings for a model or a rival."""
        net = name if name in MODELS else _PLAIN
        sections: Sections = all_settings(net, base_preset(self.task, self.preset))
        if name == "mc_dropout":
            sections, _ = overridden(sections, {"backbone.dropout": DROPOUT})
        if self.preset == AUTHORS:
            sections, _ = overridden(sections, authors_overrides(net, task_named(self.task)))
        return sections


def _plain_first(models: Sequence[str]) -> list[str]:
    needed = {_PLAIN, "temperature", "ensemble"} & set(models)
    return [_PLAIN] * bool(needed) + [model for model in models if model != _PLAIN]
