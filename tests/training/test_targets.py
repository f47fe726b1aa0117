"""Mixed and smoothed labels, and lessons of a teacher, against closed forms and simulation.

Augmented batches against NumPy, and what a mixed batch is made of.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma
from torch import Tensor, nn

from totalcal import edl, etp, fit
from totalcal.baselines import Ensemble
from totalcal.errors import InputError
from totalcal.functional import dirichlet
from totalcal.models.process import TuringProcess
from totalcal.parts.heads import EvidentialHead, LinearEvidence, PointHead
from totalcal.scores.external import from_module
from totalcal.training.options import Augmentation, Distillation, Optimisation
from totalcal.training.targets import (
    Mixture,
    SoftTargets,
    augmented,
    cut_out,
    distance_to_teacher,
    fitted,
    jittered,
    mixup,
    shifted_and_flipped,
)
from totalcal.types import Dirichlet, PointMass, Predictive

Pair = tuple[Tensor, Tensor]
Make = Callable[..., TuringProcess]


@pytest.fixture
def evidential() -> EvidentialHead:
    torch.manual_seed(0)
    return EvidentialHead(LinearEvidence(3, 3), nn.Identity())


@pytest.fixture
def rows() -> tuple[Tensor, Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(2)
    return (
        torch.randn(6, 3, generator=drawn),
        torch.randn(6, 3, generator=drawn),
        torch.tensor([0, 1, 2, 0, 1, 2]),
    )


def test_a_mixed_loss_is_linear_in_the_shares(evidential: EvidentialHead, rows: tuple[Tensor, ...]) -> None:
    embedding, readout, labels = rows
    alpha = evidential.belief(embedding, readout).log_concentration.detach().double().exp().numpy()
    soft = 0.7 * np.eye(3)[labels.numpy()] + 0.3 * np.eye(3)[labels.flip(0).numpy()]
    expected = (digamma(alpha.sum(1)) - (soft * digamma(alpha)).sum(1)).mean()
    nll, local_kl = SoftTargets(Mixture(labels.flip(0), 0.3)).loss(evidential, *rows)
    assert nll.item() == pytest.approx(expected, rel=1e-6)
    assert float(local_kl) == pytest.approx(float(evidential.loss(*rows)[1]))


def test_smoothing_a_point_head_is_pytorchs_own(rows: tuple[Tensor, ...]) -> None:
    torch.manual_seed(0)
    head = PointHead(LinearEvidence(3, 3))
    embedding, readout, labels = rows
    nll, _ = SoftTargets(smoothing=0.1).loss(head, *rows)
    logits = head.belief(embedding, readout).logits
    expected = nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)
    assert nll.item() == pytest.approx(float(expected), rel=1e-6)


def test_smoothing_a_belief_takes_the_mean_over_all_labels(
    evidential: EvidentialHead, rows: tuple[Tensor, ...]
) -> None:
    embedding, readout, labels = rows
    alpha = evidential.belief(embedding, readout).log_concentration.detach().double().exp().numpy()
    soft = 0.9 * np.eye(3)[labels.numpy()] + 0.1 / 3
    expected = (digamma(alpha.sum(1)) - (soft * digamma(alpha)).sum(1)).mean()
    nll, _ = SoftTargets(smoothing=0.1).loss(evidential, *rows)
    assert nll.item() == pytest.approx(expected, rel=1e-6)


def test_a_squared_error_has_no_labels_to_smooth(quadrants: Pair) -> None:
    with pytest.raises(InputError, match="label_smoothing=0"):
        fit(edl(nn.Linear(2, 3), 3), quadrants, epochs=1, optimisation=Optimisation(label_smoothing=0.1))


def test_the_moments_of_draws_give_back_the_distribution_they_came_from() -> None:
    alpha = np.array([[2.0, 3.0, 5.0], [0.3, 0.2, 4.0]])
    draws = np.stack([np.random.default_rng(0).dirichlet(row, 200_000) for row in alpha], 1)
    found = fitted(Predictive(PointMass(torch.from_numpy(draws).log())))
    assert_allclose(found.exp(), alpha, rtol=0.02)


def test_a_teacher_of_one_belief_is_that_belief() -> None:
    log_alpha = torch.randn(1, 5, 4).double()
    assert_allclose(fitted(Predictive(Dirichlet(log_alpha))), log_alpha[0], rtol=1e-9, atol=1e-9)


def test_members_that_agree_give_much_evidence_and_those_that_do_not_little() -> None:
    agreeing = torch.tensor([[[4.0, 0.0]], [[4.0, 0.0]]])
    disputing = torch.tensor([[[4.0, 0.0]], [[0.0, 4.0]]])
    assert float(fitted(Predictive(PointMass(agreeing))).max()) == dirichlet.LOG_CONCENTRATION_LIMIT
    assert float(fitted(Predictive(PointMass(disputing))).exp().sum()) < 0.2


def test_a_student_is_closest_to_its_teacher_where_it_believes_the_same() -> None:
    teacher = torch.tensor([[0.5, 2.0, -1.0]]).double()
    student = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([student], max_iter=200, line_search_fn="strong_wolfe")

    def apart() -> Tensor:
        optimizer.zero_grad()
        distance = distance_to_teacher(Dirichlet(student), teacher).sum()
        distance.backward()
        return distance

    optimizer.step(apart)
    assert_allclose(student.detach(), teacher, atol=1e-4)


def test_a_sure_teacher_is_a_soft_label() -> None:
    """KL / β₀ tends to E[−Σ m log π] − H(m), whatever the student believes."""
    share, student = torch.tensor([[0.7, 0.2, 0.1]]).double(), torch.randn(1, 3).double()
    alpha = student.exp().numpy()
    cross = (share.numpy() * (digamma(alpha.sum()) - digamma(alpha))).sum()
    entropy = -(share * share.log()).sum()
    found = distance_to_teacher(Dirichlet(student), dirichlet.clamp(share.log() + 14.0))
    assert float(found) == pytest.approx(cross - float(entropy), rel=1e-3)


def test_a_point_student_learns_the_mean_alone() -> None:
    teacher, logits = torch.randn(4, 3), torch.randn(4, 3)
    expected = nn.functional.cross_entropy(logits, teacher.softmax(1), reduction="none")
    assert_allclose(distance_to_teacher(PointMass(logits), teacher), expected, rtol=1e-5)


def test_a_student_takes_over_mean_and_spread_of_an_ensemble(quadrants: Pair) -> None:
    torch.manual_seed(0)
    nets = [nn.Linear(2, 3) for _ in range(4)]
    teacher = Ensemble([from_module(net, "logits") for net in nets])
    student = etp(
        nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3)), 3, layers="none", cell_variance=0.0
    )
    fit(
        student,
        quadrants,
        epochs=150,
        batch_size=32,
        optimisation=Optimisation(learning_rate=0.01),
        teacher=teacher,
        distillation=Distillation(weight=1.0),
    )
    wanted, found = teacher.predict(quadrants[0]), student.predict(quadrants[0])
    assert_allclose(found.probabilities, wanted.probabilities, atol=0.12)
    evidence = torch.stack([found.concentration.log(), fitted(wanted).logsumexp(1)]).corrcoef()[0, 1]
    assert evidence > 0.8


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
    found, mixture = mixup(rows, labels, 0.4, drawn(3))
    assert sorted(mixture.labels.tolist()) == list(range(20))
    assert_allclose(
        found, (1 - mixture.share) * rows + mixture.share * rows[mixture.labels], rtol=1e-5, atol=1e-6
    )


def test_shares_are_those_of_a_folded_beta() -> None:
    shares = [mixup(torch.zeros(1, 1), torch.zeros(1), 2.0, drawn(seed))[1].share for seed in range(2000)]
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
        mixup(torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3), 1.0, drawn())


@pytest.mark.parametrize("wrong", [{"shifts": -1}, {"contrast": 1.5}, {"mixup": -0.1}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Augmentation(**wrong)
