"""`remember`: every model, any net, in one pass; through copies and state dicts; and what it notices."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from totalcal import MODELS, remember, softmax, train
from totalcal.errors import DomainError, InputError, UnknownNameError
from totalcal.memory.domain import NoDomain
from totalcal.memory.domain_memory import DomainMemory
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp, small_convnet
from totalcal.types import Faded

from ..nets import lstm, resnet18

CLASSES, COLUMNS = 3, 4


def rows_of(seed: int, count: int, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    rows = 2 * torch.eye(CLASSES, COLUMNS)[labels] + 0.7 * torch.randn(count, COLUMNS, generator=generator)
    return rows + shift, labels


def trained(name: str = "softmax", **arguments: object) -> TuringProcess:
    torch.manual_seed(0)
    model = MODELS[name](mlp(COLUMNS, CLASSES, hidden=(16,)), num_classes=CLASSES, **arguments)
    train(
        model,
        *rows_of(0, 300),
        epochs=20,
        learning_rate=0.01,
        batch_size=64,
        generator=torch.Generator().manual_seed(1),
    )
    return model.eval()


@pytest.fixture(scope="module")
def model() -> TuringProcess:
    made = trained()
    remember(made, rows_of(0, 300), rows_of(1, 300))
    return made


def test_it_says_what_it_took(model: TuringProcess) -> None:
    assert isinstance(model.domain, DomainMemory)
    assert [tap.name for tap in model.domain.taps] == ["inputs", "relu1"]
    assert "relu1 (vector, 16)" in str(model.domain)


def test_another_domain_is_noticed_where_entropy_is_blind(model: TuringProcess) -> None:
    in_distribution = model.predict(rows_of(2, 400)[0])
    ood = model.predict(20 * rows_of(3, 400)[0] + 30)
    truth = np.repeat([0, 1], 400)
    auroc = {
        name: roc_auc_score(truth, torch.cat([getattr(in_distribution, name), getattr(ood, name)]))
        for name in ("entropy", "unfamiliarity")
    }
    assert auroc["unfamiliarity"] > 0.999
    assert auroc["entropy"] < 0.5
    assert (in_distribution.familiarity <= 0.05).float().mean() < 0.08
    assert in_distribution.familiarity.min() >= 1 / 151
    assert in_distribution.familiarity.max() <= 1


def test_a_net_of_one_layer_notices_a_shift_that_no_class_minds() -> None:
    """The fourth column is noise to every class: a distance relative to all rows would not see it move."""
    torch.manual_seed(0)
    model = softmax(mlp(COLUMNS, CLASSES, hidden=()), num_classes=CLASSES)
    train(model, *rows_of(0, 300), epochs=20, learning_rate=0.01)
    memory = remember(model, rows_of(0, 300), rows_of(1, 200), progress=False)
    assert [str(tap) for tap in memory.taps] == [f"inputs (vector, {COLUMNS})"]
    own, moved = rows_of(2, 300)[0], rows_of(3, 300)[0]
    moved[:, -1] += 6
    told = [model.predict(rows).unfamiliarity for rows in (own, moved)]
    assert roc_auc_score([0] * 300 + [1] * 300, torch.cat(told)) > 0.99


def test_a_memory_changes_no_prediction(model: TuringProcess) -> None:
    bare = copy.deepcopy(model)
    bare.set_domain(NoDomain())
    for name in ("bnn", "etp"):
        drawn, twin = trained(name), trained(name)
        remember(drawn, rows_of(0, 300), rows_of(1, 100))
        rows = rows_of(2, 50)[0]
        with_it, without = (m.predict(rows, seed=0) for m in (drawn, twin))
        assert torch.equal(with_it.belief.mean, without.belief.mean)
        assert torch.equal(drawn.predict(rows).belief.mean, twin.predict(rows).belief.mean)
    with pytest.raises(DomainError):
        _ = bare.predict(rows_of(2, 5)[0]).familiarity


@pytest.mark.parametrize("name", ["bnn", "etp", "enp"])
def test_familiarity_is_a_function_of_the_row_alone(name: str) -> None:
    drawn = trained(name)
    remember(drawn, rows_of(0, 300), rows_of(1, 100))
    rows = rows_of(2, 60, shift=0.5)[0]
    whole = drawn.predict(rows).unfamiliarity
    torch.testing.assert_close(drawn.predict(rows, draws=3).unfamiliarity, whole)
    torch.testing.assert_close(drawn.predict(rows, draws=1, seed=9).unfamiliarity, whole)
    torch.testing.assert_close(drawn.predict(rows, draws=0).unfamiliarity, whole)
    parts = torch.cat([drawn.predict(part).unfamiliarity for part in rows.split(7)])
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("distinct", [3, 12, 60])
def test_rows_that_repeat_keep_the_promise_in_batches_of_any_size(
    distinct: int, precision: torch.dtype
) -> None:
    """As the rows of a table of categories do: a last digit must not set one above all that equal it."""
    generator = torch.Generator().manual_seed(distinct)
    kinds = torch.randn(distinct, 20, generator=generator, dtype=precision)
    chosen = torch.randint(distinct, (5000,), generator=generator)
    rows, labels = kinds[chosen], chosen % CLASSES
    torch.manual_seed(0)
    model = softmax(mlp(20, CLASSES, hidden=(64,)), num_classes=CLASSES).to(precision)
    train(model, rows[:1000], labels[:1000], epochs=2, generator=generator)
    remember(model, (rows[:1000], labels[:1000]), (rows[1000:3000], labels[1000:3000]))
    together = model.predict(kinds).familiarity
    shares = torch.bincount(chosen[3000:], minlength=distinct) / 2000
    for size in (1, 7):
        apart = torch.cat([model.predict(part).familiarity for part in kinds.split(size)])
        torch.testing.assert_close(apart, together)
        for level in (0.05, 0.2, 0.5):
            most = level + 5 * (level * (1 - level) / 1000) ** 0.5  # of 1,000 calibration rows
            assert shares[apart <= level].sum() <= most


def test_a_context_changes_nothing_of_the_familiarity() -> None:
    from totalcal import Batch

    needing = trained("anp")
    remember(needing, rows_of(0, 300), rows_of(1, 100))
    rows = rows_of(2, 30)[0]
    readings = [needing.predict(rows, context=Batch(*rows_of(seed, 8))).unfamiliarity for seed in (5, 6)]
    torch.testing.assert_close(readings[0], readings[1])


def test_order_and_batches_of_the_rows_do_not_matter() -> None:
    models = [trained(), trained()]
    (inputs, labels), (held, truth) = rows_of(0, 300), rows_of(1, 200)
    remember(models[0], (inputs, labels), (held, truth))
    order, other = torch.randperm(300), torch.randperm(200)
    remember(models[1], (inputs[order], labels[order]), (held[other], truth[other]), batch_size=33)
    rows = rows_of(2, 100)[0]
    one, two = (m.predict(rows) for m in models)
    torch.testing.assert_close(one.unfamiliarity, two.unfamiliarity, rtol=1e-3, atol=1e-3)


def test_data_come_as_fit_takes_them() -> None:
    models = [trained(), trained()]
    remember(models[0], rows_of(0, 300), rows_of(1, 200))
    dataset = TensorDataset(*rows_of(0, 300))
    remember(models[1], DataLoader(dataset, batch_size=50, shuffle=True), TensorDataset(*rows_of(1, 200)))
    rows = rows_of(2, 20)[0]
    one, two = (m.predict(rows).unfamiliarity for m in models)
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)


NETS = {
    "pictures": (lambda: small_convnet(CLASSES), lambda n: torch.randn(n, 1, 8, 8)),
    "residual": (lambda: resnet18(CLASSES, width=4), lambda n: torch.randn(n, 3, 8, 8)),
    "texts": (lambda: lstm(CLASSES, vocabulary=30, hidden=8), lambda n: torch.randint(0, 30, (n, 6))),
}


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("name", ["softmax", "bnn", "etp"])
def test_nets_of_any_kind_can_be_remembered(kind: str, name: str) -> None:
    make, inputs = NETS[kind]
    torch.manual_seed(0)
    process = MODELS[name](make(), num_classes=CLASSES).eval()
    labels = torch.arange(120) % CLASSES
    remember(process, (inputs(120), labels), (inputs(60), labels[:60]))
    prediction = process.predict(inputs(9))
    assert prediction.familiarity.shape == (9,)
    assert ((prediction.familiarity > 0) & (prediction.familiarity <= 1)).all()


class Texts(nn.Module):
    """Called by keywords, as a tokenizer's output calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix, self.classes = nn.Embedding(30, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        weight = attention_mask.float().unsqueeze(-1)
        mixed = self.mix(self.words(input_ids)).tanh()
        logits: Tensor = self.classes((mixed * weight).sum(1) / weight.sum(1).clamp_min(1))
        return logits


