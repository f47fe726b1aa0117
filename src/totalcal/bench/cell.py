"""A cell of the grid: one model, trained and judged on one task with one seed, every setting spelled out."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FORMAT = 1
"""Raised when the same configuration would give other numbers: old runs are then no longer taken for new."""

Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """`sections` are all settings, `settings` those that differ from the preset; `needs` are other cells."""

    task: str
    preset: str
    model: str
    seed: int
    sections: Sections
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def net(self) -> str:
        """The model of the family that is trained for it: a rival is made of plain nets."""
        return str(self.sections["model"]["name"])

    @property
    def epochs(self) -> int:
        return int(self.sections["training"]["epochs"])

    @property
    def identity(self) -> dict[str, Any]:
        """What every record of the cell begins with."""
        return {
            "task": self.task,
            "preset": self.preset,
            "model": self.model,
            "seed": self.seed,
            "epochs": self.epochs,
            "settings": dict(self.settings),
        }

    @property
    def config(self) -> dict[str, Any]:
        """The whole of it as JSON, from which the cell can be made again."""
        return {
            "format": FORMAT,
            **self.identity,
            "sections": {name: dict(section) for name, section in self.sections.items()},
            "needs": list(self.needs),
        }

    @property
    def name(self) -> str:
        """The hash of the configuration."""
        text = json.dumps(self.config, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Cell":
        return cls(
            config["task"],
            config["preset"],
            config["model"],
            config["seed"],
            config["sections"],
            config["settings"],
            tuple(config["needs"]),
        )
