"""The joint against brute force."""

import torch

from totalcal.functional.decomposition import log_joint


def test_the_mean_over_draws_stands_outside_of_the_product() -> None:
    likelihoods = torch.tensor([[0.9, 0.8], [0.1, 0.3]], dtype=torch.float64)
    expected = torch.log((torch.tensor(0.9 * 0.8) + 0.1 * 0.3) / 2).double()
    torch.testing.assert_close(log_joint(likelihoods.log()), expected)


def test_a_long_product_does_not_underflow() -> None:
    assert torch.isfinite(log_joint(torch.full((3, 10_000), -5.0)))
