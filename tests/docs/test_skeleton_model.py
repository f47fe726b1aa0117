"""The skeleton of docs/adding_a_model.md is a model like any other."""

import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

from totalcal.training import train

SKELETON = Path(__file__).parents[2] / "docs" / "skeleton_model.py"
CLASSES = 3


def make_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, CLASSES))
        return runpy.run_path(str(SKELETON))["ebnn"](backbone, num_classes=CLASSES)


@pytest.fixture(scope="module")
def data():
    labels = torch.arange(CLASSES).repeat(40)
    noise = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(0))
    return 2 * torch.eye(CLASSES, 2)[labels] + noise, labels


def test_it_learns(data):
    steps = train(make_model(), *data, epochs=30, batch_size=40, generator=torch.Generator().manual_seed(1))
    assert steps[-1].expected_nll < 0.8 * steps[0].expected_nll


def test_all_three_terms_are_there_and_add_up(data):
    prediction = make_model().predict(data[0], draws=20, seed=2)
    terms = prediction.decompose()
    p = prediction.probabilities
    assert all((term.sum(-1) > 0).all() for term in terms)
    left_out = terms.reducible - prediction.belief.mean.var(0, correction=0)  # by p, which is sampled itself
    torch.testing.assert_close(sum(terms), p * (1 - p) + left_out)


def test_its_prior_is_uniform_where_there_is_no_readout():
    model = make_model()
    prior = model.head.prior(torch.zeros(4, CLASSES), torch.zeros(4, 0))
    torch.testing.assert_close(prior.concentration, torch.full((4,), float(CLASSES), dtype=torch.float64))
