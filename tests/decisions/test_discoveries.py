"""A list of unfamiliar rows, of which few are ordinary."""

import numpy as np
import pytest
import torch
from scipy.stats import false_discovery_control
from torch import nn

import totalcal
from totalcal.decisions.discoveries import discoveries, fewest_discoveries
from totalcal.errors import GateError, InputError

FDR = 0.1


def p_values(scores, held_out):
    return (1 + (held_out[None] >= scores[:, None]).sum(1)) / (len(held_out) + 1)


def simulated(repetitions, held_out=999, strange=20, rows=200, shift=4.0, tied=False):
    """Mean false and true shares over held-out sets and batches; beside them those of p ≤ .05."""
    shares = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        calibration, batch = noise.normal(size=held_out), noise.normal(size=rows)
        batch[:strange] += shift
        if tied:
            calibration, batch = calibration.round(), batch.round()
        values = p_values(batch, calibration)
        each = []
        for mask in (discoveries(values, held_out, FDR).mask, values <= 0.05):
            each += [mask[strange:].sum() / max(mask.sum(), 1), mask[:strange].mean() if strange else 0.0]
        shares.append(each)
    return np.mean(shares, 0), np.std(shares, 0) / np.sqrt(repetitions)


def test_it_selects_what_scipy_s_adjusted_p_values_select():
    values = np.random.default_rng(0).beta(0.3, 1, size=300)
    found = discoveries(values, 10**6, FDR)
    np.testing.assert_array_equal(found.mask, false_discovery_control(values) <= FDR)
    assert (np.diff(found.familiarity[found.rows]) >= 0).all()


def test_the_share_of_false_discoveries_holds_where_a_threshold_per_row_does_not():
    means, errors = simulated(40)
    false, power, false_by_threshold, _ = means
    assert false <= FDR + 3 * errors[0]
    assert power > 0.8
    assert false_by_threshold > 0.2


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("strange", [0, 3, 20, 100])
@pytest.mark.parametrize("held_out", [19, 99, 999])
def test_the_share_of_false_discoveries_holds_over_five_hundred_held_out_sets(held_out, strange, tied):
    means, errors = simulated(500, held_out, strange, tied=tied)
    assert means[0] <= FDR + 3 * errors[0]


def test_no_fewer_are_found_than_the_held_out_rows_can_tell_apart():
    noise = np.random.default_rng(0)
    assert fewest_discoveries(200, 99, FDR) == 20
    for strange in (15, 25):
        batch = noise.normal(size=200)
        batch[:strange] = 100
        found = discoveries(p_values(batch, noise.normal(size=99)), 99, FDR)
        assert (len(found) >= 20) == (strange >= 20)
        assert str(found.fewest) in str(found)


def test_what_cannot_hold_is_refused():
    with pytest.raises(GateError, match="9 held-out rows"):
        discoveries([0.5], 8, FDR)
    with pytest.raises(InputError):
        discoveries([0.0, 2.0], 100, FDR)
    with pytest.raises(InputError):
        discoveries([0.5], 100, 1.0)


@pytest.fixture(scope="module")
def model():
    noise = torch.Generator().manual_seed(0)
    rows = torch.randn(900, 4, generator=noise)
    labels = rows[:, :3].argmax(1)
    net = nn.Linear(4, 3)
    with torch.no_grad():
        net.weight.copy_(3 * torch.eye(4)[:3])
        net.bias.zero_()
    return totalcal.calibrate(net, (rows[:400], labels[:400]), (rows[400:], labels[400:]), progress=False)


def test_a_model_selects_what_is_far_from_its_rows(model):
    batch = torch.randn(100, 4, generator=torch.Generator().manual_seed(1))
    batch[:30] += 30
    found = model.select_unfamiliar(batch, fdr=0.1)
    assert set(range(30)) <= set(found.rows.tolist())
    assert len(found) <= 40
    assert found.held_out >= 200
    assert f"of 1000 rows it finds {fewest_discoveries(1000, found.held_out, 0.1)} or more" in str(model)


def test_a_model_without_a_memory_is_refused():
    sure = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).repeat(100, 1)
    bare = totalcal.calibrate_probabilities(sure, torch.tensor([0, 1, 1, 0, 0, 1, 0, 1]).repeat(25))
    with pytest.raises(GateError, match="no memory"):
        bare.select_unfamiliar(sure)


def test_a_model_that_has_memorised_another_domain_is_refused(model):
    import copy

    more = copy.deepcopy(model)
    more.process.memorise(torch.randn(60, 4) - 20, torch.zeros(60, dtype=torch.long))
    with pytest.raises(GateError, match="memorised"):
        more.select_unfamiliar(torch.randn(50, 4))