def test_inputs_of_several_parts_can_be_remembered_and_padding_says_nothing() -> None:
    torch.manual_seed(0)
    process = softmax(Texts(), CLASSES).eval()

    def texts(rows: int) -> dict[str, Tensor]:
        ids = torch.randint(1, 30, (rows, 6))
        return {"input_ids": ids, "attention_mask": (torch.arange(6) < torch.randint(2, 7, (rows, 1))).long()}

    labels = torch.arange(120) % CLASSES
    batches = [(texts(60), labels[:60]), (texts(60), labels[60:])]
    memory = remember(process, _Batches(batches), _Batches(batches))
    assert [tap.name for tap in memory.taps] == ["words", "mix", "classes (input)"]
    rows = texts(9)
    elsewhere = torch.where(rows["attention_mask"] > 0, rows["input_ids"], 29)
    expected = process.predict(rows).unfamiliarity
    assert torch.allclose(
        process.predict({**rows, "input_ids": elsewhere}).unfamiliarity, expected, atol=1e-4
    )


class _Batches:
    """A source of batches that lie ready."""

    def __init__(self, parts: list[tuple[dict[str, Tensor], Tensor]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(len(labels) for _, labels in self.parts)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> list[Any]:
        return self.parts


def test_layers_may_be_named(model: TuringProcess) -> None:
    named = trained()
    remember(named, rows_of(0, 300), rows_of(1, 100), layers=["relu1"])
    assert isinstance(named.domain, DomainMemory)
    assert [tap.name for tap in named.domain.taps] == ["relu1"]
    with pytest.raises(UnknownNameError, match="relu1"):
        remember(named, rows_of(0, 300), rows_of(1, 100), layers="relu")


def test_a_failure_leaves_the_memory_that_was_there() -> None:
    named = trained()
    before = remember(named, rows_of(0, 300), rows_of(1, 100))
    rows, labels = rows_of(1, 100)
    with pytest.raises(InputError):
        remember(named, rows_of(0, 300), (rows * torch.nan, labels))
    assert named.domain is before
    assert named.predict(rows).familiarity.isfinite().all()


def test_too_few_held_out_rows_and_missing_labels_are_refused() -> None:
    with pytest.raises(InputError, match="held-out rows"):
        remember(trained(), rows_of(0, 300), rows_of(1, 3))
    with pytest.raises(InputError, match="labels"):
        remember(trained(), DataLoader(TensorDataset(rows_of(0, 300)[0])), rows_of(1, 100))


def test_modes_are_as_they_were_and_batch_statistics_untouched() -> None:
    torch.manual_seed(0)
    process = softmax(resnet18(CLASSES, width=4), CLASSES).train()
    before = copy.deepcopy(process.backbone.state_dict())
    labels = torch.arange(60) % CLASSES
    remember(process, (torch.randn(60, 3, 8, 8), labels), (torch.randn(60, 3, 8, 8), labels))
    assert process.training
    assert process.backbone[0].training
    assert all(torch.equal(before[name], value) for name, value in process.backbone.state_dict().items())


def test_memorised_rows_of_a_new_domain_become_familiar() -> None:
    process = trained("etp")
    remember(process, rows_of(0, 300), rows_of(1, 300))
    new, labels = rows_of(4, 300, shift=6.0)
    assert (process.predict(new).familiarity <= 0.05).float().mean() > 0.95
    process.memorise(new, labels)
    again = rows_of(5, 300, shift=6.0)[0]
    assert (process.predict(again).familiarity <= 0.05).float().mean() < 0.12
    assert (process.predict(rows_of(6, 300)[0]).familiarity <= 0.05).float().mean() < 0.12
    assert (process.predict(rows_of(7, 300, shift=-9.0)[0]).familiarity <= 0.05).float().mean() > 0.95


def test_fading_makes_the_unfamiliar_uncertain_and_leaves_the_familiar_alone() -> None:
    process = trained()
    memory = remember(process, rows_of(0, 300), rows_of(1, 300), fade=1e-3)
    in_distribution, ood = process.predict(rows_of(2, 200)[0]), process.predict(30 + 20 * rows_of(3, 200)[0])
    assert isinstance(in_distribution.belief, Faded)
    memory.fade = 0.0
    plain = process.predict(rows_of(2, 200)[0])
    assert (in_distribution.probabilities - plain.probabilities).abs().mean() < 0.02
    assert ood.entropy.mean() > plain.entropy.mean()
    assert (
        ood.decompose().summed().irreducible.mean()
        > 10 * in_distribution.decompose().summed().irreducible.mean()
    )


def test_a_copy_lives_on_its_own_and_a_state_dict_restores_the_memory(model: TuringProcess) -> None:
    rows = rows_of(2, 20)[0]
    expected = model.predict(rows).unfamiliarity
    assert isinstance(model.domain, DomainMemory)
    twin = trained()
    twin.set_domain(DomainMemory.from_state(model.domain.settings(), model.domain.state_dict()))
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin.predict(rows).unfamiliarity, expected, rtol=0, atol=0)
    copied = copy.deepcopy(model)
    for buffer in copied.buffers():
        buffer.zero_()
    torch.testing.assert_close(model.predict(rows).unfamiliarity, expected, rtol=0, atol=0)


def test_double_precision_works(model: TuringProcess) -> None:
    rows = rows_of(2, 20)[0]
    expected = model.predict(rows).unfamiliarity
    double = copy.deepcopy(model).double()
    torch.testing.assert_close(double.predict(rows.double()).unfamiliarity, expected, rtol=1e-3, atol=1e-3)
    with_memory = trained().double()
    remember(
        with_memory,
        (rows_of(0, 300)[0].double(), rows_of(0, 300)[1]),
        (rows_of(1, 100)[0].double(), rows_of(1, 100)[1]),
    )
    assert with_memory.predict(rows.double()).familiarity.dtype == torch.float64


def test_training_goes_on_with_a_memory_in_place(model: TuringProcess) -> None:
    going_on = copy.deepcopy(model).train()
    train(going_on, *rows_of(0, 100), epochs=1, generator=torch.Generator().manual_seed(0))
    assert going_on.predict(rows_of(2, 5)[0]).familiarity.shape == (5,)


def test_an_outlier_too_large_to_square_leaves_the_model_as_it_was():
    torch.manual_seed(0)
    model = softmax(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), num_classes=3)
    rows, labels = torch.randn(80, 4), torch.arange(80) % 3
    before = model.domain
    with pytest.raises(InputError, match="too large to be remembered"):
        remember(model, (torch.cat([rows, torch.full((1, 4), 1e30)]), torch.arange(81) % 3), (rows, labels))
    assert model.domain is before
    memory = remember(model, (rows, labels), (rows.flip(0), labels.flip(0)))
    far = model.predict(torch.full((1, 4), 1e30))
    assert far.unfamiliarity.isfinite().all()
    assert float(far.familiarity) == 1 / (memory.calibration.shape[-1] + 1)
