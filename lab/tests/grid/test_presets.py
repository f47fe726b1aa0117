import pytest
import torch

import totalcal_lab.backbones  # noqa: F401 - it registers its nets
from totalcal.errors import UnknownNameError
from totalcal.nets import BACKBONES
from totalcal_lab.data import TASKS
from totalcal_lab.grid.presets import NAMES, PRESETS, preset

EVERY = [(task, name) for task in PRESETS for name in NAMES]
# appendix B.3: optimiser, learning rate, epochs
APPENDIX = {
    "fashion": ("adam", 1e-3, 50),
    "cifar10": ("adam", 1e-4, 100),
    "svhn": ("adam", 1e-4, 100),
    "imdb": ("sgd", 0.05, 20),
}


def test_every_task_has_a_preset_and_every_preset_a_task():
    assert set(PRESETS) == set(TASKS)


@pytest.mark.parametrize("task", APPENDIX)
def test_the_paper_presets_are_those_of_the_appendix(task):
    chosen = preset(task, "paper")
    optimisation = chosen.optimisation
    assert (optimisation.optimizer, optimisation.learning_rate, chosen.epochs) == APPENDIX[task]


def test_only_cifars_images_are_augmented():
    augmented = {task for task in PRESETS if preset(task).options.augmentation}
    assert augmented == {"cifar10", "cifar100"}


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_the_backbone_reads_what_the_task_gives(task, name):
    chosen = preset(task, name)
    network = BACKBONES[chosen.backbone](num_classes=TASKS[task].num_classes, **chosen.backbone_options)
    shape = (2, *TASKS[task].input_shape)
    inputs = torch.ones(shape, dtype=torch.int64) if TASKS[task].kind == "tokens" else torch.zeros(shape)
    assert network(inputs).shape == (2, TASKS[task].num_classes)


@pytest.mark.parametrize("name", ["laptop", "medium"])
@pytest.mark.parametrize("task", PRESETS)
def test_a_smaller_preset_says_that_it_is_reduced(task, name):
    assert not preset(task, "paper").reduced
    assert preset(task, name).reduced == (name in PRESETS[task])
    assert preset(task, name).epochs <= preset(task, "paper").epochs


def test_a_medium_preset_trains_for_longer_than_a_laptop_one():
    for task in ("cifar10", "svhn", "cifar100", "imdb"):
        assert preset(task, "medium").epochs > preset(task, "laptop").epochs


def test_a_medium_preset_leaves_every_model_its_defaults():
    """With an evidence map that begins at random, ETP on IMDB stayed at chance for four of six epochs."""
    for task in ("cifar10", "svhn", "cifar100", "imdb"):
        assert not preset(task, "medium").model_options


def test_unknown_names_are_answered():
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        preset("cifar-10")
    with pytest.raises(UnknownNameError, match="preset"):
        preset("cifar10", "cluster")
