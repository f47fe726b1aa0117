import functools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from torch import nn

from totalcal import MODELS, Batch, fit, scores
from totalcal.baselines import temperature_scaled
from totalcal.calibration.wrapping import fit_wrapped, wrap
from totalcal.data import letters
from totalcal.errors import InputError
from totalcal.nets import small_convnet
from totalcal.scores import from_module
from totalcal.training.options import Optimisation

SEEDS, SPLITS = range(3), range(4)
HALF = 898  # the settings of `wrap` were chosen on the first half of these digits: the rest judges
TRAIN, WRAP = 150, 374  # rows of that rest; 375 judge
SURE = 200  # epochs after which a net is sure of every training row


@functools.cache
def digits():
    """The half that had no say."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))[HALF:]
    inputs = torch.from_numpy(images[order].reshape(-1, 1, 8, 8) / 8 - 1).float()
    return inputs, torch.from_numpy(labels[order])


@functools.cache
def ood_inputs():
    """The letters that had no say."""
    images, number = letters(size=8, count=2000, seed=1)
    return torch.from_numpy(images[number % 2 == 1] / 127.5 - 1).float().unsqueeze(1)


def trained_net(rows, seed):
    """What a user brings: few rows, learned by heart."""
    inputs, labels = (part[rows] for part in digits())
    torch.manual_seed(seed)
    net = small_convnet(10)
    optimizer = torch.optim.Adam(net.parameters(), 2e-3, fused=True)
    for _ in range(SURE):
        for batch in torch.randperm(len(labels)).split(100):
            loss = nn.functional.cross_entropy(net(inputs[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()


def wrapped(net, held_out, seed):
    inputs, labels = digits()
    torch.manual_seed(seed)
    model = wrap(net, num_classes=10)
    fit(
        model,
        (inputs[held_out], labels[held_out]),
        epochs=30,
        batch_size=64,
        seed=seed,
        optimisation=Optimisation(learning_rate=1e-2),
        freeze_backbone=True,
        progress=False,
    )
    return model


def judged(predictor, rows):
    """Error, NLL, ECE and 1 − AUROC against letters: all the lower the better."""
    inputs, labels = digits()
    known, ood = (predictor.predict(shown, seed=0) for shown in (inputs[rows], ood_inputs()))
    return [
        scores.error(known.probabilities, labels[rows]),
        scores.nll(known.probabilities, labels[rows]),
        float(scores.ece(known.probabilities, labels[rows])),
        1 - scores.auroc(known.entropy, ood.entropy),
    ]


def trial(seed, split):
    """Scores before and after wrapping, for one division of the rows."""
    rows = np.random.default_rng([seed, split]).permutation(len(digits()[1]))
    train, held_out, test = np.split(rows, [TRAIN, TRAIN + WRAP])
    net = trained_net(train, seed)
    return judged(from_module(net, "logits"), test), judged(wrapped(net, held_out, seed), test)


@pytest.fixture(scope="module")
def found():
    """Seeds × (before, after) × scores, each the mean of several divisions: 375 rows are few for an ECE."""
    return np.array([[trial(seed, split) for split in SPLITS] for seed in SEEDS]).mean(axis=1)


def test_error_is_not_worse_beyond_the_noise_of_held_out_rows(found):
    before, after = found[..., 0].T
    assert (after <= before + np.sqrt(before * (1 - before) / WRAP)).all()


@pytest.mark.parametrize(("column", "score"), [(1, "nll"), (2, "ece"), (3, "auroc")])
def test_a_wrapped_digits_net_is_better_for_every_seed(found, column, score):
    before, after = found[..., column].T
    assert (after < before).all(), score


def test_large_logits_start_as_the_predictions_of_the_net_too():
    torch.manual_seed(0)
    net, rows = nn.Linear(4, 3), 40 * torch.randn(50, 4)
    found = wrap(net, num_classes=3).predict(rows).probabilities
    assert_allclose(found, net(rows).softmax(1).detach(), atol=5e-4)
    assert torch.equal(found.argmax(1), net(rows).argmax(1))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "edl"])
def test_predictions_start_as_those_of_the_net(name):
    torch.manual_seed(0)
    net, rows = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(20, 4)
    context = Batch(rows[:5], torch.zeros(5, dtype=torch.int64)) if name == "anp" else None
    prediction = wrap(net, name, num_classes=3).predict(rows, draws=0, context=context)
    assert_allclose(prediction.probabilities, net(rows).softmax(1).detach(), atol=5e-4)


def test_edl_starts_with_the_ranking_of_the_net():
    torch.manual_seed(0)
    net, rows = nn.Linear(4, 3), torch.randn(50, 4)
    found = wrap(net, "edl", num_classes=3).predict(rows).probabilities
    assert torch.equal(found.argsort(1), net(rows).argsort(1))


def test_the_net_itself_is_left_alone():
    net = nn.Linear(4, 3)
    before = net.weight.detach().clone()
    fit(wrap(net, num_classes=3), (torch.randn(64, 4), torch.randint(3, (64,))), epochs=2, progress=False)
    assert torch.equal(net.weight, before)


def test_layers_become_laws_around_the_trained_weights():
    net = nn.Linear(4, 3)
    process = wrap(net, num_classes=3, layers="linear")
    assert torch.equal(process.backbone.weight_mean, net.weight)


def test_the_public_name_is_the_function_whatever_was_imported_before():
    import totalcal

    assert totalcal.wrap is wrap


class TooSure(nn.Module):
    """The true logits, times three."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(3.0))

    def forward(self, logits):
        return self.factor * logits


