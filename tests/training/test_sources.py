"""Where batches come from.

DataLoaders of the user's own: how many rows they give, and runs with workers that repeat and resume.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from totalcal import bnn, fit
from totalcal.errors import CheckpointError, InputError
from totalcal.models.process import TuringProcess
from totalcal.training.batches import epoch_batches, share_of_rank
from totalcal.training.callbacks import Callback, Plan
from totalcal.training.options import ADAM, PAPER_CONTEXTS, RunSettings
from totalcal.training.sources import Source, TensorSource, as_source, labelled_batch, steps_per_epoch
from totalcal.types import Batch

from .conftest import StopAt, same

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
    settings = RunSettings(1, 40, 0, ADAM, PAPER_CONTEXTS, None, "32-true")
    source = as_source((torch.zeros(45, 1), torch.zeros(45, dtype=torch.long)))
    for epoch in range(10):
        batches = epoch_batches(source, settings, epoch, 0, torch.device("cpu"), 0, 2)
        assert all(context < len(batch.labels) for batch, context in batches)


Pair = tuple[Tensor, Tensor]
Make = Callable[..., TuringProcess]
HUNDRED = TensorDataset(torch.arange(100.0).unsqueeze(1), torch.arange(100))


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Noise on every row, from each of the generators that augmentations draw from."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        noise = torch.randn(2) + random.gauss(0, 1) + float(np.random.normal())  # noqa: NPY002
        return self.inputs[row] + 0.1 * noise, self.labels[row]


class EveryThird(Sampler[int]):
    """A sampler of the user's own that has no length."""

    def __iter__(self) -> Iterator[int]:
        yield from range(0, 100, 3)


