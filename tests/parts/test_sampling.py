"""Noise handed down to layers inside of any module."""

import threading

import pytest
import torch
from torch import nn

from totalcal.parts.sampling import AtMeans, Noise, Sharing, sampling, stochastic_layers
from totalcal.parts.weights import mean_field


def net() -> nn.Module:
    return mean_field(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))


def test_noise_reaches_every_layer_and_is_taken_back() -> None:
    module, noise = net(), Noise(torch.Generator(), Sharing.SHARED)
    with sampling(noise):
        assert all(layer.noise is noise for layer in stochastic_layers(module))
    assert all(layer.noise == Noise() for layer in stochastic_layers(module))


def test_noise_is_taken_back_after_an_error() -> None:
    module = net()
    with pytest.raises(ZeroDivisionError), sampling(Noise(sharing=Sharing.MEAN)):
        raise ZeroDivisionError
    assert all(layer.noise == Noise() for layer in stochastic_layers(module))


def test_each_thread_has_noise_of_its_own() -> None:
    module, found = net(), []
    with sampling(Noise(sharing=Sharing.MEAN)):
        other = threading.Thread(target=lambda: found.append(stochastic_layers(module)[0].noise))
        other.start()
        other.join()
    assert found == [Noise()]


def test_at_its_means_a_net_is_what_it_was_made_from() -> None:
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    inputs, fixed = torch.randn(3, 4), AtMeans(mean_field(plain))
    with sampling(Noise(torch.Generator(), Sharing.ROWS)):
        torch.testing.assert_close(fixed(inputs), plain(inputs))