def labelled_rows(classes, rows, seed):
    noise = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, classes, generator=noise)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=noise).squeeze(1)


@pytest.mark.parametrize(("classes", "epochs"), [(2, 10), (10, 10), (100, 10), (1000, 4)])
def test_a_wrapped_net_is_no_worse_than_a_temperature(classes, epochs):
    held_out, (rows, labels) = labelled_rows(classes, 500, 0), labelled_rows(classes, 2000, 1)
    model, net = wrap(TooSure(), num_classes=classes), from_module(TooSure(), "logits")
    taught = fit_wrapped(model, held_out, epochs=epochs, progress=False)
    found, expected, before = (
        predictor.predict(rows).probabilities for predictor in (model, temperature_scaled(net, held_out), net)
    )
    error = (found.log() - expected.log()).gather(1, labels[:, None]).std() / len(labels) ** 0.5
    assert scores.nll(found, labels) <= scores.nll(expected, labels) + 3 * float(error) + 0.001
    assert float(scores.ece(found, labels)) < float(scores.ece(before, labels)) / 2
    assert ("so the temperature is what you get" in str(taught)) == taught.is_temperature


def test_where_the_temperature_is_better_it_is_what_you_get():
    held_out, (rows, _) = labelled_rows(10, 200, 0), labelled_rows(10, 50, 1)
    model = wrap(TooSure(), num_classes=10, local_kl_scale=1.0)  # far too much: as at 1,000 classes before
    taught = fit_wrapped(model, held_out, epochs=5, progress=False)
    assert taught.is_temperature
    expected = (TooSure()(rows) / taught.temperature).softmax(1).detach()
    assert_allclose(model.predict(rows).probabilities, expected, atol=1e-5)


def test_the_temperature_of_a_wrapped_net_is_that_of_the_baseline():
    held_out = labelled_rows(5, 400, 0)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))[torch.arange(400) % 5 != 0]
    taught = fit_wrapped(wrap(TooSure(), num_classes=5), held_out, epochs=1, progress=False)
    expected = temperature_scaled(from_module(TooSure(), "logits"), tuple(part[order] for part in held_out))
    assert taught.temperature == pytest.approx(expected.temperature, rel=1e-3)


def test_the_kl_between_beliefs_counts_less_with_more_classes():
    scales = [wrap(TooSure(), num_classes=classes).loss_weights.local for classes in (2, 10, 100, 1000)]
    assert scales == pytest.approx([1e-3, 1e-3, 1e-4, 1e-5])
    assert wrap(TooSure(), num_classes=1000, local_kl_scale=0.5).loss_weights.local == 0.5


def test_what_cannot_become_a_temperature_is_refused():
    with pytest.raises(InputError, match="such as etp"):
        fit_wrapped(wrap(TooSure(), "edl", num_classes=3), labelled_rows(3, 50, 0), progress=False)
    with pytest.raises(InputError, match="at least 10 held-out rows"):
        fit_wrapped(wrap(TooSure(), num_classes=3), labelled_rows(3, 9, 0), progress=False)
