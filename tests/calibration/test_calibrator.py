import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from totalcal.calibration.calibrator import (
    TEMPERATURE_PRIOR,
    NoCalibrator,
    TemperatureAndBias,
    _fit_bias,
    _fit_temperature,
    _Rows,
    fit_calibrator,
)
from totalcal.types import Dirichlet, Faded, PointMass


def drawn(rows, classes, seed=0, sharpness=2.0, temperature=1.0, bias=0.0):
    """Logits that a net gives, and labels from softmax of logits that are right."""
    noise = torch.Generator().manual_seed(seed)
    right = sharpness * torch.randn(rows, classes, generator=noise, dtype=torch.float64)
    shift = bias * (-1.0) ** torch.arange(classes)
    labels = torch.multinomial(right.softmax(1), 1, generator=noise).squeeze(1)
    return temperature * (right + shift), labels


def nll(result, logits, labels):
    return float(F.cross_entropy(result.calibrator(PointMass(logits)).logits, labels))


def test_a_temperature_and_biases_that_were_put_in_are_found_again():
    logits, labels = drawn(20_000, 3, temperature=2.5, bias=0.8)
    found = fit_calibrator(logits, labels)
    shift = 0.8 * torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    assert found.name == "temperature and bias"
    assert found.temperature == pytest.approx(2.5, rel=0.05)
    assert torch.allclose(
        found.calibrator.bias - found.calibrator.bias.mean(), shift.mean() - shift, atol=0.06
    )


def test_the_cost_has_its_minimum_where_a_solver_without_gradients_finds_it():
    logits, labels = drawn(200, 2, temperature=2, bias=1)

    def cost(x):
        total = F.cross_entropy(logits * np.exp(-x[0]) + torch.tensor(x[1:]), labels, reduction="sum")
        return float(total) + np.log1p((x[0] / TEMPERATURE_PRIOR) ** 2) + 3 * (x[1] ** 2 + x[2] ** 2)

    rows = _Rows(logits[None], labels, torch.ones(200, dtype=torch.float64))
    truth = minimize(cost, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    assert _fit_bias(rows, 3.0, np.zeros(1)) == pytest.approx(truth.x, abs=2e-3)


def test_of_several_draws_their_mean_is_calibrated():
    logits, labels = drawn(300, 3)
    draws = torch.stack([logits + torch.randn(300, 3, dtype=torch.float64) for _ in range(4)])
    rows = _Rows(draws, labels, torch.ones(300, dtype=torch.float64))

    def cost(x):
        mean = (draws * np.exp(-x[0]) + torch.tensor(x[1:])).softmax(-1).mean(0)
        total = -mean[torch.arange(300), labels].log().sum()
        return float(total) + np.log1p((x[0] / TEMPERATURE_PRIOR) ** 2) + float(10 * np.square(x[1:]).sum())

    truth = minimize(
        cost, np.zeros(4), method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-9}
    )
    assert _fit_bias(rows, 10.0, np.zeros(1)) == pytest.approx(truth.x, abs=3e-3)