class Pairs(Sampler[list[int]]):
    """A batch sampler of the user's own."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([row, row + 1] for row in range(0, 50, 5))

    def __len__(self) -> int:
        return 10


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "shuffled": lambda: DataLoader(HUNDRED, 8, shuffle=True),
    "drop_last": lambda: DataLoader(HUNDRED, 8, drop_last=True),
    "subset": lambda: DataLoader(HUNDRED, 8, sampler=SubsetRandomSampler(range(10))),
    "subset, drop_last": lambda: DataLoader(
        HUNDRED, 8, sampler=SubsetRandomSampler(range(10)), drop_last=True
    ),
    "weighted": lambda: DataLoader(HUNDRED, 8, sampler=WeightedRandomSampler([1.0] * 100, 250)),
    "without length": lambda: DataLoader(HUNDRED, 8, sampler=EveryThird()),
    "batch_sampler": lambda: DataLoader(HUNDRED, batch_sampler=BatchSampler(range(30), 7, drop_last=True)),
    "own batch_sampler": lambda: DataLoader(HUNDRED, batch_sampler=Pairs()),
    "batches of the data set": lambda: DataLoader(
        HUNDRED, sampler=BatchSampler(SequentialSampler(range(30)), 7, drop_last=False), batch_size=None
    ),
}


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
def test_the_number_of_examples_is_what_an_epoch_gives(make: Callable[[], DataLoader[Any]]) -> None:
    assert len(as_source(make())) == sum(len(labels) for _, labels in make())


def test_the_weights_kl_counts_by_the_rows_of_the_sampler() -> None:
    """One step on the same ten rows, from a loader of ten and from a sampler of ten among a thousand."""
    inputs = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
    labels = (inputs > 0).sum(1)
    losses = []
    for data in (
        DataLoader(TensorDataset(inputs[:10], labels[:10]), 10),
        DataLoader(TensorDataset(inputs, labels), 10, sampler=list(range(10))),
    ):
        torch.manual_seed(0)
        losses.append(fit(bnn(nn.Linear(2, 3), 3), data, epochs=1).epochs[0].loss)
    assert losses[0] == losses[1]


def test_counting_a_sampler_leaves_the_callers_generator_alone() -> None:
    before = torch.get_rng_state()
    as_source(DataLoader(HUNDRED, batch_sampler=BatchSampler(RandomSampler(HUNDRED), 7, drop_last=True)))
    as_source(
        DataLoader(HUNDRED, sampler=BatchSampler(RandomSampler(HUNDRED), 7, drop_last=True), batch_size=None)
    )
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_seed_gives_the_same_bits_with_workers(
    workers: int, quadrants: Pair, make_etp: Make
) -> None:
    models = make_etp(), make_etp()
    for number, model in enumerate(models):
        torch.manual_seed(number)
        np.random.seed(number)  # noqa: NPY002
        random.seed(number)
        fit(model, DataLoader(Augmented(*quadrants), 32, shuffle=True, num_workers=workers), epochs=2)
    assert same(*models)


def persistent(*pair: Tensor) -> DataLoader[Any]:
    return DataLoader(Augmented(*pair), 32, shuffle=True, num_workers=2, persistent_workers=True)


def transient(*pair: Tensor) -> DataLoader[Any]:
    return DataLoader(Augmented(*pair), 32, shuffle=True, num_workers=2)


def own_generators(*pair: Tensor) -> DataLoader[Any]:
    """The sampler's generator is not the loader's."""
    sampler = WeightedRandomSampler([1.0] * len(pair[1]), 64, generator=torch.Generator().manual_seed(3))
    return DataLoader(Augmented(*pair), 32, sampler=sampler, generator=torch.Generator())


@pytest.mark.parametrize("as_data", [transient, persistent, own_generators])
def test_a_run_with_workers_resumes_to_the_bit(
    as_data: Callable[..., DataLoader[Any]], quadrants: Pair, make_etp: Make, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"epochs": 2, "checkpoint_steps": 1}
    calm, stopped, resumed = make_etp(), make_etp(), make_etp(seed=1)
    history = fit(calm, as_data(*quadrants), validation=as_data(*quadrants), **settings)
    loader, held_out = as_data(*quadrants), as_data(*quadrants)
    with pytest.raises(KeyboardInterrupt):
        fit(
            stopped,
            loader,
            validation=held_out,
            checkpoints=tmp_path,
            callbacks=[StopAt(1, 0)],
            **settings,
        )
    again = fit(resumed, loader, validation=held_out, checkpoints=tmp_path, **settings)
    assert same(resumed, calm)
    assert again.epochs == history.epochs


@pytest.mark.parametrize("as_data", [persistent, own_generators])
def test_a_users_loader_is_left_as_it_was(
    as_data: Callable[..., DataLoader[Any]], quadrants: Pair, make_etp: Make
) -> None:
    loader, untouched = as_data(*quadrants), as_data(*quadrants)
    for each in (loader, untouched):
        if each.generator is not None:
            each.generator.manual_seed(7)
    fit(make_etp(), loader, epochs=1)
    for _ in range(2):
        torch.manual_seed(0)
        found = torch.cat([labels for _, labels in loader])
        torch.manual_seed(0)
        assert torch.equal(found, torch.cat([labels for _, labels in untouched]))


def test_a_frozen_backbone_sees_a_shuffled_loader_alike(quadrants: Pair, make_etp: Make) -> None:
    models = make_etp(layers="none"), make_etp(layers="none")
    for number, model in enumerate(models):
        torch.manual_seed(number)
        fit(model, DataLoader(Augmented(*quadrants), 32, shuffle=True), epochs=1, freeze_backbone=True)
    assert same(*models)


def test_one_changed_label_anywhere_is_other_data(quadrants: Pair, make_etp: Make, tmp_path: Path) -> None:
    inputs, labels = quadrants
    fit(make_etp(), DataLoader(TensorDataset(inputs, labels), 8), epochs=1, checkpoints=tmp_path)
    for row in (8, 95):  # the first batch holds neither
        other = labels.clone()
        other[row] = (other[row] + 1) % 3
        with pytest.raises(CheckpointError, match="data was"):
            fit(make_etp(), DataLoader(TensorDataset(inputs, other), 8), epochs=1, checkpoints=tmp_path)


def test_a_plan_counts_the_loaders_own_batches(quadrants: Pair, make_etp: Make) -> None:
    plans: list[Plan] = []

    class Watch(Callback):
        def started(self, plan: Plan) -> None:
            plans.append(plan)

    fit(make_etp(), DataLoader(TensorDataset(*quadrants), 8), epochs=1, callbacks=[Watch()])
    assert plans[0].steps == 12


def test_rows_without_labels_are_refused_in_words(quadrants: Pair, make_etp: Make) -> None:
    bare = DataLoader(TensorDataset(quadrants[0]), 8)
    with pytest.raises(InputError, match="labels"):
        fit(make_etp(), bare, epochs=1)
    with pytest.raises(InputError, match="labels"):
        fit(make_etp(), quadrants, epochs=1, validation=bare)


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from ((torch.zeros(2), torch.tensor(0)) for _ in range(4))


@pytest.mark.parametrize(
    "make", [lambda: Stream(), lambda: DataLoader(Stream(), 3), lambda: batches_in_a_list()]
)
def test_what_has_no_length_is_read_once_to_be_counted(make: Callable[[], Any], make_etp: Make) -> None:
    source = as_source(make())
    assert len(source) == 4
    assert steps_per_epoch(source, 3) == 2
    plain = tuple(torch.stack(part) for part in zip(*Stream(), strict=True))
    found, expected = make_etp(), make_etp()
    fit(found, make(), epochs=2, batch_size=3, validation=make())
    fit(expected, InOrder(*plain), epochs=2, batch_size=3, validation=InOrder(*plain))
    assert same(found, expected)


def batches_in_a_list() -> list[tuple[Tensor, Tensor]]:
    return [(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)), (torch.zeros(1, 2), torch.tensor([0]))]


class InOrder(TensorSource):
    """The rows as they stand, in every epoch."""

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        return super().batches(batch_size)


def test_a_stream_with_a_length_of_its_own_is_not_counted(make_etp: Make) -> None:
    class Counted(Stream):
        def __len__(self) -> int:
            return 40

    assert len(as_source(Counted())) == len(as_source(DataLoader(Counted(), 3))) == 40
    fit(make_etp(), Counted(), epochs=1)


def test_a_batch_that_is_a_mapping_names_its_labels(quadrants: Pair) -> None:
    inputs, labels = quadrants
    rows = [{"points": point, "labels": label} for point, label in zip(inputs, labels, strict=True)]
    source = as_source(DataLoader(rows, 96))  # type: ignore[arg-type]
    batch = labelled_batch(next(iter(source.batches(96))))
    assert torch.equal(batch.labels, labels)
    assert torch.equal(batch.inputs["points"], inputs)  # type: ignore[call-overload]
