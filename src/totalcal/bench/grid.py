"""The cells of a grid as jobs, each in the folder that its configuration names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from totalcal.bench.attempt import attempt
from totalcal.bench.cell import Cell
from totalcal.bench.jobs import Jobs
from totalcal.records.folders import RunFolder


@dataclass(frozen=True)
class CellJob:
    """A cell and where it is worked on; small enough to travel to any worker."""

    cell: Cell
    root: Path
    data_dir: Path | None = None

    @property
    def config(self) -> dict[str, Any]:
        return self.cell.config

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.root / self.cell.name)

    def __call__(self) -> None:
        attempt(self.folder, self._work, [RunFolder(self.root / need) for need in self.cell.needs])

    def _work(self, folder: RunFolder) -> None:
        from totalcal.bench.run_cell import run_cell

        run_cell(self.cell, folder, self.data_dir)


def cell_jobs(cells: Sequence[Cell], root: Path, data_dir: Path | None = None) -> Jobs:
    return Jobs.planned([CellJob(cell, root.absolute(), data_dir) for cell in cells])
