"""Where batches come from."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from totalcal.errors import InputError
from totalcal.training.batches import epoch_batches, share_of_rank
from totalcal.training.options import ADAM, PAPER_CONTEXTS, Settings
from totalcal.training.sources import Source, as_source
from totalcal.types import Batch

ROWS = torch.arange(10.0).unsqueeze(1), torch.arange(10)


class OwnSource:
    def __len__(self) -> int:
        return 10

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> list[Batch]:
        return [Batch(*ROWS)]


@pytest.mark.parametrize(
    "data", [ROWS, Batch(*ROWS), TensorDataset(*ROWS), DataLoader(TensorDataset(*ROWS), 4), OwnSource()]
)
def test_every_row_comes_once_with_its_label(data: Source) -> None:
    source = as_source(data)
    batches = list(source.batches(4, torch.Generator().manual_seed(0)))
    inputs, labels = (torch.cat(column) for column in zip(*batches, strict=True))
    assert len(source) == 10
    assert torch.equal(inputs.squeeze(1).long(), labels)
    assert torch.equal(labels.sort().values, ROWS[1])


@pytest.mark.parametrize("data", [ROWS, TensorDataset(*ROWS)])
def test_the_order_follows_the_generator(data: Source) -> None:
    def order(seed: int) -> list[int]:
        batches = as_source(data).batches(4, torch.Generator().manual_seed(seed))
        return [int(label) for _, labels in batches for label in labels]

    assert order(1) == order(1) != order(2)
    assert [int(label) for _, labels in as_source(data).batches(4) for label in labels] == list(range(10))


@pytest.mark.parametrize(
    "data", [[1, 2], (torch.zeros(2, 1), torch.zeros(3)), (torch.zeros(0, 1), torch.zeros(0))]
)
def test_what_is_no_data_is_refused(data: object) -> None:
    with pytest.raises(InputError):
        as_source(data)  # type: ignore[arg-type]


def test_the_shares_of_the_ranks_begin_with_the_beginning_of_the_batch() -> None:
    shares = [share_of_rank(Batch(*ROWS), rank, 3).labels for rank in range(3)]
    assert sorted(torch.cat([share[:2] for share in shares]).tolist()) == list(range(6))
    assert [len(share) for share in shares] == [3, 3, 3]


def test_a_short_last_batch_keeps_rows_for_the_loss_on_every_rank() -> None:
    """45 rows in batches of 40: of the last five each of two ranks has two, and not both are the context."""
    settings = Settings(1, 40, 0, ADAM, PAPER_CONTEXTS, None, "32-true")
    source = as_source((torch.zeros(45, 1), torch.zeros(45, dtype=torch.long)))
    for epoch in range(10):
        batches = epoch_batches(source, settings, epoch, 0, torch.device("cpu"), 0, 2)
        assert all(context < len(batch.labels) for batch, context in batches)
