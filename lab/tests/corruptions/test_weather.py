import cv2
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from scipy import ndimage
from skimage.filters import gaussian

from totalcal.errors import InputError, ShapeError
from totalcal_lab.corruptions import corrupt, weather
from totalcal_lab.corruptions.kernels import BLOCK, BlockDraws
from totalcal_lab.corruptions.registry import PARAMETERS
from totalcal_lab.corruptions.weather import plasma, spatter

SEED = 7


def magnified(layer, factor):
    side = len(layer)
    seen = int(np.ceil(side / factor))
    first = (side - seen) // 2
    large = ndimage.zoom(layer[first : first + seen, first : first + seen], factor, order=1)
    trim = (len(large) - side) // 2
    return large[trim : trim + side, trim : trim + side]


def blown(layer, angle, radius, sigma):
    total, norm = np.zeros(layer.shape), 0.0
    rows, columns = np.indices(layer.shape)
    last = len(layer) - 1
    for tap in range(2 * radius + 1):
        weight = np.exp(-(tap**2) / (2 * sigma**2))
        down = int(np.ceil(tap * np.sin(np.radians(angle)) - 0.5))
        right = int(np.ceil(tap * np.cos(np.radians(angle)) - 0.5))
        total += weight * layer[(rows + down).clip(0, last), (columns + right).clip(0, last)]
        norm += weight
    return np.floor(257 * total / norm + 0.5) // 257


@pytest.mark.parametrize("parameters", PARAMETERS["snow"])
def test_snow_is_bit_by_bit_the_original_for_one_image_at_a_time(few, parameters):
    mean, sd, zoom, threshold, radius, sigma, kept = parameters
    rows, side = slice(0, len(few)), few.shape[1]
    ours = weather.snow(few, BlockDraws(SEED, rows), *parameters).numpy()
    draws = BlockDraws(SEED, rows)
    layers = draws.normal(1, side, side, mean=mean, sd=sd).double().squeeze(1).numpy()
    angles = draws.uniform(low=-135, high=-45).double().numpy()
    for result, image, layer, angle in zip(ours, few.numpy(), layers, angles, strict=True):
        flakes = magnified(layer, zoom)
        flakes = np.floor(np.clip(np.where(flakes < threshold, 0, flakes), 0, 1) * 255)
        fall = blown(flakes, angle, radius, sigma)[..., None] / 255
        x = image.astype(np.float32) / 255
        red, green, blue = np.moveaxis(x, -1, 0)
        grey = (np.float32(0.299) * red + np.float32(0.587) * green + np.float32(0.114) * blue)[..., None]
        x = kept * x + (1 - kept) * np.maximum(x, grey * 1.5 + 0.5)
        assert_array_equal(result, (np.clip(x + fall + np.rot90(fall, 2), 0, 1) * 255).astype(np.uint8))


@pytest.mark.parametrize(("decay", "sd", "correlation"), [(3, 0.177, 0.989), (1.75, 0.195, 0.982)])
def test_plasma_has_the_statistics_of_the_original(decay, sd, correlation):
    maps = torch.cat([plasma(torch.zeros(BLOCK, 1, 1), 32, decay, BlockDraws(seed)) for seed in range(8)])
    assert maps.amin() == 0
    assert maps.amax() == 1
    assert float(maps.mean()) == pytest.approx(0.495, abs=0.02)
    assert float(maps.std()) == pytest.approx(sd, abs=0.01)
    neighbours = np.corrcoef(maps[:, :, 1:].ravel(), maps[:, :, :-1].ravel())
    assert neighbours[0, 1] == pytest.approx(correlation, abs=0.002)


def test_fog_leaves_black_images_black():
    assert corrupt(np.zeros((2, 28, 28), dtype=np.uint8), "fog", 5).max() == 0


def write_textures(folder, levels, size=(200, 200)):
    for number, level in enumerate(levels, start=1):
        Image.new("RGB", size, (level, level, level)).save(folder / f"frost{number}.png")


def test_frost_takes_its_textures_from_a_folder_and_never_the_sixth(tmp_path):
    write_textures(tmp_path, [10, 20, 30, 40, 50, 250])
    frosted = corrupt(np.zeros((500, 32, 32, 3), dtype=np.uint8), "frost", 3, frost_dir=tmp_path)
    assert np.unique(frosted).tolist() == [4, 8, 12, 16, 20]  # 0.4 of each


def test_frost_wants_textures_larger_than_the_image(tmp_path):
    write_textures(tmp_path, [10], size=(160, 160))
    with pytest.raises(ShapeError, match="no larger than the image"):
        corrupt(np.zeros((1, 32, 32, 3), dtype=np.uint8), "frost", 3, frost_dir=tmp_path)


def test_a_folder_without_textures_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no frost textures"):
        corrupt(np.zeros((1, 32, 32, 3), dtype=np.uint8), "frost", 3, frost_dir=tmp_path)


SPATTER_SEED = 11


def water(x, liquid, strength):
    depth = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(depth, 50, 150), cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    relief = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(relief, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    shine = depth * cv2.blur(relief, (3, 3)).astype(float)
    return x + strength * shine[..., None] / shine.max() * np.array([175, 238, 238]) / 255


def mud(x, liquid, threshold, sigma):
    mask = gaussian((liquid > threshold).astype(float), sigma=sigma)[..., None]
    mask = np.where(mask < 0.8, 0, mask)
    return x * (1 - mask) + mask * np.array([63, 42, 20]) / 255


@pytest.mark.parametrize("parameters", PARAMETERS["spatter"])
def test_spatter_agrees_with_the_libraries_one_image_at_a_time(few, parameters):
    mean, sd, sigma, threshold, strength, muddy = parameters
    rows, side = slice(0, len(few)), few.shape[1]
    ours = spatter(few, BlockDraws(SPATTER_SEED, rows), *parameters).numpy()
    layers = (
        BlockDraws(SPATTER_SEED, rows).normal(1, side, side, mean=mean, sd=sd).double().squeeze(1).numpy()
    )
    differ = 0
    for result, image, layer in zip(ours, few.numpy(), layers, strict=True):
        liquid = gaussian(layer, sigma=sigma)
        liquid[liquid < threshold] = 0
        x = image / 255.0
        covered = mud(x, liquid, threshold, strength) if muddy else water(x, liquid, strength)
        theirs = (np.clip(covered, 0, 1) * 255).astype(int)
        differ += (result != theirs).mean() / len(few)
        assert np.abs(result - theirs).max() <= 1
    assert differ < 0.001
