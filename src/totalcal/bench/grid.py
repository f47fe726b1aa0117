"""Run a grid of cells, each in its folder, on an engine, until all are done or given up."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from totalcal.bench.attempt import attempt
from totalcal.bench.cell import Cell
from totalcal.bench.engines import engine_named
from totalcal.bench.rounds import run_rounds
from totalcal.records.folders import RunFolder


@dataclass(frozen=True)
class CellJob:
    """A cell and where it is worked on; small enough to travel to any worker."""

    cell: Cell
    root: Path
    data_dir: Path | None = None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.root / self.cell.name)

    def __call__(self) -> None:
        attempt(self.folder, self._work, [RunFolder(self.root / need) for need in self.cell.needs])

    def _work(self, folder: RunFolder) -> None:
        from totalcal.bench.run_cell import run_cell

        run_cell(self.cell, folder, self.data_dir)


def run_grid(
    cells: Sequence[Cell],
    root: Path,
    engine: str = "loky",
    workers: int = 1,
    data_dir: Path | None = None,
) -> list[RunFolder]:
    """The folders of the cells, in their order; those that failed have no done marker."""
    jobs = [CellJob(cell, root.absolute(), data_dir) for cell in cells]
    for job in jobs:
        job.folder.plan(job.cell.config)
        if not job.folder.is_done:
            job.folder.ask()
    with engine_named(engine, workers) as submit:
        run_rounds(jobs, submit)
    return [job.folder for job in jobs]
