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


@dataclass(frozen=True)
class Jobs:
    """The cells of a grid with their folders."""

    jobs: Sequence[CellJob]

    @classmethod
    def planned(cls, cells: Sequence[Cell], root: Path, data_dir: Path | None = None) -> "Jobs":
        """Every folder is there from the beginning, so that whoever looks sees what is still to come."""
        jobs = cls([CellJob(cell, root.absolute(), data_dir) for cell in cells])
        for job in jobs.jobs:
            job.folder.plan(job.cell.config)
            if not job.folder.is_done:
                job.folder.ask()
        return jobs

    def folders(self) -> list[RunFolder]:
        return [job.folder for job in self.jobs]

    @property
    def are_done(self) -> bool:
        return all(folder.is_done for folder in self.folders())

    def run(self, engine: str = "loky", workers: int = 1) -> None:
        """Until every cell is done or given up."""
        with engine_named(engine, workers) as submit:
            run_rounds(self.jobs, submit)
