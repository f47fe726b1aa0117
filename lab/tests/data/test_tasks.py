from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage.measure import block_reduce

from totalcal.errors import InputError, UnknownNameError
from totalcal_lab.data import TASKS, TaskOptions, task, tasks
from totalcal_lab.data.arrays import Scaling
from totalcal_lab.data.cache import Statistics
from totalcal_lab.data.description import Arrays
from totalcal_lab.data.tasks import RESIZINGS, block_mean, centre_crop, subsample

# Table 2 of the paper, and for SVHN appendix B.3 as well
PAPER_FIRST = {
    "fashion": "mnist",
    "cifar10": "svhn",
    "svhn": "cifar-100",
    "cifar100": "tiny-imagenet-mean",
    "imdb": "random-tokens",
}
EMBEDDED = ("digits", "iris", "gaussians")


def test_letters_are_drawn_once_per_process_and_nobody_can_change_those_of_others(monkeypatch):
    first = TASKS["digits"].panel[0].make(None)
    kept = first.copy()
    first[:] = 0
    monkeypatch.setattr(tasks, "letters", None)
    assert np.array_equal(TASKS["digits"].panel[0].make(None), kept)


@pytest.mark.parametrize(("name", "first"), PAPER_FIRST.items())
def test_a_panel_begins_with_the_papers_own_set(name, first):
    assert TASKS[name].panel[0].name == first


def test_svhn_has_both_sets_that_the_paper_names():
    assert [member.name for member in TASKS["svhn"].panel] == ["cifar-100", "cifar-10"]


