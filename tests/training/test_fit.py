"""What `fit` promises: it learns, it repeats, it resumes, it stops when it should."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from totalcal import MODELS, etp, fit, softmax
from totalcal.calibration.calibrator import NoCalibrator, TemperatureAndBias
from totalcal.errors import CheckpointError, DivergenceError, InputError
from totalcal.models.process import TuringProcess
from totalcal.training.checkpoint import load_checkpoint
from totalcal.training.options import Augmentation, Contexts, Hardware, Optimisation

from .conftest import StopAt, same

Pair = tuple[Tensor, Tensor]
Make = Callable[..., TuringProcess]
FAST = Optimisation(learning_rate=0.03)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns(name: str, quadrants: Pair) -> None:
    torch.manual_seed(0)
    model = MODELS[name](nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3)), 3)
    history = fit(model, quadrants, epochs=8, batch_size=32, optimisation=FAST)
    assert history.epochs[-1].expected_nll < history.epochs[0].expected_nll


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(quadrants: Pair, make_etp: Make) -> None:
    first, second, third = make_etp(), make_etp(), make_etp()
    fit(first, quadrants, epochs=2, seed=5)
    torch.manual_seed(99)  # what the global generators did before does not matter
    fit(second, quadrants, epochs=2, seed=5)
    fit(third, quadrants, epochs=2, seed=6)
    assert same(first, second)
    assert not same(first, third)


def test_the_callers_generator_is_left_alone(quadrants: Pair, make_etp: Make) -> None:
    model = make_etp()
    before = torch.get_rng_state()
    fit(model, quadrants, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


def shuffling_loader(*pair: Tensor) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(*pair), 32, shuffle=True)


def loader_with_a_generator(*pair: Tensor) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(*pair), 32, shuffle=True, generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize("as_data", [TensorDataset, shuffling_loader, loader_with_a_generator])
def test_data_sets_and_loaders_resume_in_the_middle_of_an_epoch(
    as_data: Callable[..., object], quadrants: Pair, make_etp: Make, tmp_path: Path
) -> None:
    settings = {"epochs": 2, "batch_size": 32, "checkpoint_steps": 1}
    calm, stopped = make_etp(), make_etp()
    fit(calm, as_data(*quadrants), checkpoints=tmp_path / "calm", **settings)
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, as_data(*quadrants), checkpoints=tmp_path / "run", callbacks=[StopAt(1, 1)], **settings)
    resumed = make_etp(seed=1)
    fit(resumed, as_data(*quadrants), checkpoints=tmp_path / "run", **settings)
    assert same(resumed, calm)


def test_a_finished_run_is_not_trained_again(quadrants: Pair, make_etp: Make, tmp_path: Path) -> None:
    first, again, loaded = make_etp(), make_etp(seed=1), make_etp(seed=2)
    history = fit(first, quadrants, epochs=2, checkpoints=tmp_path)
    assert fit(again, quadrants, epochs=2, checkpoints=tmp_path, callbacks=[StopAt(0, 0)]) == history
    loaded.load_state_dict(load_checkpoint(tmp_path).model)
    assert same(first, again)
    assert same(first, loaded)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"epochs": 3}, "epochs was 2, now 3"),
        ({"optimisation": FAST}, "learning_rate was 0.001, now 0.03"),
        ({"contexts": Contexts(write="after")}, "write was before, now after"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(
    changed: dict[str, object], named: str, quadrants: Pair, make_etp: Make, tmp_path: Path
) -> None:
    fit(make_etp(), quadrants, epochs=2, checkpoints=tmp_path)
    with pytest.raises(CheckpointError, match=named):
        fit(make_etp(), quadrants, checkpoints=tmp_path, **({"epochs": 2} | changed))


def test_a_checkpoint_of_another_model_or_other_data_is_refused(
    quadrants: Pair, make_etp: Make, tmp_path: Path
) -> None:
    fit(make_etp(), quadrants, epochs=1, checkpoints=tmp_path)
    with pytest.raises(CheckpointError, match=r"retention=0\.99.*retention=0\.9"):
        fit(make_etp(retention=0.9), quadrants, epochs=1, checkpoints=tmp_path)
    with pytest.raises(CheckpointError, match="data was"):
        fit(make_etp(), (2 * quadrants[0], quadrants[1]), epochs=1, checkpoints=tmp_path)


def test_early_stopping_ends_with_the_best_epoch(quadrants: Pair, make_etp: Make, tmp_path: Path) -> None:
    inputs, labels = quadrants
    wrong = (inputs[:32], (labels[:32] + 1) % 3)  # the more is learnt, the worse it gets
    model, best = make_etp(), make_etp(seed=1)
    history = fit(
        model, quadrants, epochs=20, optimisation=FAST, validation=wrong, patience=3, checkpoints=tmp_path
    )
    assert history.best_epoch == 0
    assert len(history.epochs) == 4
    best.load_state_dict(load_checkpoint(tmp_path, "best").model)
    assert same(model, best)


def test_validation_does_not_change_the_training(quadrants: Pair, make_etp: Make) -> None:
    alone, judged = make_etp(), make_etp()
    fit(alone, quadrants, epochs=2)
    history = fit(judged, quadrants, epochs=2, validation=quadrants)
    assert same(alone, judged)
    assert all(report.validation_nll is not None for report in history.epochs)


def test_the_validation_nll_is_that_of_the_prediction(quadrants: Pair) -> None:
    model = softmax(nn.Linear(2, 3), 3)
    history = fit(model, quadrants, epochs=1, validation=quadrants)
    truth = nn.functional.cross_entropy(model.backbone(quadrants[0]), quadrants[1]).detach()
    assert history.epochs[0].validation_nll == pytest.approx(float(truth), rel=1e-6)


def overfitted(rows: int, seed: int) -> Pair:
    """Two classes that overlap, of which a net of these few training rows becomes too sure."""
    noise = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (rows,), generator=noise)
    return torch.randn(rows, 6, generator=noise) + labels[:, None], labels


@pytest.mark.parametrize("name", ["softmax", "bnn", "anp"])
def test_validation_data_calibrates_the_model_that_training_leaves(name: str) -> None:
    (test, truth), nlls = overfitted(2000, 2), []
    for calibrate in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 2))
        model = MODELS[name](net, 2)
        rows = overfitted(60, 0)
        fit(model, rows, epochs=60, optimisation=FAST, validation=overfitted(300, 1), calibrate=calibrate)
        context = rows if name == "anp" else None
        probabilities = model.predict(test, context=context).probabilities
        nlls.append(float(nn.functional.nll_loss(probabilities.log(), truth)))
    assert nlls[0] < nlls[1]


def test_a_second_fit_begins_without_the_calibrator_of_the_first(quadrants: Pair, make_etp: Make) -> None:
    model = make_etp()
    model.calibrator = TemperatureAndBias(3)
    fit(model, quadrants, epochs=1)
    assert isinstance(model.calibrator, NoCalibrator)


def test_a_model_that_needs_a_context_is_validated_with_one(quadrants: Pair) -> None:
    history = fit(MODELS["anp"](nn.Linear(2, 3), 3), quadrants, epochs=1, validation=quadrants)
    assert history.epochs[0].validation_nll is not None


def test_a_frozen_backbone_stays_and_the_rest_learns(quadrants: Pair, make_etp: Make, tmp_path: Path) -> None:
    model, start, loaded = make_etp(layers="none"), make_etp(layers="none"), make_etp(seed=1, layers="none")
    fit(model, quadrants, epochs=2, freeze_backbone=True, validation=quadrants, checkpoints=tmp_path)
    assert same(model.backbone, start.backbone)
    assert not same(model.head, start.head)
    assert not same(model.latent, start.latent)
    loaded.load_state_dict(load_checkpoint(tmp_path).model)
    assert same(loaded, model)


def test_a_backbone_that_draws_its_weights_cannot_be_frozen(quadrants: Pair, make_etp: Make) -> None:
    with pytest.raises(InputError, match='layers="none"'):
        fit(make_etp(), quadrants, epochs=1, freeze_backbone=True)


def test_a_loss_that_is_not_finite_names_step_term_and_cause(quadrants: Pair) -> None:
    torch.manual_seed(0)
    model = softmax(nn.Linear(2, 3), 3)
    with pytest.raises(DivergenceError, match=r"epoch 0, step 4: .*expected_nll.*\n.*1e\+38"):
        fit(model, quadrants, epochs=2, batch_size=8, optimisation=Optimisation("sgd", learning_rate=1e38))


def test_the_memory_may_be_written_after_the_loss(quadrants: Pair) -> None:
    """Both orders write the same in a first step, but only one of them reads what it wrote."""
    losses = {}
    for write in ("before", "after"):
        torch.manual_seed(0)
        model = etp(nn.Linear(2, 3), 3, cell_variance=0.0)
        history = fit(model, quadrants, epochs=1, batch_size=96, contexts=Contexts(write=write))
        losses[write] = history.epochs[0].loss, model.latent.cells.clone()
    assert losses["before"][0] != losses["after"][0]
    assert torch.equal(losses["before"][1], losses["after"][1])


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"epochs": 1, "batch_size": 0}, {"epochs": 1, "patience": 2}]
)
def test_settings_that_make_no_sense_are_refused(
    wrong: dict[str, int], quadrants: Pair, make_etp: Make
) -> None:
    with pytest.raises(InputError):
        fit(make_etp(), quadrants, **wrong)


def test_a_frozen_backbone_leaves_nothing_to_augment_or_to_teach(quadrants: Pair, make_etp: Make) -> None:
    for given in ({"augmentation": Augmentation(shifts=1)}, {"teacher": make_etp()}):
        with pytest.raises(InputError, match="frozen backbone"):
            fit(make_etp(layers="none"), quadrants, epochs=1, freeze_backbone=True, **given)


@pytest.mark.parametrize(
    "recipe",
    [
        {"optimisation": Optimisation("adamw", schedule="one_cycle", average=0.9)},
        {"optimisation": Optimisation(warmup=1.5, weight_decay=0.1)},
        {"augmentation": Augmentation(shifts=1, flips=True, cutout=2, brightness=0.2, contrast=0.2)},
        {"augmentation": Augmentation(mixup=0.3), "optimisation": Optimisation(label_smoothing=0.1)},
        {"teacher": True},
    ],
    ids=["averaged", "warm-up", "augmented", "mixed", "taught"],
)
def test_every_way_to_train_is_resumed_in_the_middle_of_an_epoch(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    images = torch.randn(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    data = images, (images.mean((1, 2, 3)) > 0).long()

    def make(seed: int = 0) -> TuringProcess:
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 2)
        )
        return etp(net, 2)

    if recipe.get("teacher"):
        recipe = {"teacher": make(seed=7)}
    settings = {"epochs": 3, "batch_size": 16, "checkpoint_steps": 1, **recipe}
    calm, stopped, resumed = make(), make(), make(seed=1)
    history = fit(calm, data, checkpoints=tmp_path / "calm", **settings)
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, data, checkpoints=tmp_path / "run", callbacks=[StopAt(1, 2)], **settings)
    assert fit(resumed, data, checkpoints=tmp_path / "run", **settings).epochs == history.epochs
    assert same(resumed, calm)
    again = make(seed=2)
    fit(again, data, checkpoints=tmp_path / "run", callbacks=[StopAt(0, 0)], **settings)
    assert same(again, calm)


def test_a_checkpoint_of_another_teacher_is_refused(quadrants: Pair, make_etp: Make, tmp_path: Path) -> None:
    fit(make_etp(), quadrants, epochs=1, teacher=make_etp(seed=1), checkpoints=tmp_path)
    with pytest.raises(CheckpointError, match="teacher was"):
        fit(make_etp(), quadrants, epochs=1, teacher=make_etp(seed=2), checkpoints=tmp_path)
    with pytest.raises(CheckpointError, match="distillation was"):
        fit(make_etp(), quadrants, epochs=1, checkpoints=tmp_path)


def test_a_layer_whose_gradients_channels_last_ruins_is_trained_in_the_default_layout() -> None:
    layouts: list[bool] = []
    net = nn.Sequential(nn.Conv2d(5, 8, 1, stride=2), nn.Flatten(), nn.Linear(8 * 16, 3))
    net[0].register_forward_pre_hook(lambda _, inputs: layouts.append(inputs[0].is_contiguous()))
    images, labels = torch.randn(64, 5, 8, 8), torch.arange(64) % 3
    fit(softmax(net, 3), (images, labels), epochs=1, augmentation=Augmentation(shifts=1), progress=False)
    assert layouts
    assert all(layouts)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
def test_a_device_that_is_not_there_is_refused_in_words(quadrants: Pair, make_etp: Make) -> None:
    with pytest.raises(InputError, match=r"cuda.*accelerator=.cpu"):
        fit(make_etp(), quadrants, epochs=1, hardware=Hardware(accelerator="cuda"))
