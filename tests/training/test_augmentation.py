"""Augmented batches against NumPy, and what a mixed batch is made of."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

from totalcal.errors import InputError
from totalcal.training.options import Augmentation
from totalcal.training.targets import augmented, cut_out, jittered, mixed, shifted_and_flipped


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images() -> Tensor:
    return torch.randn(40, 3, 9, 7, generator=drawn(1))


def moved_by_numpy(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Padded by its edge, then a window."""
    padded = np.pad(image, ((0, 0), (3, 3), (3, 3)), mode="edge")
    _, height, width = image.shape
    return padded[:, 3 - down : 3 - down + height, 3 - right : 3 - right + width]


@pytest.mark.parametrize("flips", [False, True])
def test_every_image_is_a_padded_window_of_itself_or_of_its_mirror_image(images: Tensor, flips: bool) -> None:
    found = shifted_and_flipped(images, 3, flips, drawn()).numpy()
    seen = set()
    for before, after in zip(images.numpy(), found, strict=True):
        ways = [
            (down, right, mirrored)
            for down in range(-3, 4)
            for right in range(-3, 4)
            for mirrored in (False, True)
            if np.array_equal(moved_by_numpy(before[:, :, ::-1] if mirrored else before, down, right), after)
        ]
        assert len(ways) == 1
        seen |= set(ways)
    assert len({way[:2] for way in seen}) > 20
    assert {mirrored for *_, mirrored in seen} == ({False, True} if flips else {False})


def test_shifts_and_flips_keep_images_in_channels_last(images: Tensor) -> None:
    found = shifted_and_flipped(images, 2, True, drawn())
    assert found.shape == images.shape
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_jitter_is_an_affine_map_of_each_image_within_its_bounds(images: Tensor) -> None:
    found = jittered(images, 0.3, 0.4, drawn()).numpy()
    slopes, added = [], []
    for before, after in zip(images.numpy(), found, strict=True):
        slope, _ = np.polyfit(before.ravel(), after.ravel(), 1)
        slopes.append(slope)
        added.append(after.mean() - before.mean())
        assert_allclose(after, slope * (before - before.mean()) + after.mean(), atol=1e-5)
    assert 0.6 <= min(slopes) < 0.7 < 1.3 < max(slopes) <= 1.4
    assert -0.3 <= min(added) < -0.2 < 0.2 < max(added) <= 0.3


def test_brightness_alone_and_contrast_alone(images: Tensor) -> None:
    lighter = jittered(images, 0.3, 0.0, drawn()) - images
    assert_allclose(lighter.std((1, 2, 3)), 0, atol=1e-6)
    assert_allclose(jittered(images, 0.0, 0.4, drawn()).mean((1, 2, 3)), images.mean((1, 2, 3)), atol=1e-6)


def test_a_square_is_cut_out_and_the_rest_stays(images: Tensor) -> None:
    for before, after in zip(images.numpy(), cut_out(images, 4, drawn()).numpy(), strict=True):
        changed = (before != after).all(0)
        assert_array_equal(changed, (before != after).any(0))
        assert_allclose(after[:, changed], before.mean(), rtol=1e-5, atol=1e-6)
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        assert changed.sum() == len(rows) * len(columns) == np.ptp(rows) * len(columns) + len(columns)
        assert 2 <= len(rows) <= 4
        assert 2 <= len(columns) <= 4


def test_mixed_rows_and_labels_have_the_same_shares() -> None:
    rows, labels = torch.randn(20, 5), torch.arange(20)
    found, mixture = mixed(rows, labels, 0.4, drawn(3))
    assert sorted(mixture.labels.tolist()) == list(range(20))
    assert_allclose(
        found, (1 - mixture.share) * rows + mixture.share * rows[mixture.labels], rtol=1e-5, atol=1e-6
    )


def test_shares_are_those_of_a_folded_beta() -> None:
    shares = [mixed(torch.zeros(1, 1), torch.zeros(1), 2.0, drawn(seed))[1].share for seed in range(2000)]
    reference = np.random.default_rng(0).beta(2.0, 2.0, 200_000)
    assert max(shares) <= 0.5
    assert np.mean(shares) == pytest.approx(np.minimum(reference, 1 - reference).mean(), abs=0.01)


def test_nothing_is_done_unless_told(images: Tensor) -> None:
    assert augmented(images, Augmentation(), drawn()) is images
    assert augmented({"ids": torch.arange(3)}, Augmentation(mixup=1.0), drawn())["ids"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("inputs", [torch.zeros(3, 4), torch.zeros(2, 1, 4, 4, dtype=torch.uint8)])
def test_what_is_no_image_is_refused(inputs: Tensor) -> None:
    with pytest.raises(InputError, match="floating images"):
        augmented(inputs, Augmentation(shifts=1), drawn())


def test_tokens_are_not_mixed() -> None:
    with pytest.raises(InputError, match="mixup=0"):
        mixed(torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3), 1.0, drawn())


@pytest.mark.parametrize("wrong", [{"shifts": -1}, {"contrast": 1.5}, {"mixup": -0.1}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Augmentation(**wrong)
