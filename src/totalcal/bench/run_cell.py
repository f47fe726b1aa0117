"""One cell: train, judge, leave a record. A pure function of the configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from totalcal.bench.artefacts import write_artefacts
from totalcal.bench.building import load_data
from totalcal.bench.cell import Cell
from totalcal.bench.judging import judge, record_of
from totalcal.bench.trained import predictor_of
from totalcal.records.folders import RunFolder
from totalcal.records.store import append


def run_cell(cell: Cell, folder: RunFolder, data_dir: Path | None = None) -> None:
    """What an earlier attempt may have left of the results is made anew; its training is taken up."""
    folder.records_file.unlink(missing_ok=True)
    with one_thread():
        data = load_data(cell, data_dir)
        predictor = predictor_of(cell, folder, data)
        verdict = judge(cell, predictor, data)
        write_artefacts(folder.artefacts_file, cell, verdict, predictor, data)
        append(folder.records_file, record_of(cell, verdict, predictor, data))


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how many threads share them, so every cell has one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
