"""Baselines are made of plain nets, as many as each takes."""

import pytest
import torch

from totalcal.nets import mlp
from totalcal.scores import evaluate
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.records.labels import BASELINE_NAMES

INPUTS, LABELS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_built_from_a_way_to_train_nets(name):
    asked = []

    def train_net(member=0, dropout=0.0):
        asked.append((member, dropout))
        return mlp(3, 2, dropout=dropout)

    predictor = BASELINES[name](train_net, (INPUTS, LABELS))
    assert evaluate(predictor, (INPUTS, LABELS), draws=3).draws == (3 if name == "mc_dropout" else 0)
    assert asked == {"ensemble": [(m, 0.0) for m in range(5)], "mc_dropout": [(0, 0.2)]}.get(name, [(0, 0.0)])


def test_tables_list_every_baseline():
    assert tuple(BASELINES) == BASELINE_NAMES
