"""Every entry point takes every kind of inputs, and says the same of the same rows whatever holds them."""

from collections import UserDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import totalcal
from totalcal import Batch, Gate
from totalcal.baselines import Ensemble, MCDropout, temperature_scaled
from totalcal.baselines.ood import OODScored
from totalcal.decisions.rules import FalseRejection
from totalcal.errors import ContextError, InputError, ShapeError
from totalcal.parts.moments import NoMomentRuleError
from totalcal.scores import ExternalPredictor, evaluate, from_module

ROWS, LENGTH, CLASSES = 96, 5, 3
RULE = FalseRejection(0.5)  # few rows, few right answers
Tokens = namedtuple("Tokens", ["input_ids", "attention_mask"])
KINDS = ["mapping", "tuple", "named tuple", "encoding", "arrays"]


class Encoder(nn.Module):
    """As a text encoder is called: token numbers, a mask, and an object with `logits` back."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask.unsqueeze(-1).to(self.words.weight)
        mean = (self.words(input_ids) * mask).sum(1) / mask.sum(1)
        return SimpleNamespace(logits=self.classifier(self.dropout(self.norm(mean))), hidden_states=None)


def texts(rows=ROWS, length=LENGTH, seed=0):
    noise = torch.Generator().manual_seed(seed)
    ids = torch.randint(20, (rows, length), generator=noise)
    mask = (torch.arange(length) < torch.randint(1, length + 1, (rows, 1), generator=noise)).long()
    return ids, mask, ids[:, 0] % CLASSES


def held(kind, ids, mask):
    match kind:
        case "mapping":
            return {"input_ids": ids, "attention_mask": mask}
        case "tuple":
            return ids, mask
        case "named tuple":
            return Tokens(ids, mask)
        case "encoding":  # Hugging Face's BatchEncoding is a UserDict
            return UserDict(input_ids=ids, attention_mask=mask)
    return {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}


@pytest.fixture(params=KINDS)
def inputs(request):
    return held(request.param, *texts()[:2])


@pytest.fixture
def labels():
    return texts()[2]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Encoder().eval()


def truth_of(net):
    ids, mask, _ = texts()
    return net(ids, mask).logits.softmax(1).detach()


def parts(kind, batches):
    return [held(kind, *texts(rows, length)[:2]) for rows, length in batches]


def test_predictions_are_those_of_the_net(inputs, net):
    model = totalcal.softmax(net, num_classes=CLASSES)
    assert_allclose(model.predict(inputs).probabilities, truth_of(net), atol=1e-6)
    assert_allclose(model.predict(inputs).probabilities, truth_of(net), atol=1e-6)
    assert_allclose(model.encode(inputs).softmax(1).detach(), truth_of(net), atol=1e-6)


def test_draws_are_the_same_whatever_holds_the_rows(inputs, labels, net):
    torch.manual_seed(0)
    model = totalcal.etp(net, num_classes=CLASSES, layers="classifier")
    plain = {"input_ids": texts()[0], "attention_mask": texts()[1]}
    found, expected = (model.predict(rows).probabilities for rows in (inputs, plain))
    assert torch.equal(found, expected)
    joint, expected = (model.log_joint(rows, labels) for rows in (inputs, plain))
    assert torch.equal(joint, expected)


def test_moments_take_all_kinds_or_say_that_they_cannot(inputs, net):
    model = totalcal.etp(net, num_classes=CLASSES, layers="none")
    expected = model.predict({"input_ids": texts()[0], "attention_mask": texts()[1]}, draws="moments")
    assert torch.equal(model.predict(inputs, draws="moments").probabilities, expected.probabilities)
    with pytest.raises(NoMomentRuleError, match="several tensors"):
        totalcal.etp(net, num_classes=CLASSES).predict(inputs, draws="moments")


@pytest.mark.parametrize(
    "train", ["train", "train with labels inside", "fit", "fit with labels inside", "frozen"]
)
def test_training_learns_from_all_kinds(train, inputs, labels, net):
    torch.manual_seed(0)
    model = totalcal.etp(net, num_classes=CLASSES, layers="none" if train == "frozen" else "linear")
    before = model.predict(inputs, draws=0).probabilities
    if train == "train":
        totalcal.train(model, inputs, labels, epochs=2)
    elif train == "train with labels inside":
        data = (inputs, labels) if isinstance(inputs, tuple) else {**inputs, "labels": labels}
        totalcal.train(model, data, epochs=2)
    elif train == "fit with labels inside" and not isinstance(inputs, tuple):
        data = {**inputs, "labels": labels}
        totalcal.fit(model, data, epochs=1, validation=data, progress=False)
    else:
        data = (inputs, labels)
        totalcal.fit(
            model, data, epochs=1, validation=data, freeze_backbone=train == "frozen", progress=False
        )
    assert not torch.equal(before, model.predict(inputs, draws=0).probabilities)


def test_a_context_and_a_memory_take_all_kinds(inputs, labels, net):
    anp = totalcal.anp(net, num_classes=CLASSES)
    context = Batch(inputs, labels)
    assert anp.predict(inputs, context=context).probabilities.shape == (ROWS, CLASSES)
    assert anp.given(context).predict(inputs).probabilities.shape == (ROWS, CLASSES)
    moved = totalcal.etp(net, num_classes=CLASSES).absorb_context(inputs, labels)
    assert moved.distances.sum() > 0


def test_a_context_is_a_pair_or_has_its_labels_inside(inputs, labels, net, tmp_path):
    anp = totalcal.anp(net, num_classes=CLASSES)
    expected = anp.predict(inputs, context=Batch(inputs, labels)).probabilities
    pairs = [(inputs, labels), (inputs, labels.numpy())]
    for context in pairs if isinstance(inputs, tuple) else [*pairs, {**inputs, "labels": labels}]:
        found = anp.predict(inputs, context=context).probabilities
        assert torch.equal(found, expected)
    totalcal.save(anp, tmp_path / "anp.totalcal", context=(inputs, labels))
    again = totalcal.load(tmp_path / "anp.totalcal", backbone=net).predict(inputs)
    assert torch.equal(again.probabilities, anp.given((inputs, labels)).predict(inputs).probabilities)
    with pytest.raises(ContextError, match="labels"):
        anp.predict(inputs, context=texts()[0])


def test_a_file_keeps_a_context_of_any_kind(inputs, labels, net, tmp_path):
    model, context = totalcal.anp(net, num_classes=CLASSES), Batch(inputs, labels)
    totalcal.save(model, tmp_path / "anp.totalcal", context=context)
    again = totalcal.load(tmp_path / "anp.totalcal", backbone=net)
    expected = model.given(context).predict(inputs)
    assert torch.equal(again.predict(inputs).probabilities, expected.probabilities)


def test_a_context_of_another_length_is_refused_with_a_remedy(net):
    ids, mask, labels = texts(length=7)
    with pytest.raises(ShapeError, match="one length"):
        totalcal.anp(net, num_classes=CLASSES).predict(
            held("mapping", *texts()[:2]), context=Batch(held("mapping", ids, mask), labels)
        )


def test_remember_save_and_gate_take_all_kinds(inputs, labels, net, tmp_path):
    model = totalcal.etp(net, num_classes=CLASSES, layers="none")
    totalcal.fit(model, (inputs, labels), epochs=1, freeze_backbone=True, progress=False)
    totalcal.remember(model, (inputs, labels), (inputs, labels))
    gate = Gate.fit(model, inputs, labels, rule=RULE)
    decisions = gate.decide(model, inputs)
    assert len(decisions.accepted) == ROWS
    totalcal.save(model, tmp_path / "texts.totalcal", gate=gate)
    again = totalcal.load(tmp_path / "texts.totalcal", backbone=net)
    found, expected = (one.predict(inputs) for one in (again, model))
    assert torch.equal(found.probabilities, expected.probabilities)
    assert_allclose(found.familiarity, expected.familiarity, atol=0.05)  # equal words tie


def test_a_gate_finds_labels_inside_of_what_is_held_out(inputs, labels, net):
    model = totalcal.softmax(net, num_classes=CLASSES)
    data = (inputs, labels) if isinstance(inputs, tuple) else {**inputs, "labels": labels}
    assert Gate.fit(model, data, rule=RULE) == Gate.fit(model, inputs, labels, rule=RULE)


def test_baselines_and_external_predictors_take_all_kinds(inputs, labels, net):
    external = from_module(net, "logits")
    assert_allclose(external.predict(inputs).probabilities, truth_of(net), atol=1e-6)
    assert_allclose(Ensemble([external, external]).predict(inputs).probabilities, truth_of(net), atol=1e-6)
    assert temperature_scaled(external, (inputs, labels)).predict(inputs).probabilities.shape == (ROWS, 3)
    assert MCDropout(net, "logits").predict(inputs, draws=4).draws == 4
    scored = OODScored(totalcal.softmax(net, num_classes=CLASSES), (inputs, labels))
    assert scored.predict(inputs).scores["knn"].shape == (ROWS,)


@pytest.mark.parametrize("nested", [False, True])
def test_a_loader_of_several_inputs_goes_everywhere(nested):
    torch.manual_seed(0)
    rows = [(torch.randn(3), torch.randn(2), row % CLASSES) for row in range(40)]
    data = [((image, age), label) for image, age, label in rows] if nested else rows
    loader, net = DataLoader(data, 16), PictureAndAge()
    model = totalcal.softmax(net, num_classes=CLASSES)
    totalcal.fit(model, loader, epochs=1, validation=loader, progress=False)
    totalcal.remember(model, loader, loader)
    verdict = evaluate(model, loader, {"labelled": loader, "bare": DataLoader([row[:2] for row in rows], 16)})
    assert verdict.panel["labelled"].rankings["entropy"].auroc == verdict.auroc == pytest.approx(0.5)
    assert Gate.fit(model, loader, rule=RULE).on_held_out.rows == 40
    assert temperature_scaled(from_module(net, "logits"), loader).nll_after > 0
    assert len(OODScored(model, loader).predict(tuple(torch.randn(4, size) for size in (3, 2))).scores) > 1


class PictureAndAge(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.classifier = nn.Linear(5, 8), nn.Linear(8, CLASSES)

    def forward(self, picture, age):
        return self.classifier(self.hidden(torch.cat([picture, age], 1)).relu())


def test_a_function_may_return_an_object_with_logits(net):
    ids, mask, _ = texts()
    predictor = ExternalPredictor(lambda rows: net(*rows), "logits")
    assert_allclose(predictor.predict((ids, mask)).probabilities, truth_of(net), atol=1e-6)


def test_a_verdict_is_the_same_for_all_kinds(inputs, labels, net):
    predictor = from_module(net, "logits")
    ids, mask, _ = texts(seed=1)
    plain = {"input_ids": texts()[0], "attention_mask": texts()[1]}
    other = {"input_ids": ids, "attention_mask": mask}
    kind = KINDS[2] if isinstance(inputs, Tokens) else KINDS[1] if isinstance(inputs, tuple) else KINDS[3]
    verdict = evaluate(predictor, (inputs, labels), {"other": held(kind, ids, mask)}, batch_size=40)
    expected = evaluate(predictor, (plain, labels), {"other": other}, batch_size=40)
    assert (verdict.nll, verdict.auroc) == (expected.nll, expected.auroc)


def test_the_mask_of_an_ood_set_is_not_read_as_labels(net):
    ids, mask, labels = texts()
    others = texts(seed=1)[:2]
    verdict = evaluate(
        from_module(net, "logits"),
        ((ids, mask), labels),
        {"tuple": others, "loader": DataLoader(TensorDataset(*others), 32), "batches": [list(others)]},
    )
    assert {member.examples for member in verdict.panel.values()} == {ROWS}
    assert len({member.rankings["entropy"].auroc for member in verdict.panel.values()}) == 1
    by_name = held("mapping", ids, mask) | {"labels": labels}
    again = evaluate(from_module(net, "logits"), by_name, {"tuple": others, "named": Tokens(*others)})
    assert [member.rankings["entropy"].auroc for member in again.panel.values()] == [verdict.auroc] * 2


def test_batches_of_texts_keep_their_lengths_everywhere(net):
    batches = [(32, 5), (32, 7), (16, 7), (16, 4)]
    loader = [
        {**each, "labels": texts(*size)[2]}
        for each, size in zip(parts("mapping", batches), batches, strict=True)
    ]
    model = totalcal.softmax(net, num_classes=CLASSES)
    assert evaluate(model, loader, {"unlabelled": parts("mapping", batches)}).examples == ROWS
    assert temperature_scaled(model, loader).nll_after <= temperature_scaled(model, loader).nll_before
    assert Gate.fit(model, loader, rule=RULE).on_held_out.rows == ROWS
    source = DataLoader(Padded(), batch_size=8, collate_fn=padded)
    totalcal.fit(model, source, epochs=1, validation=source, progress=False)
    wrapped = totalcal.etp(net, num_classes=CLASSES, layers="none")
    totalcal.fit(wrapped, source, epochs=1, validation=source, freeze_backbone=True, progress=False)
    totalcal.remember(model, source, source, layers="classifier")
    assert model.predict(parts("mapping", [(4, 9)])[0]).familiarity.shape == (4,)


class Padded(Dataset):
    """Texts of lengths of their own."""

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        ids, _, labels = texts()
        return {"input_ids": ids[row, : 1 + row % LENGTH], "labels": labels[row]}


def padded(rows):
    ids = nn.utils.rnn.pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    lengths = torch.tensor([[len(row["input_ids"])] for row in rows])
    return {
        "input_ids": ids,
        "attention_mask": (torch.arange(ids.shape[1]) < lengths).long(),
        "labels": torch.stack([row["labels"] for row in rows]),
    }


class Stream(IterableDataset):
    """Rows without labels and without a length."""

    def __iter__(self):
        ids, mask, _ = texts()
        return iter([{"input_ids": a, "attention_mask": b} for a, b in zip(ids, mask, strict=True)])


class LabelledStream(IterableDataset):
    """The same with labels, still without a length."""

    def __iter__(self):
        return iter([{**row, "labels": label} for row, label in zip(Stream(), texts()[2], strict=True)])


@pytest.mark.parametrize("hold", [lambda data: data, lambda data: DataLoader(data, 16)])
def test_streams_go_everywhere_that_rows_go(net, hold):
    model, data = totalcal.softmax(net, num_classes=CLASSES), hold(LabelledStream())
    totalcal.fit(model, data, epochs=1, validation=data, progress=False)
    totalcal.remember(model, data, data)
    plain = {"input_ids": texts()[0], "attention_mask": texts()[1], "labels": texts()[2]}
    assert evaluate(model, data).nll == pytest.approx(evaluate(model, plain).nll)
    assert Gate.fit(model, data, rule=RULE) == Gate.fit(model, plain, rule=RULE)
    assert temperature_scaled(model, data).temperature == temperature_scaled(model, plain).temperature
    assert OODScored(model, data).predict(held("tuple", *texts()[:2])).scores["knn"].shape == (ROWS,)


def test_streams_without_labels_are_ood_sets(net):
    ids, mask, labels = texts()
    test = {"input_ids": ids, "attention_mask": mask, "label": labels}
    panel = evaluate(
        from_module(net, "logits"), test, {"stream": Stream(), "loader": DataLoader(Stream(), 16)}
    ).panel
    assert panel["stream"].examples == panel["loader"].examples == ROWS
    assert panel["stream"].rankings["entropy"].auroc == pytest.approx(0.5)


def test_numpy_s_float64_meets_a_net_of_float32():
    rows = np.random.default_rng(0).normal(size=(40, 4))
    labels = np.arange(40) % 3
    net = nn.Linear(4, 3)
    truth = net(torch.tensor(rows, dtype=torch.float32)).softmax(1).detach()
    for predictor in (totalcal.softmax(net, num_classes=3), from_module(net, "logits")):
        assert_allclose(predictor.predict(rows).probabilities, truth, atol=1e-6)
        assert evaluate(predictor, (rows, labels), {"same": rows}).auroc == pytest.approx(0.5)
        assert Gate.fit(predictor, rows, labels, rule=RULE).on_held_out.rows == 40
    model = totalcal.etp(net, num_classes=3)
    totalcal.fit(model, (rows, labels), epochs=1, progress=False)
    totalcal.train(model, rows, labels, epochs=1)
    totalcal.remember(model, (rows, labels), (rows, labels))


def test_the_plain_loop_sends_loaders_to_fit(net):
    with pytest.raises(InputError, match="Use `fit`"):
        totalcal.train(totalcal.softmax(net, num_classes=CLASSES), DataLoader(LabelledStream()), epochs=1)


def test_a_broken_row_is_named_whichever_tensor_it_is_in():
    class Both(nn.Module):
        def forward(self, image, age):
            return image + age

    image, age = torch.zeros(4, 3), torch.zeros(4, 1)
    age[2] = torch.nan
    with pytest.raises(InputError, match=r"1 of 4 rows .*row 2"):
        totalcal.softmax(Both(), num_classes=3).predict((image, age))
