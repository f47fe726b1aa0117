import numpy as np
import pytest
import torch

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal_lab.data.arrays import ArrayData, Scaling, crop_and_flip, find_augmentation


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images(draw):
    return draw.integers(0, 256, (10, 8, 8, 3), dtype=np.uint8)


@pytest.fixture
def data(images):
    return ArrayData.from_arrays(images, np.arange(10), Scaling((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))


def test_batches_are_scaled_as_numpy_scales_them(data, images):
    batch = next(data.batches(4))
    expected = (images[:4] / 255 - [0.1, 0.2, 0.3]) / [0.4, 0.5, 0.6]
    np.testing.assert_allclose(batch.inputs, expected.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)
    assert batch.inputs.dtype == torch.float32
    assert batch.labels.tolist() == [0, 1, 2, 3]


def test_images_lie_channels_last_in_memory(data):
    assert next(data.batches(4, generator())).inputs.is_contiguous(memory_format=torch.channels_last)


def test_a_pass_shows_every_example_once_in_an_order_drawn_from_the_generator(data):
    orders = [torch.cat([batch.labels for batch in data.batches(3, generator(seed))]) for seed in (0, 0, 1)]
    assert orders[0].sort().values.tolist() == list(range(10))
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])


def test_inputs_and_labels_stay_together(data):
    plain = data.whole().inputs
    for batch in data.batches(3, generator()):
        assert torch.equal(batch.inputs, plain[batch.labels])


def test_the_last_short_batch_comes_unless_it_is_dropped(data):
    assert [len(batch.labels) for batch in data.batches(4)] == [4, 4, 2]
    assert [len(batch.labels) for batch in data.batches(4, drop_last=True)] == [4, 4]


def test_without_a_generator_nothing_is_augmented(data):
    augmented = ArrayData(data.inputs, data.labels, data.scaling, crop_and_flip)
    assert torch.equal(next(augmented.batches(10)).inputs, data.whole().inputs)
    shown = torch.cat([batch.inputs for batch in augmented.batches(10, generator())])
    assert not any(torch.equal(row, plain) for row in shown for plain in data.whole().inputs)


def test_grey_images_get_their_channel_and_tokens_stay_as_they_are():
    grey = ArrayData.from_arrays(np.zeros((2, 8, 8), np.uint8), np.zeros(2), Scaling((0.0,), (1.0,)))
    assert grey.whole().inputs.shape == (2, 1, 8, 8)
    tokens = ArrayData.from_arrays(np.arange(6).reshape(2, 3), np.zeros(2))
    assert tokens.whole().inputs.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tokens.whole().inputs.dtype == torch.int64


def test_a_constant_column_becomes_zero_and_not_nan():
    table = ArrayData.from_arrays(np.full((3, 1), 7, np.float32), np.zeros(3), Scaling((7.0,), (0.0,)))
    assert table.whole().inputs.tolist() == [[0], [0], [0]]


@pytest.mark.parametrize(("size", "held"), [(60_000, 5_000), (50_000, 5_000), (49_990, 4_999), (1297, 129)])
def test_so_many_are_held_out(size, held):
    rest, held_out = ArrayData(torch.zeros(size, 1), torch.arange(size)).hold_out(seed=0)
    assert (len(rest), len(held_out)) == (size - held, held)
    assert torch.cat([rest.labels, held_out.labels]).sort().values.equal(torch.arange(size))


def test_what_is_held_out_follows_the_seed_and_is_not_augmented(data):
    augmented = ArrayData(data.inputs, data.labels, data.scaling, crop_and_flip)
    first, again, other = (augmented.hold_out(seed, 4)[1] for seed in (0, 0, 1))
    assert first.labels.equal(again.labels)
    assert not first.labels.equal(other.labels)
    assert first.augmentation is None
    assert augmented.hold_out(0, 4)[0].augmentation is crop_and_flip


def test_nothing_may_be_held_out_but_not_everything(data):
    assert len(data.hold_out(0, 0)[1]) == 0
    with pytest.raises(InputError, match="hold out 10 of 10"):
        data.hold_out(0, 10)


def test_a_few_can_be_taken_by_seed(data):
    assert len(data.take(3, seed=0)) == 3
    assert data.take(None, seed=0) is data
    assert data.take(10, seed=0) is data
    assert data.take(3, seed=0).labels.equal(data.take(3, seed=0).labels)


def test_it_is_a_data_set_of_torch_too(data):
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    batch = next(iter(loader))
    torch.testing.assert_close(batch[0], data.whole().inputs[:4])
    assert batch[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(IndexError):
        data[10]


def test_each_input_needs_a_label():
    with pytest.raises(ShapeError, match="2 inputs but 3 labels"):
        ArrayData(torch.zeros(2, 1), torch.zeros(3))


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
