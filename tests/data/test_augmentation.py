import numpy as np
import pytest
import torch

from totalcal.data.batches import crop_and_flip, find_augmentation
from totalcal.errors import UnknownNameError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def every_crop(image, padding):
    """All that the crop of one image may give: position, mirrored or not → picture."""
    padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    height, width, _ = image.shape
    for top in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            crop = padded[top : top + height, left : left + width]
            yield (top, left, False), crop
            yield (top, left, True), crop[:, ::-1]


def test_each_result_is_one_of_the_crops_of_its_own_image(draw):
    images = draw.integers(1, 256, (60, 6, 5, 3), dtype=np.uint8)
    augmented = crop_and_flip(torch.from_numpy(images), generator(), padding=2).numpy()
    ways = set()
    for image, result in zip(images, augmented, strict=True):
        found = [way for way, crop in every_crop(image, 2) if (crop == result).all()]
        assert len(found) == 1
        ways.add(found[0])
    assert {way[0] for way in ways} == {way[1] for way in ways} == set(range(5))


def test_half_of_the_images_are_mirrored():
    ramp = torch.arange(32, dtype=torch.uint8).expand(4000, 32, 32)[..., None]
    result = crop_and_flip(ramp, generator())
    mirrored = result[:, 16, 12, 0] > result[:, 16, 20, 0]
    assert 0.46 < mirrored.float().mean() < 0.54


def test_it_follows_its_generator_and_leaves_its_input_alone(draw):
    images = torch.from_numpy(draw.integers(0, 256, (8, 32, 32, 3), dtype=np.uint8))
    before = images.clone()
    first, again, other = (crop_and_flip(images, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(images, before)
    assert first.dtype == torch.uint8


def test_augmentations_are_found_by_name():
    assert find_augmentation("crop-and-flip") is crop_and_flip
    assert find_augmentation(None) is None
    with pytest.raises(UnknownNameError, match="Did you mean 'crop-and-flip'"):
        find_augmentation("crop_and_flip")
