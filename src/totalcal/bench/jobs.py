"""Jobs that leave their outcome in folders, planned and run together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from totalcal.bench.engines import engine_named
from totalcal.bench.rounds import FolderJob, run_rounds
from totalcal.records.folders import RunFolder


class PlannedJob(FolderJob, Protocol):
    """A job whose folder says from the beginning what it is about."""

    @property
    def config(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Jobs:
    """A set of jobs and their folders."""

    jobs: Sequence[PlannedJob]

    @classmethod
    def planned(cls, jobs: Sequence[PlannedJob]) -> "Jobs":
        """Every folder is there from the beginning, so that whoever looks sees what is still to come."""
        for job in jobs:
            job.folder.plan(job.config)
            if not job.folder.is_done:
                job.folder.ask()
        return cls(jobs)

    def folders(self) -> list[RunFolder]:
        return [job.folder for job in self.jobs]

    @property
    def are_done(self) -> bool:
        return all(folder.is_done for folder in self.folders())

    def run(self, engine: str = "loky", workers: int = 1) -> None:
        """Until every job is done or given up."""
        with engine_named(engine, workers) as submit:
            run_rounds(self.jobs, submit)
