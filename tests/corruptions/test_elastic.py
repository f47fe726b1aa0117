import numpy as np
import pytest
import torch
from scipy import ndimage

from totalcal.corruptions.digital import elastic_transform
from totalcal.corruptions.kernels import Draws
from totalcal.corruptions.registry import PARAMETERS

SEED = 3


def pulled(x, moves):
    """Each pixel from where the inverse affine map says, borders mirrored without repeating the edge."""
    side = x.shape[-1]
    middle, arm = side // 2, side // 3
    pins = np.array(
        [[middle + arm, middle + arm], [middle + arm, middle - arm], [middle - arm, middle - arm]]
    )
    forward = np.linalg.solve(np.column_stack([pins, np.ones(3)]), pins + moves)  # [1 x y] → new place
    rows, columns = np.indices((side, side))
    linear, shift = forward[:2].T, forward[2]
    old = np.linalg.solve(linear, np.stack([columns.ravel(), rows.ravel()]) - shift[:, None])
    places = old[::-1].reshape(2, side, side)
    return np.stack([ndimage.map_coordinates(plane, places, order=1, mode="mirror") for plane in x])


def kneaded(x, fields, smoothness, length):
    side = x.shape[-1]
    right, down = (
        ndimage.gaussian_filter(f, smoothness * side, mode="reflect", truncate=3) * length * side
        for f in fields
    )
    places = np.indices((side, side)) + np.stack([down, right])
    return np.stack([ndimage.map_coordinates(plane, places, order=1, mode="reflect") for plane in x])


@pytest.mark.parametrize("side", [28, 32])
@pytest.mark.parametrize(("length", "smoothness", "jitter"), PARAMETERS["elastic_transform"])
def test_elastic_is_within_a_level_of_scipy(few, side, length, smoothness, jitter):
    images = few[:, :side, :side].contiguous()
    rows = slice(0, len(images))
    ours = elastic_transform(images, Draws(SEED, rows), length, smoothness, jitter).numpy()
    draws = Draws(SEED, rows)
    moves = draws.uniform(3, 2, low=-jitter * side, high=jitter * side).double().numpy()
    planes = np.moveaxis(images.numpy() / 255.0, -1, 1)
    planes = [pulled(x, move) for x, move in zip(planes, moves, strict=True)]
    if length:
        fields = draws.words(torch.int16, 2, side, side).double().numpy() / 2**15
        planes = [kneaded(x, field, smoothness, length) for x, field in zip(planes, fields, strict=True)]
    theirs = np.floor(np.moveaxis(np.stack(planes), 1, -1) * 255 + 1e-6)
    assert np.abs(ours - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.001