def test_a_weight_of_two_is_a_row_given_twice():
    logits, labels = drawn(100, 3, temperature=2)
    weights = torch.ones(100, dtype=torch.float64)
    weights[:50] = 2
    twice = _Rows(
        torch.cat([logits, logits[:50]])[None], torch.cat([labels, labels[:50]]), torch.ones(150).double()
    )
    assert _fit_temperature(_Rows(logits[None], labels, weights)) == pytest.approx(
        _fit_temperature(twice), abs=1e-3
    )


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("rows", [50, 200, 1000])
def test_a_calibrated_net_is_not_made_worse(classes, rows):
    losses = []
    test, truth = drawn(3000, classes, seed=99)
    for seed in range(5 if classes < 100 else 2):
        found = fit_calibrator(*drawn(rows, classes, seed=seed))
        losses.append(nll(found, test, truth) - float(F.cross_entropy(test, truth)))
    assert np.mean(losses) < 0.01 + 0.5 / rows


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize(("temperature", "bias"), [(3.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_it_is_never_worse_than_a_temperature_but_for_noise_and_better_where_classes_are_biased(
    classes, temperature, bias
):
    test, truth = drawn(3000, classes, seed=99, temperature=temperature, bias=bias)
    gains = []
    for seed in range(3):
        logits, labels = drawn(500, classes, seed=seed, temperature=temperature, bias=bias)
        found = fit_calibrator(logits, labels)
        rows = _Rows(logits[None], labels, torch.ones(500, dtype=torch.float64))
        alone = float(F.cross_entropy(test * np.exp(-_fit_temperature(rows)), truth))
        gains.append(alone - nll(found, test, truth))
    assert np.mean(gains) > -0.005
    if bias == 1.0:
        assert np.mean(gains) > 0.01


WORLDS = {
    "calibrated": {},
    "nearly always right": {"sharpness": 8.0},
    "too sure": {"temperature": 2.0},
    "biased": {"bias": 0.5},
    "biased and too sure": {"bias": 1.0, "temperature": 2.0},
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rows", [50, 200, 1000, 5000])
@pytest.mark.parametrize(("classes", "seeds"), [(2, 40), (10, 20), (100, 5), (1000, 2)])
def test_at_no_size_is_it_worse_than_the_net_or_a_temperature_beyond_noise(classes, seeds, rows, world):
    """What one fitted number costs on average is 1 / (2 rows)."""
    test, truth = drawn(2000, classes, seed=99, **WORLDS[world])
    as_it_is, losses = float(F.cross_entropy(test, truth)), []
    for seed in range(seeds):
        logits, labels = drawn(rows, classes, seed=seed, **WORLDS[world])
        found = nll(fit_calibrator(logits, labels), test, truth)
        data = _Rows(logits[None], labels, torch.ones(rows, dtype=torch.float64))
        alone = float(F.cross_entropy(test * np.exp(-_fit_temperature(data)), truth))
        losses.append([found - as_it_is, found - alone])
    mean, error = np.mean(losses, 0), np.std(losses, 0) / np.sqrt(seeds)
    print(f"NLL {as_it_is:.3f}, {mean.round(4)} ± {error.round(4)} against it and a temperature")
    assert (mean <= 0.002 + 1 / rows + 3 * error).all()


@pytest.mark.parametrize("seed", range(4))
def test_chance_in_cross_validation_does_not_veto_a_temperature_which_a_prior_keeps_near_one(seed):
    found = fit_calibrator(*drawn(60, 10, seed=seed))
    assert isinstance(found.calibrator, TemperatureAndBias)
    assert 0.6 < found.temperature < 1.6


def test_rows_too_few_to_leave_any_out_change_nothing():
    found = fit_calibrator(*drawn(5, 3, temperature=9))
    assert isinstance(found.calibrator, NoCalibrator)
    assert found.gain == 0


def test_the_prior_of_the_classes_is_learned_where_it_has_shifted():
    noise = np.random.default_rng(0)
    labels = noise.integers(3, size=3000)
    table = noise.normal(size=(3000, 3)) + 1.5 * np.eye(3)[labels]
    net = LogisticRegression().fit(table[:1000], labels[:1000])
    rare = noise.random(2000) < np.array([1.0, 0.1, 0.1])[labels[1000:]]
    rows, truth = table[1000:][rare], torch.from_numpy(labels[1000:][rare])
    logits = torch.from_numpy(net.decision_function(rows))
    found = fit_calibrator(logits[::2], truth[::2])
    assert nll(found, logits[1::2], truth[1::2]) < 0.8 * float(F.cross_entropy(logits[1::2], truth[1::2]))


def test_the_evidence_of_a_dirichlet_stays_and_its_mean_is_calibrated():
    own = Dirichlet(torch.randn(2, 5, 3, dtype=torch.float64))
    calibrator = TemperatureAndBias(3)
    calibrator.log_temperature.fill_(-0.7)
    calibrator.bias.copy_(torch.tensor([0.5, -0.5, 0.0]))
    found = calibrator(own)
    expected = (own.log_mean * np.exp(0.7) + torch.tensor([0.5, -0.5, 0.0])).softmax(-1)
    assert torch.allclose(found.concentration, own.concentration)
    assert torch.allclose(found.mean, expected)
    faded = Faded(own, torch.full((5,), 0.4))
    assert torch.allclose(calibrator(faded).mean, 0.4 * expected + 0.6 / 3)
