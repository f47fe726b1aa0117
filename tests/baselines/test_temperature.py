import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from totalcal.baselines import temperature_scaled
from totalcal.errors import InputError
from totalcal.scores import evaluate, from_arrays, nll


def overconfident(factor, size=4000, seed=0):
    """Labels are drawn from softmax(l), the predictor says softmax(factor · l): so T should be factor."""
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(size, 4, generator=random, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=random).squeeze(1)
    return factor * logits, labels


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_it_finds_the_temperature_that_undoes_a_known_overconfidence(factor):
    scaled = temperature_scaled(from_arrays("logits"), overconfident(factor))
    assert scaled.temperature == pytest.approx(factor, rel=0.05)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.01, 20))
def test_it_never_raises_the_held_out_nll(seed, size, factor):
    random = np.random.default_rng(seed)
    held_out = factor * random.normal(size=(size, 3)), random.integers(3, size=size)
    scaled = temperature_scaled(from_arrays("logits"), held_out)
    assert scaled.nll_after <= scaled.nll_before
    found = nll(scaled.predict(torch.as_tensor(held_out[0])).probabilities, held_out[1])
    assert_allclose(found, scaled.nll_after, rtol=1e-9)


def test_it_says_when_nothing_changes():
    uniform = torch.zeros(10, 3), torch.arange(10) % 3
    scaled = temperature_scaled(from_arrays("logits"), uniform)
    assert scaled.changes_nothing
    assert scaled.temperature == 1
    assert "nothing changes" in str(scaled)
    assert "→" in str(temperature_scaled(from_arrays("logits"), overconfident(3.0)))


def test_it_changes_neither_the_error_nor_the_number_of_draws():
    logits, labels = overconfident(3.0, size=200)
    draws = torch.stack([logits, logits + 0.1], dim=1)
    scaled = temperature_scaled(from_arrays("logits"), (draws, labels))
    before, after = evaluate(from_arrays("logits"), (draws, labels)), evaluate(scaled, (draws, labels))
    assert before.error == after.error
    assert after.draws == 2
    assert after.nll < before.nll


def test_a_probability_is_scaled_as_its_logits_are():
    logits, labels = overconfident(2.0, size=50)
    scaled = temperature_scaled(from_arrays("probabilities"), (logits.softmax(1), labels))
    expected = (logits / scaled.temperature).softmax(1)
    assert_allclose(scaled.predict(logits.softmax(1)).probabilities, expected, rtol=1e-9)
    assert nll(expected, labels) == pytest.approx(scaled.nll_after)


def test_it_cannot_be_fitted_without_labels_or_rows():
    with pytest.raises(InputError, match="labels"):
        temperature_scaled(from_arrays("logits"), torch.zeros(3, 2))
    with pytest.raises(InputError, match="empty"):
        temperature_scaled(from_arrays("logits"), [])


def test_logits_beyond_what_a_probability_can_hold_have_a_temperature():
    logits, labels = overconfident(400.0, size=300)
    scaled = temperature_scaled(from_arrays("logits"), (logits, labels))
    assert np.isfinite([scaled.nll_before, scaled.nll_after]).all()
    assert scaled.nll_after < scaled.nll_before
