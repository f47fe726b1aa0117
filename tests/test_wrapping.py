import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from torch import nn

from totalcal import MODELS, Batch, Predictive, fit, scores
from totalcal.backbones import small_convnet
from totalcal.data.letters import letters
from totalcal.training.options import Optimisation
from totalcal.types import PointMass
from totalcal.wrapping import wrap

SEEDS = (0, 1, 2)


def trained_net(inputs, labels, seed, epochs=200):
    """What a user brings: trained until it is sure of every training row."""
    torch.manual_seed(seed)
    net = small_convnet(10)
    optimizer = torch.optim.Adam(net.parameters(), 2e-3, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(100):
            loss = nn.functional.cross_entropy(net(inputs[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()


def judged(digits, foreign, labels):
    return [
        scores.error(digits.probabilities, labels),
        scores.nll(digits.probabilities, labels),
        float(scores.ece(digits.probabilities, labels).value),
        1 - scores.auroc(digits.entropy, foreign.entropy),
    ]


def before_and_after(seed):
    """Error, NLL, ECE and 1 − AUROC against letters: of the net, and of the net wrapped."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(digits))
    inputs = torch.from_numpy(images[order].reshape(-1, 1, 8, 8) / 8 - 1).float()
    labels = torch.from_numpy(digits[order])
    foreign = torch.from_numpy(letters(size=8, count=1000)[0] / 127.5 - 1).float().unsqueeze(1)
    net = trained_net(inputs[:500], labels[:500], seed)
    model = wrap(net, num_classes=10)
    fit(
        model,
        (inputs[500:900], labels[500:900]),
        epochs=30,
        batch_size=64,
        seed=seed,
        optimisation=Optimisation(learning_rate=1e-2),
        freeze_backbone=True,
        progress=False,
    )
    test, truth = inputs[900:], labels[900:]
    with torch.no_grad():
        own = [Predictive(PointMass(net(rows).unsqueeze(0))) for rows in (test, foreign)]
    generator = torch.Generator().manual_seed(seed)
    wrapped = [model.predict(rows, generator=generator) for rows in (test, foreign)]
    return judged(*own, truth), judged(*wrapped, truth)


@pytest.fixture(scope="module")
def improvements():
    """Seeds × (before, after) × scores, all of them the lower the better."""
    return np.array([before_and_after(seed) for seed in SEEDS])


def test_error_is_not_worse_beyond_the_noise_of_the_test_set(improvements):
    for before, after in improvements[:, :, 0]:
        assert after <= before + 2 * np.sqrt(before * (1 - before) / 897)


@pytest.mark.parametrize(("column", "score"), [(1, "nll"), (2, "ece"), (3, "auroc")])
def test_a_wrapped_digits_net_is_better_in_all_three_aspects(improvements, column, score):
    assert (improvements[:, 1, column] < improvements[:, 0, column]).all(), score


@pytest.mark.parametrize("name", [name for name in MODELS if name != "edl"])
def test_predictions_start_as_those_of_the_net(name):
    torch.manual_seed(0)
    net, rows = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(20, 4)
    context = Batch(rows[:5], torch.zeros(5, dtype=torch.int64)) if name == "anp" else None
    prediction = wrap(net, name, num_classes=3).predict(rows, draws=0, context=context)
    assert_allclose(prediction.probabilities, net(rows).softmax(1).detach(), rtol=1e-5)


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