def test_tiny_imagenet_comes_in_three_sizes_side_by_side():
    names = [member.name for member in TASKS["cifar100"].panel]
    assert names[:3] == ["tiny-imagenet-mean", "tiny-imagenet-subsample", "tiny-imagenet-crop"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_tasks_load_without_a_file(name):
    data = TASKS[name].load(seed=0)
    assert next(data.train.batches(2)).inputs.shape == (2, *TASKS[name].input_shape)
    assert set(data.ood) == {member.name for member in TASKS[name].panel}
    for part in (data.train, data.held_out, data.test):
        assert 0 <= part.labels.min() <= part.labels.max() < TASKS[name].num_classes


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_training_split_is_scaled_to_mean_0_and_deviation_1(name):
    data = TASKS[name].load(seed=0, options=TaskOptions(held_out=0))
    whole = data.train.whole().inputs
    axes = (0, 2, 3) if whole.ndim == 4 else (0,)
    torch.testing.assert_close(whole.mean(axes), torch.zeros(whole.shape[1]), atol=1e-4, rtol=0)
    torch.testing.assert_close(whole.std(axes, correction=0), torch.ones(whole.shape[1]), atol=1e-4, rtol=0)


def test_ood_inputs_are_scaled_as_the_training_set_and_belong_to_no_class():
    data = TASKS["digits"].load()
    assert data.ood["letters"].scaling == data.train.scaling
    assert (data.ood["letters"].labels == -1).all()


def test_the_seed_decides_what_is_held_out_and_nothing_else():
    first, second = (TASKS["digits"].load(seed) for seed in (0, 1))
    assert not first.held_out.labels.equal(second.held_out.labels)
    assert first.test.inputs.equal(second.test.inputs)
    assert first.ood["letters"].inputs.equal(second.ood["letters"].inputs)


def test_limits_thin_out_and_a_thinned_test_set_is_the_same_for_every_seed():
    options = TaskOptions(held_out=100, train_limit=200, test_limit=50, ood_limit=20)
    first, second = (TASKS["digits"].load(seed, options=options) for seed in (0, 1))
    assert [len(part) for part in (first.train, first.held_out, first.test, first.ood["letters"])] == [
        200,
        100,
        50,
        20,
    ]
    assert first.test.inputs.equal(second.test.inputs)
    assert not first.train.inputs.equal(second.train.inputs)


def test_only_the_training_set_is_augmented():
    data = TASKS["digits"].load(options=TaskOptions(augmentation="crop-and-flip"))
    assert data.train.augmentation is not None
    assert {part.augmentation for part in (data.held_out, data.test, *data.ood.values())} == {None}


def test_another_scaling_can_be_asked_for():
    data = TASKS["digits"].load(options=TaskOptions(scaling=Scaling((0.5,), (0.5,))))
    inputs = data.train.whole().inputs
    torch.testing.assert_close(torch.stack([inputs.min(), inputs.max()]), torch.tensor([-1.0, 1.0]))


def test_iris_is_shown_in_its_principal_plane():
    from sklearn.decomposition import PCA

    from totalcal_lab.data import load_set

    plane = PCA(2).fit(load_set("iris", "train").inputs)
    data = replace(TASKS["iris"].load().test, scaling=None)
    np.testing.assert_allclose(
        data.whole().inputs, plane.transform(load_set("iris", "test").inputs), atol=1e-5
    )


def test_texts_are_shortened_for_all_sets_alike(monkeypatch):
    def tiny(name, split="test", data_dir=None):
        return Arrays(np.arange(200).reshape(20, 10), np.arange(20) % 2)

    for module in ("tasks", "domain"):
        monkeypatch.setattr(f"totalcal_lab.data.{module}.load_set", tiny)
    monkeypatch.setattr(
        "totalcal_lab.data.domain.load_with_statistics", lambda *_: (tiny("imdb"), Statistics((), ()))
    )
    data = TASKS["imdb"].load(options=TaskOptions(max_length=4))
    for part in (data.train, data.held_out, data.test, *data.ood.values()):
        assert part.whole().inputs.shape[1] == 4


def test_a_part_of_the_panel_can_be_asked_for():
    assert TASKS["digits"].load(options=TaskOptions(panel=())).ood == {}
    with pytest.raises(UnknownNameError, match="OOD set of digits"):
        TASKS["digits"].members(("mnist",))


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        task("cifar-10")


SYNTHETIC = ("uniform-noise", "constant", "inverted", "shuffled-pixels", "rotated-90", "upside-down")


def test_any_image_task_takes_synthetic_sets_beside_its_own():
    data = TASKS["digits"].load(options=TaskOptions(panel=("letters", *SYNTHETIC), ood_limit=100))
    assert list(data.ood) == ["letters", *SYNTHETIC]
    for rows in data.ood.values():
        assert next(rows.batches(2)).inputs.shape == (2, 1, 8, 8)
        assert rows.scaling == data.train.scaling
        assert (rows.labels == -1).all()


def test_a_table_has_no_synthetic_sets():
    with pytest.raises(UnknownNameError, match="OOD set of iris"):
        TASKS["iris"].members(("inverted",))


def test_the_default_panel_is_as_it_was():
    assert [member.name for member in TASKS["fashion"].members()] == ["mnist", "kmnist", "letters"]


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_digits_are_an_ood_set_of_colour_images_for_who_names_them(name, monkeypatch):
    digits = np.random.default_rng(0).integers(256, size=(3, 28, 28), dtype=np.uint8)
    monkeypatch.setattr(
        "totalcal_lab.data.tasks.load_set", lambda *_: Arrays(digits, np.zeros(3, dtype=np.int64))
    )
    assert "mnist" not in [member.name for member in TASKS[name].members()]
    (member,) = TASKS[name].members(("mnist",))
    images = member.make(None)
    assert images.shape == (3, 32, 32, 3)
    assert (images[:, 2:-2, 2:-2] == digits[..., None]).all()
    assert images.sum() == 3 * digits.astype(int).sum()


def test_classes_left_out_are_trained_on_nowhere_and_become_an_ood_set():
    from totalcal_lab.data import load_set

    options = TaskOptions(left_out=("3", 7))
    data = TASKS["digits"].load(options=options)
    images, labels = load_set("digits", "test")
    left_out = np.isin(labels, (3, 7))
    assert data.ood["left-out"].inputs.squeeze(-1).numpy().tolist() == images[left_out].tolist()
    kept = [label for label in range(10) if label not in (3, 7)]
    assert data.test.labels.tolist() == [kept.index(label) for label in labels[~left_out]]
    assert TASKS["digits"].classes(options.left_out) == tuple(map(str, kept))
    for part in (data.train, data.held_out, data.test):
        assert set(part.labels.tolist()) == set(range(8))
    train = load_set("digits", "train")
    rows = ~np.isin(train.labels, (3, 7))
    assert len(data.train) + len(data.held_out) == rows.sum()
    assert data.train.scaling.mean[0] == pytest.approx(train.inputs[rows].mean() / 255)


def test_synthetic_sets_are_made_of_the_classes_that_stay():
    options = TaskOptions(left_out=(3, 7), panel=("left-out", "inverted"))
    data = TASKS["digits"].load(options=options)
    assert len(data.ood["inverted"]) == len(data.test) < 500 == len(data.test) + len(data.ood["left-out"])


@pytest.mark.parametrize("left_out", [("12",), (10,), ("shoe",), (-1,), (1.0,)])
def test_a_class_that_is_none_cannot_be_left_out(left_out):
    with pytest.raises(UnknownNameError, match="class of digits"):
        TASKS["digits"].load(options=TaskOptions(left_out=left_out))


def test_at_least_two_classes_stay():
    with pytest.raises(InputError, match="at least two"):
        TASKS["iris"].load(options=TaskOptions(left_out=("setosa", "virginica")))


@pytest.mark.parametrize("name", ["held_out", "train_limit", "test_limit", "ood_limit", "max_length"])
@pytest.mark.parametrize("limit", [-1, 2.5, True, "many", [10]])
def test_a_limit_that_is_no_number_of_rows_is_refused(name, limit):
    with pytest.raises(InputError, match=name):
        TaskOptions(**{name: limit})


@pytest.mark.parametrize(
    "wrong",
    [
        {"augmentation": ["crop-and-flip"]},
        {"panel": "letters"},
        {"panel": [1]},
        {"left_out": "setosa"},
        {"left_out": 3},
    ],
)
def test_names_that_are_none_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(InputError, match=f"{name} is a .*, not"):
        TaskOptions(**wrong)


@pytest.fixture
def images(draw):
    return draw.integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize("way", RESIZINGS)
def test_every_way_halves_the_sides(images, way):
    resized = RESIZINGS[way](images)
    assert resized.shape == (3, 32, 32, 3)
    assert resized.dtype == np.uint8
    assert resized.flags.c_contiguous


def test_the_block_mean_is_that_of_scikit_image_rounded(images):
    expected = np.floor(block_reduce(images.astype(float), (1, 2, 2, 1), np.mean) + 0.5)
    np.testing.assert_array_equal(block_mean(images), expected)


def test_subsampling_keeps_pixels_and_the_crop_keeps_the_middle(images):
    assert (subsample(images)[:, 3, 5] == images[:, 6, 10]).all()
    assert (centre_crop(images)[:, 0, 0] == images[:, 16, 16]).all()
    assert (centre_crop(images)[:, -1, -1] == images[:, 47, 47]).all()
