"""The domain memory: sums that mind no order, distances by brute force, tails, a promise, new domains."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score
from torch import Tensor

from totalcal.errors import InputError
from totalcal.memory.distances import Tails
from totalcal.memory.domain import (
    DomainMemory,
    LayerMemory,
    NoDomain,
    Observation,
    Observed,
    Statistics,
    row_keys,
)
from totalcal.memory.features import Features, Tap
from totalcal.types import Dirichlet, Faded

CLASSES, WIDTH = 3, 6
TAPS = [Tap("early", "vector", WIDTH), Tap("last", "vector", WIDTH)]


def rows_of(seed: int, count: int, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    centres = 4 * torch.eye(CLASSES, WIDTH, dtype=torch.float64)
    noise = torch.randn(count, WIDTH, generator=generator, dtype=torch.float64)
    return centres[labels] + noise + shift, labels


def observed(rows: Tensor, labels: Tensor) -> Observed:
    features = {"early": Features(rows), "last": Features(rows.square())}
    return Observed(Observation(features, rows[:, 0].abs(), rows[:, :CLASSES]), labels, row_keys(rows))


def written(batches: Sequence[tuple[Tensor, Tensor]], **settings: Any) -> DomainMemory:
    memory = DomainMemory(TAPS, CLASSES, **settings).double()
    statistics = memory.statistics()
    for rows, labels in batches:
        memory.add(statistics, observed(rows, labels))
    memory.write(statistics)
    return memory


def remembered(train: int = 400, held_out: int = 400, **settings: Any) -> DomainMemory:
    memory = written([rows_of(0, train)], **settings)
    part = observed(*rows_of(1, held_out))
    memory.calibrate(memory.distances(part.observation)[:, -1], part.keys)
    return memory


def familiarity(memory: DomainMemory, rows: Tensor) -> Tensor:
    return memory.read(observed(rows, torch.zeros(len(rows), dtype=torch.int64)).observation).p_value


def test_keys_depend_on_the_content_of_a_row_alone() -> None:
    inputs = {"ids": torch.randint(9, (50, 4)), "mask": torch.rand(50, 4)}
    order = torch.randperm(50)
    turned = {name: part[order] for name, part in inputs.items()}
    assert torch.equal(row_keys(turned), row_keys(inputs)[order])
    assert len(row_keys(inputs).unique()) == 50
    assert (row_keys(inputs) >= 0).all()


def test_keys_spread_evenly_even_where_rows_are_alike() -> None:
    grid = torch.cartesian_prod(torch.arange(100.0), torch.arange(100.0))
    keys = row_keys(grid).double() / 2**63
    assert len(row_keys(grid).unique()) == len(grid)
    assert stats.kstest(keys.numpy(), "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(keys, grid[:, 0])[0, 1]) < 0.04


def test_sums_mind_neither_order_nor_batches() -> None:
    rows, labels = rows_of(3, 500)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(5))
    one = written([(rows, labels)], most_prototypes=10)
    other = written(
        list(zip(rows[order].split(37), labels[order].split(37), strict=True)), most_prototypes=10
    )
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=1e-9, atol=1e-9)


def test_a_row_that_comes_many_times_is_sampled_once() -> None:
    sums = Statistics.empty(2, 3, largest_sample=5)
    rows = torch.eye(3)
    for _ in range(4):
        sums.add(rows, torch.zeros(3, dtype=torch.int64), row_keys(rows))
    assert len(sums.sample) == 3
    assert sums.counts.tolist() == [12, 0]


def test_the_sample_is_of_the_smallest_keys_whatever_came_first() -> None:
    rows = torch.randn(200, 3)
    keys = row_keys(rows)
    sums = Statistics.empty(1, 3, largest_sample=20)
    for part, some in zip(rows.split(33), keys.split(33), strict=True):
        sums.add(part, torch.zeros(len(part), dtype=torch.int64), some)
    assert torch.equal(sums.sample, rows[keys.argsort()[:20]])


def test_distances_are_those_of_brute_force() -> None:
    rows, labels = rows_of(0, 300)
    memory = written([(rows, labels)], most_prototypes=12)
    new, _ = rows_of(7, 20, shift=1.0)
    found = memory.distances(observed(new, torch.zeros(20, dtype=torch.int64)).observation)
    assert found.shape == (20, 1, 6)
    for layer, (seen, asked) in enumerate([(rows, new), (rows.square(), new.square())]):
        seen_, asked_ = seen.numpy(), asked.numpy()
        means = np.stack([seen_[labels == c].mean(0) for c in range(CLASSES)])
        within = np.cov((seen_ - means[labels]).T, bias=True)
        total = np.cov(seen_.T, bias=True)
        ridge = 1e-3 * np.trace(within) / WIDTH * np.eye(WIDTH)
        inverses = [np.linalg.inv(covariance + ridge) for covariance in (within, total)]
        nearest = cdist(asked_, means, "mahalanobis", VI=inverses[0]).min(1) ** 2
        if layer == 1:
            nearest -= cdist(asked_, seen_.mean(0, keepdims=True), "mahalanobis", VI=inverses[1])[:, 0] ** 2
        units = asked_ / np.linalg.norm(asked_, axis=1, keepdims=True)
        np.testing.assert_allclose(
            found[:, 0, 2 * layer], cdist(units, memory.layers[layer].prototypes).min(1), rtol=1e-8
        )
        np.testing.assert_allclose(found[:, 0, 2 * layer + 1], nearest, rtol=1e-6)
    torch.testing.assert_close(found[:, 0, 4], new[:, 0].abs())
    np.testing.assert_allclose(found[:, 0, 5], -logsumexp(new[:, :CLASSES].numpy(), axis=1))


def test_a_domain_far_from_the_first_is_measured_as_exactly() -> None:
    """In float32: seen from the first domain, distances of about 6 would be differences of millions."""
    (rows, labels), (far, far_labels) = rows_of(0, 300), rows_of(6, 300, shift=1000.0)
    memory = written([(rows, labels)]).float()
    statistics = memory.statistics()
    memory.add(statistics, observed(far, far_labels))
    memory.write(statistics)
    found = memory.layers[0].distances(Features(far.float()), 300)[1][:, 1]
    within = np.cov(
        np.concatenate([rows[labels == c] - rows[labels == c].mean(0) for c in range(3)]).T, bias=True
    )
    inverse = np.linalg.inv(within + 1e-3 * np.trace(within) / WIDTH * np.eye(WIDTH))
    means = np.stack([far[far_labels == c].mean(0) for c in range(CLASSES)])
    exact = cdist(far, means, "mahalanobis", VI=inverse).min(1) ** 2
    np.testing.assert_allclose(found, exact, rtol=2e-3, atol=2e-3)


def test_tokens_are_measured_one_by_one_and_averaged() -> None:
    tap = [Tap("steps", "tokens", WIDTH)]
    memory, (tokens, labels) = DomainMemory(tap, CLASSES).double(), rows_of(0, 300)
    statistics = memory.statistics()
    owners = torch.arange(300) // 3  # three tokens per row
    part = Observed(
        Observation({"steps": Features(tokens, owners)}, torch.zeros(100), torch.zeros(100, 3)),
        labels[::3],
        torch.arange(100),
    )
    memory.add(statistics, part)
    assert statistics[0].counts.tolist() == torch.bincount(labels[::3].repeat_interleave(3)).tolist()
    memory.write(statistics)
    found = memory.distances(part.observation)
    alone = memory.layers[0].distances(Features(tokens), 300)
    torch.testing.assert_close(found[:, 0, 0], alone[0].reshape(100, 3).mean(1))
    torch.testing.assert_close(found[:, 0, 1], alone[1].reshape(100, 3).mean(1))


def test_familiarity_is_the_rank_of_a_statistic_in_two_stages_among_rows_that_made_no_tail() -> None:
    memory = written([rows_of(0, 300)])
    held_out = observed(*rows_of(1, 101))
    distances = memory.distances(held_out.observation)[:, -1]
    memory.calibrate(distances, held_out.keys)
    order = held_out.keys.argsort()
    seen, rest = distances[order[::2]], distances[order[1::2]]
    each = Tails.fitted(seen)

    def lowered(scores: Tensor, reference: Tensor) -> Tensor:
        """By what rounding may have added: a thousandth, and 3·10⁻⁶ of the spread."""
        ranks = [int(share * (len(reference) - 1)) for share in (0.05, 0.95)]
        low, high = reference.sort(0).values[ranks]
        return scores - 1e-3 * scores.abs() - 3e-6 * (high - low)

    def by_group(scores: Tensor) -> Tensor:
        p = each.log_p(lowered(scores, seen))
        # of the lower layer; of the last; of the prediction
        return torch.stack([-p[:, :2].sum(1), -p[:, 2:4].sum(1), -p[:, 4:].sum(1)], 1)

    groups = Tails.fitted(by_group(seen))

    def statistic(scores: Tensor) -> Tensor:
        return -groups.log_p(lowered(by_group(scores), by_group(seen))).sum(1)

    calibration = statistic(rest)
    assert memory.tail_rows == [51]
    assert len(memory.calibration) == 50
    new, labels = rows_of(2, 9, shift=0.7)
    asked = memory.distances(observed(new, labels).observation)[:, 0]
    found = lowered(statistic(asked), calibration)
    expected = [(1 + int((calibration >= t).sum())) / 51 for t in found]
    assert familiarity(memory, new).tolist() == pytest.approx(expected)


def test_many_layers_that_see_nothing_do_not_outvote_the_prediction() -> None:
    """An input between two classes, say: every layer finds it usual, and the prediction is unsure."""
    taps = [Tap(f"layer{index}", "vector", WIDTH) for index in range(12)]
    generator = torch.Generator().manual_seed(0)

    def pass_of(count: int, shift: float = 0.0) -> Observed:
        features = {tap.name: Features(torch.randn(count, WIDTH, generator=generator)) for tap in taps}
        unsure = torch.randn(count, generator=generator) + shift
        logits = torch.zeros(count, CLASSES) - unsure[:, None]
        return Observed(
            Observation(features, unsure, logits), torch.arange(count) % CLASSES, row_keys(logits)
        )

    memory = DomainMemory(taps, CLASSES)
    statistics = memory.statistics()
    memory.add(statistics, pass_of(500))
    memory.write(statistics)
    held_out = pass_of(2000)
    memory.calibrate(memory.distances(held_out.observation)[:, -1], held_out.keys)
    asked = [memory.read(pass_of(2000, shift).observation).statistic for shift in (0.0, 2.0)]
    auroc = roc_auc_score(np.repeat([0, 1], 2000), torch.cat(asked))
    assert auroc > 0.8  # the prediction alone has 0.92; in one stage, by its entropy, it would be 0.67


def test_the_promise_holds_over_many_memories_and_is_not_given_away() -> None:
    memory = written([rows_of(0, 300)])
    p = []
    for seed in range(400):
        part, twin = observed(*rows_of(10 + seed, 40)), copy.deepcopy(memory)
        twin.calibrate(twin.distances(part.observation)[:, -1], part.keys)
        p.append(familiarity(twin, rows_of(5000 + seed, 25)[0]).numpy())
    for level in (0.05, 0.1, 0.2, 0.5):
        share = (np.concatenate(p) <= level).mean()
        exact = np.floor(level * 21) / 21
        assert exact - 0.02 < share < level + 0.015


def test_rows_from_elsewhere_are_unfamiliar() -> None:
    memory = remembered()
    in_distribution, ood = rows_of(2, 500)[0], rows_of(3, 500, shift=4.0)[0]
    scores = np.concatenate([familiarity(memory, in_distribution), familiarity(memory, ood)])
    assert roc_auc_score(np.repeat([1, 0], 500), scores) > 0.98
    assert (familiarity(memory, 1e6 * ood) == 1 / 201).all()


def test_after_absorbing_rows_of_a_new_domain_those_are_familiar_and_all_else_is_as_it_was() -> None:
    memory = remembered()
    in_distribution, moved, elsewhere = (
        rows_of(2, 400)[0],
        rows_of(3, 400, shift=6.0)[0],
        rows_of(4, 400, shift=-9.0)[0],
    )
    before = {
        name: familiarity(memory, rows) for name, rows in {"in": in_distribution, "moved": moved}.items()
    }
    assert (before["moved"] <= 0.05).float().mean() > 0.99
    rows, labels = rows_of(6, 300, shift=6.0)
    memory.absorb(observed(*part) for part in zip(rows.split(50), labels.split(50), strict=True))
    assert memory.num_domains == 2
    for level in (0.05, 0.1, 0.2):  # the new rows are a quarter of the calibration: nearly exact by itself
        assert (familiarity(memory, moved) <= level).float().mean() < 2 * level
        assert (familiarity(memory, in_distribution) <= level).float().mean() < 1.5 * level
    assert (familiarity(memory, elsewhere) <= 0.05).float().mean() > 0.99


def test_a_statistic_falls_when_a_domain_is_added_never_rises() -> None:
    memory = remembered()
    rows = torch.cat([rows_of(2, 100)[0], rows_of(3, 100, shift=3.0)[0]])
    labels = torch.zeros(200, dtype=torch.int64)
    before = memory.read(observed(rows, labels).observation).statistic
    memory.absorb([observed(*rows_of(6, 200, shift=3.0))])
    assert (memory.read(observed(rows, labels).observation).statistic <= before + 1e-9).all()


def test_too_few_rows_change_nothing_and_say_so() -> None:
    memory = remembered()
    before = copy.deepcopy(memory.state_dict())
    with pytest.warns(UserWarning, match="40 rows"):
        memory.absorb([observed(*rows_of(6, 20))])
    assert memory.num_domains == 1
    assert all(torch.equal(before[name], value) for name, value in memory.state_dict().items())


def test_absorbing_minds_no_order() -> None:
    one, other = remembered(), remembered()
    rows, labels = rows_of(6, 200, shift=6.0)
    one.absorb([observed(rows, labels)])
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    other.absorb(observed(rows[some], labels[some]) for some in order.split(60))
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=1e-8, atol=1e-8)


def test_a_class_that_never_came_is_nobody_s_neighbour() -> None:
    rows, labels = rows_of(0, 300)
    memory = written([(rows[labels < 2], labels[labels < 2])])
    assert memory.layers[0].centre_counts == [2]
    assert memory.distances(observed(rows, labels).observation).isfinite().all()


def test_a_layer_that_never_changes_leaves_distances_finite() -> None:
    memory = DomainMemory(TAPS, CLASSES)  # in float32
    rows, labels = rows_of(0, 100)
    still = {tap.name: Features(torch.zeros(100, WIDTH)) for tap in TAPS}
    dead, statistics = Observation(still, rows[:, 0], rows), memory.statistics()
    memory.add(statistics, Observed(dead, labels, row_keys(rows)))
    memory.write(statistics)
    assert memory.distances(dead).isfinite().all()
    alive = {tap.name: Features(100 * rows.float()) for tap in TAPS}
    assert memory.distances(dead._replace(features=alive)).isfinite().all()


def test_wide_features_are_projected_and_still_tell_domains_apart() -> None:
    layer = LayerMemory(2000, is_last=True, widest=64)
    assert layer.within.shape == (64, 64)
    rows = torch.randn(50, 2000)
    lengths = layer.projected(rows).norm(dim=1) / rows.norm(dim=1)
    assert lengths.mean() == pytest.approx(1, abs=0.1)
    assert torch.equal(layer.projection, LayerMemory(2000, is_last=True, widest=64).projection)
    assert "projection" not in layer.state_dict()


def test_settings_and_tensors_make_the_memory_again() -> None:
    memory = remembered(fade=0.01)
    memory.absorb([observed(*rows_of(6, 200, shift=6.0))])
    twin = DomainMemory.from_settings(memory.settings()).double()
    twin.load_state_dict(memory.state_dict())
    rows = rows_of(2, 50, shift=2.0)[0]
    assert torch.equal(familiarity(twin, rows), familiarity(memory, rows))
    assert twin.settings() == memory.settings()


def test_nothing_of_it_is_learned_by_gradients() -> None:
    memory = remembered()
    assert not list(memory.parameters())
    assert all(not tensor.requires_grad for tensor in memory.buffers())


def test_fading_is_a_mixture_by_familiarity_and_off_by_default() -> None:
    belief = Dirichlet(torch.randn(4, 10, CLASSES))
    memory = remembered()
    reading = memory.read(observed(*rows_of(2, 10)).observation)
    assert memory.faded(belief, reading) is belief
    memory.fade = 0.01
    faded = memory.faded(belief, reading)
    assert isinstance(faded, Faded)
    familiar = reading.p_value > 0.06
    torch.testing.assert_close(faded.weight[familiar], (reading.p_value / (reading.p_value + 0.01))[familiar])
    far = memory.read(observed(1e3 * rows_of(2, 10)[0], torch.zeros(10, dtype=torch.int64)).observation)
    assert (memory.faded(belief, far).weight < 1e-6).all()  # though p itself ends at 1/201


def test_no_domain_reads_nothing_and_never_looks_at_rows() -> None:
    domain = NoDomain()
    assert domain.read(None) is None
    domain.absorb(iter(lambda: pytest.fail("rows were made for nothing"), None))
    assert not domain.state_dict()


def test_a_memory_without_layers_and_a_negative_fade_are_refused() -> None:
    with pytest.raises(InputError, match="at least one layer"):
        DomainMemory([], CLASSES)
    with pytest.raises(InputError, match="fade"):
        DomainMemory(TAPS, CLASSES, fade=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        remembered()
