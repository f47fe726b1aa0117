"""Two processes are one run: one write of joined contexts, one gradient of joined batches."""

import runpy
import socket
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from totalcal import Batch, fit
from totalcal.training.sources import TensorSource

SCRIPT = runpy.run_path(str(Path(__file__).parent / "two_ranks.py"))


@pytest.fixture(scope="module")
def ranks(
    tmp_path_factory: pytest.TempPathFactory, start_script: Callable[..., BaseProcess]
) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [start_script("two_ranks.py", rank=rank, folder=str(folder), port=port) for rank in range(2)]
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=True) for rank in range(2)]


def test_a_write_of_two_ranks_is_one_write_of_the_joined_contexts(ranks: list[dict[str, Any]]) -> None:
    model, (_, labels) = SCRIPT["make_etp"](0), SCRIPT["data"]()
    model.absorb(SCRIPT["context"](), labels[:40])
    for rank in ranks:
        assert_close(rank["written"], model.latent.cells, rtol=1e-6, atol=1e-7)


def test_after_training_cells_and_weights_are_the_same_bits_on_both_ranks(
    ranks: list[dict[str, Any]],
) -> None:
    for name, value in ranks[0]["etp"].items():
        assert torch.equal(value, ranks[1]["etp"][name]), name


def test_a_run_of_two_ranks_is_the_run_of_one(ranks: list[dict[str, Any]]) -> None:
    alone = SCRIPT["make_softmax"](0)
    history = fit(alone, SCRIPT["data"](), epochs=3, batch_size=16)
    for name, value in alone.state_dict().items():
        assert_close(ranks[1]["softmax"][name], value, rtol=1e-5, atol=1e-6)
    assert (
        ranks[1]["losses"] == ranks[0]["losses"] == pytest.approx([report.loss for report in history.epochs])
    )


def test_where_ranks_do_not_divide_a_batch_a_run_is_that_of_one_without_the_rows_left_over(
    ranks: list[dict[str, Any]],
) -> None:
    """45 rows in batches of 40: the last batch has 5 rows, of which two ranks share the first 4."""

    class LessOne(TensorSource):
        def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
            for inputs, labels in super().batches(batch_size, generator):
                even = len(labels) - len(labels) % 2
                yield Batch(inputs[:even], labels[:even])

    for left_over, is_alike in ((LessOne, True), (TensorSource, False)):
        alone = SCRIPT["make_softmax"](0)
        fit(alone, left_over(*(part[:45] for part in SCRIPT["data"]())), epochs=2, batch_size=40)
        found = [
            torch.allclose(ranks[0]["odd"][name], value, rtol=1e-5, atol=1e-6)
            for name, value in alone.state_dict().items()
        ]
        assert all(found) == is_alike


def test_two_ranks_remember_what_one_remembers_of_all_rows(ranks: list[dict[str, Any]]) -> None:
    alone = SCRIPT["remembered"](lambda model, points, labels: model.memorise(points, labels))
    for name, value in alone.items():
        assert torch.equal(ranks[0]["remembered"][name], ranks[1]["remembered"][name]), name
        assert_close(ranks[0]["remembered"][name], value, rtol=1e-5, atol=1e-5)
