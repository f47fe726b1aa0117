"""Denormal numbers during a run."""

import pytest
import torch

from totalcal.training.denormals import flushed_denormals


def test_denormal_numbers_are_zeros_within_and_kept_after() -> None:
    with flushed_denormals():
        flushed = torch.tensor([1e-30]) * torch.tensor([1e-10])
    kept = torch.tensor([1e-30]) * torch.tensor([1e-10])
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush denormal numbers")
    assert flushed.item() == 0
    assert kept.item() > 0
