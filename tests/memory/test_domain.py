"""The memory: distances by brute force, a rank by hand, promises by simulation, and what it learns."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score
from torch import Tensor

from totalcal.errors import DomainError, InputError, LabelError, UnknownNameError
from totalcal.memory.distances import Tails
from totalcal.memory.domain import Memorised, NoDomain
from totalcal.memory.domain_memory import DomainMemory
from totalcal.memory.features import Features, Tap
from totalcal.memory.rows import Observation, ObservedRows, Sample, row_keys
from totalcal.types import Belief, Dirichlet, Faded, Familiarity, PointMass, WithLearned

CLASSES, WIDTH = 3, 6
TAPS = [Tap("early", "vector", WIDTH), Tap("last", "vector", WIDTH)]


def rows_of(seed: int, count: int, shift: float = 0.0, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=generator)
    centres = 4 * torch.eye(WIDTH, dtype=torch.float64)[:classes]
    noise = torch.randn(count, WIDTH, generator=generator, dtype=torch.float64)
    return centres[labels] + noise + shift, labels


def class_rows(seed: int, count: int, label: int) -> tuple[Tensor, Tensor]:
    rows, _ = rows_of(seed, count, classes=1)
    rows[:, 0] -= 4
    rows[:, label] += 4
    return rows, torch.full((count,), label)


def observed(rows: Tensor, labels: Tensor) -> ObservedRows:
    features = {"early": Features(rows), "last": Features(rows.square())}
    return ObservedRows(Observation(features, rows[:, 0].abs(), rows[:, :CLASSES]), labels, row_keys(rows))


def written(batches: Sequence[tuple[Tensor, Tensor]], **settings: Any) -> DomainMemory:
    memory = DomainMemory(TAPS, CLASSES, **settings).double()
    sums = memory.writing()
    for rows, labels in batches:
        memory.add(sums, observed(rows, labels))
    memory.write(sums)
    return memory


def remembered(train: int = 400, held_out: int = 400, **settings: Any) -> DomainMemory:
    memory = written([rows_of(0, train)], **settings)
    memory.calibrate([observed(*rows_of(1, held_out))])
    return memory


def judged(memory: DomainMemory, rows: Tensor) -> tuple[Belief, Familiarity]:
    belief = PointMass(rows[None, :, :CLASSES])
    found, familiarity = memory.judge(
        belief, observed(rows, torch.zeros(len(rows), dtype=torch.int64)).observation
    )
    assert familiarity is not None
    return found, familiarity


def familiarity(memory: DomainMemory, rows: Tensor) -> Tensor:
    return judged(memory, rows)[1].p_value


def joint_by_hand(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions of both layers, and with the logarithms of their lengths behind them."""
    layers = [rows, rows**2]
    lengths = [np.linalg.norm(layer, axis=1, keepdims=True) for layer in layers]
    units = np.hstack([layer / length for layer, length in zip(layers, lengths, strict=True)])
    return units, np.hstack([units, *(np.log(length + 1e-6) for length in lengths)])


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64, torch.uint8])
def test_different_binary_rows_have_different_keys_in_every_precision(dtype) -> None:
    grid = torch.cartesian_prod(*[torch.arange(2)] * 14).to(dtype)
    assert len(row_keys(grid).unique()) == len(grid)


def test_the_sample_is_of_the_smallest_keys_whatever_came_first_and_each_row_counts_once() -> None:
    rows = torch.randn(200, 3)
    keys, labels = row_keys(rows), torch.arange(200)
    sample = Sample(20)
    for part in torch.arange(200).repeat(3).split(33):
        sample.add(keys[part], rows[part], labels[part])
    assert torch.equal(sample.sort_in().rows, rows[keys.argsort()[:20]])
    assert torch.equal(sample.labels, keys.argsort()[:20])


def test_a_memory_depends_on_neither_order_nor_batches() -> None:
    rows, labels = rows_of(3, 500)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(5))
    one = written([(rows, labels)], most_prototypes=10)
    parts = zip(rows[order].split(37), labels[order].split(37), strict=True)
    other = written(list(parts), most_prototypes=10)
    for memory in (one, other):
        memory.calibrate([observed(*rows_of(1, 200))])
    asked = rows_of(2, 50, shift=1.0)[0]
    for ours, theirs in zip(judged(one, asked)[1], judged(other, asked)[1], strict=True):
        assert_allclose(ours, theirs, rtol=1e-6)


def test_statistics_are_those_of_brute_force() -> None:
    rows, labels = rows_of(0, 300)
    memory = written([(rows, labels)])
    asked, _ = rows_of(7, 20, shift=1.0)
    found = memory.look(observed(asked, torch.zeros(20, dtype=torch.int64)).observation)[0]
    (_, seen), (asked_units, z) = joint_by_hand(rows.numpy()), joint_by_hand(asked.numpy())
    means = np.stack([seen[labels == c].mean(0) for c in range(CLASSES)])
    within = (
        sum(np.cov(seen[labels == c].T, bias=True) * (labels == c).sum().item() for c in range(CLASSES)) / 300
    )
    scale = np.sqrt(np.diag(within))
    from totalcal.memory.sums import Sums, metric

    sums = Sums.empty(CLASSES, seen.shape[1])
    sums.add(torch.tensor(seen), labels)
    blocks = torch.tensor([0] * 2 * WIDTH + [1, 2])
    ridge = metric(sums, blocks, torch.tensor(seen), labels).ridge * np.diag(scale**2)
    inverses = [np.linalg.inv(each + ridge) for each in (within, np.cov(seen.T, bias=True))]
    absolute = cdist(z, means, "mahalanobis", VI=inverses[0]).min(1) ** 2
    background = cdist(z, seen.mean(0, keepdims=True), "mahalanobis", VI=inverses[1])[:, 0] ** 2
    for place in range(2):  # each layer has prototypes of its own
        columns = slice(place * WIDTH, (place + 1) * WIDTH)
        nearest = cdist(asked_units[:, columns], memory.prototypes[:, columns]).min(1)
        assert_allclose(found[:, place], nearest, rtol=1e-8)
    assert_allclose(found[:, 2], absolute, rtol=1e-6)
    assert_allclose(found[:, 3], absolute - background, rtol=1e-6, atol=1e-6)
    assert_allclose(found[:, 4], asked[:, 0].abs())
    assert_allclose(found[:, 5], -logsumexp(asked[:, :CLASSES].numpy(), axis=1))


def test_distances_to_a_learned_centre_are_those_of_brute_force() -> None:
    memory = remembered()
    memory.memorise([observed(*class_rows(8, 30, CLASSES))], "new")
    asked = class_rows(9, 20, CLASSES)[0]
    found, u = memory.look(observed(asked, torch.zeros(20)).observation)
    beyond = (0, u.shape[1] - len(memory.spread))
    centres = torch.cat([torch.nn.functional.pad(memory.centres, beyond), memory.sets[0].centres])
    squares = cdist(u, centres).min(1) ** 2
    spread = torch.nn.functional.pad(memory.spread, beyond)
    assert (cdist(u, centres).argmin(1) == CLASSES).mean() > 0.9
    assert_allclose(found[:, 2], squares, rtol=1e-9)
    assert_allclose(found[:, 3], squares - (u.square() / (1 + spread)).sum(-1).numpy(), rtol=1e-7, atol=1e-7)


def test_tokens_are_measured_one_by_one_and_averaged() -> None:
    memory = DomainMemory([Tap("steps", "tokens", WIDTH)], CLASSES).double()
    tokens, labels = rows_of(0, 300)
    owners = torch.arange(300) // 3
    observation = Observation({"steps": Features(tokens, owners)}, torch.zeros(100), torch.zeros(100, 3))
    sums = memory.writing()
    memory.add(sums, ObservedRows(observation, labels[::3], torch.arange(100)))
    memory.write(sums)
    found = memory.look(observation)[0]
    units = tokens / tokens.norm(dim=1, keepdim=True)
    nearest = cdist(units, memory.tokens).min(1)
    assert_allclose(found[:, 1], nearest.reshape(100, 3).mean(1), atol=0.011)  # as near as rounding lets
    means = tokens.reshape(100, 3, WIDTH).mean(1)
    z = memory.joint(observation)
    assert_allclose(z[:, :WIDTH], means / means.norm(dim=1, keepdim=True), rtol=1e-9)


def test_a_sequence_of_strange_tokens_is_unfamiliar_however_typical_their_mean_is() -> None:
    def sequences(seed: int, count: int, spread: float) -> ObservedRows:
        rows, labels = rows_of(seed, count)
        apart = spread * torch.randn(count, 4, WIDTH, generator=torch.Generator().manual_seed(seed)).double()
        tokens = (rows[:, None] + apart - apart.mean(1, keepdim=True)).flatten(0, 1)
        seen = Observation(
            {"steps": Features(tokens, torch.arange(count).repeat_interleave(4))},
            rows[:, 0].abs(),
            rows[:, :CLASSES],
        )
        return ObservedRows(seen, labels, row_keys(rows))

    memory = DomainMemory([Tap("steps", "tokens", WIDTH)], CLASSES).double()
    sums = memory.writing()
    memory.add(sums, sequences(0, 300, 0.3))
    memory.write(sums)
    memory.calibrate([sequences(1, 300, 0.3)])
    own, strange = (
        memory.look(sequences(seed, 400, spread).observation)[0] for seed, spread in ((3, 0.3), (2, 5.0))
    )
    strange[:, [0, 2, 3, 4, 5]] = own[:, [0, 2, 3, 4, 5]]  # all but the tokens is as typical as it can be
    told = [own[:, 1], *memory.ranked(own).T[:2]], [strange[:, 1], *memory.ranked(strange).T[:2]]
    alone, one_number, far = (
        roc_auc_score(np.repeat([0, 1], 400), torch.cat(pair)) for pair in zip(*told, strict=True)
    )
    assert alone > 0.97
    assert one_number > alone - 0.08  # Fisher's sum, which five typical statistics dilute, had 0.86
    assert far > alone - 0.04


def test_familiarity_is_the_rank_of_a_statistic_in_two_stages_among_rows_that_made_no_tail() -> None:
    memory = written([rows_of(0, 300)])
    held_out = observed(*rows_of(1, 101))
    memory.calibrate([held_out])
    statistics = memory.look(held_out.observation)[0]
    order = held_out.keys.argsort()
    seen, rest = statistics[order[::2]], statistics[order[1::2]]

    def lowered(scores: Tensor, reference: Tensor) -> Tensor:
        """By what rounding may have added: a thousandth, and 3·10⁻⁶ of the spread."""
        ranks = [int(share * (len(reference) - 1)) for share in (0.05, 0.95)]
        low, high = reference.sort(0).values[ranks]
        return scores - 1e-3 * scores.abs() - 3e-6 * (high - low)

    def by_number(scores: Tensor) -> Tensor:
        p = Tails.fitted(seen).log_p(lowered(scores, seen)).exp().T
        layers, prediction = (p[0] * p[1]).sqrt(), (p[4] * p[5]).sqrt()  # agree, and count as one each
        return torch.stack([(1 / layers + 1 / p[2]).log(), -(p[3] * prediction).log()], 1)

    def statistic(scores: Tensor) -> Tensor:
        p = Tails.fitted(by_number(seen)).log_p(lowered(by_number(scores), by_number(seen))).exp()
        return (1 / p).sum(1).log()

    calibration = statistic(rest)
    new, _ = rows_of(2, 9, shift=0.7)
    asked = memory.look(observed(new, torch.zeros(9, dtype=torch.int64)).observation)[0]
    for found, ours, theirs in (
        (judged(memory, new)[1].p_value, statistic(asked), calibration),
        (judged(memory, new)[1].unlike_domain, by_number(asked)[:, 0], by_number(rest)[:, 0]),
        (judged(memory, new)[1].unlike_classes, by_number(asked)[:, 1], by_number(rest)[:, 1]),
    ):
        low = lowered(ours, theirs)
        assert found.tolist() == pytest.approx([(1 + int((theirs >= t).sum())) / 51 for t in low])


def test_the_promises_hold_over_many_memories_and_are_not_given_away() -> None:
    memory = written([rows_of(0, 300)])
    found = []
    for seed in range(400):
        twin = copy.deepcopy(memory)
        twin.calibrate([observed(*rows_of(10 + seed, 40))])
        said = judged(twin, rows_of(5000 + seed, 25)[0])[1]
        found.append(torch.stack([said.p_value, said.unlike_domain, said.unlike_classes]).numpy())
    for p in np.concatenate(found, axis=1):
        for level in (0.05, 0.1, 0.2, 0.5):
            exact = np.floor(level * 21) / 21
            assert exact - 0.02 < (p <= level).mean() < level + 0.015


def test_after_memorising_the_promise_stays_to_the_rows_of_training_and_is_made_to_those_of_the_name() -> (
    None
):
    memory = written([rows_of(0, 300)])
    p = {"training": [], "learned": [], "training, when it is forgotten": []}
    for seed in range(120):
        twin = copy.deepcopy(memory)
        twin.calibrate([observed(*rows_of(10 + seed, 80))])
        said = twin.memorise([observed(*class_rows(1000 + seed, 60, CLASSES))], "new")
        assert said.held_out == 24
        p["training"].append(familiarity(twin, rows_of(5000 + seed, 25)[0]).numpy())
        p["learned"].append(familiarity(twin, class_rows(9000 + seed, 25, CLASSES)[0]).numpy())
        twin.forget("new")
        again = familiarity(twin, rows_of(5000 + seed, 25)[0]).numpy()
        p["training, when it is forgotten"].append(again)
        assert (again <= p["training"][-1] + 1e-9).all()  # to know more can only make rows more familiar
    for kind, parts in p.items():
        for level in (0.05, 0.1, 0.2, 0.5):
            assert (np.concatenate(parts) <= level).mean() < level + 0.02, kind


def test_rows_from_elsewhere_are_unfamiliar_and_outliers_as_unfamiliar_as_can_be() -> None:
    memory = remembered()
    own, other = rows_of(2, 500)[0], rows_of(3, 500, shift=4.0)[0]
    scores = np.concatenate([familiarity(memory, own), familiarity(memory, other)])
    assert roc_auc_score(np.repeat([1, 0], 500), scores) > 0.96
    assert (familiarity(memory, -1e6 * other) == 1 / 201).all()


def test_a_class_is_learned_from_a_few_rows_and_the_answers_about_others_change_by_one_factor() -> None:
    memory = remembered()
    before, _ = judged(memory, rows_of(2, 200)[0])
    said = memory.memorise([observed(*class_rows(5, 30, CLASSES))], None)
    assert (said.new_classes, said.name, memory.num_learned) == ((CLASSES,), "class 3", 1)
    after, _ = judged(memory, rows_of(2, 200)[0])
    assert isinstance(after, WithLearned)
    ratio = after.mean[0, :, :CLASSES] / before.mean[0]
    assert_allclose(ratio, ratio[:, :1].expand(-1, CLASSES), rtol=1e-9)
    assert_allclose(after.mean.sum(-1), 1, rtol=1e-12)
    told = judged(memory, class_rows(6, 200, CLASSES)[0])[0].mean[0].argmax(-1)
    assert (told == CLASSES).double().mean() > 0.9
    assert (after.mean[0].argmax(-1) == CLASSES).double().mean() < 0.05


def test_what_is_forgotten_has_never_been() -> None:
    memory, rows = remembered(), rows_of(2, 60, shift=1.0)[0]
    asked = observed(rows, torch.zeros(60, dtype=torch.int64))
    first, second = observed(*class_rows(5, 60, 3)), observed(*class_rows(6, 30, 4))
    only = copy.deepcopy(memory)
    only.memorise([second._replace(labels=second.labels - 1)], "second")
    memory.memorise([first], "first")
    memory.memorise([second], "second")
    assert memory.forget("first") == (3,)
    assert memory.settings() == only.settings()
    for ours, theirs in zip(judged(memory, rows), judged(only, rows), strict=True):
        if isinstance(ours, WithLearned):
            assert_allclose(ours.mean, theirs.mean, rtol=1e-9)
        else:
            for one, other in zip(ours, theirs, strict=True):
                assert_allclose(one, other, rtol=1e-9)
    memory.forget("second")
    assert torch.equal(memory.look(asked.observation)[0], remembered().look(asked.observation)[0])
    with pytest.raises(UnknownNameError, match="second"):
        memory.forget("second")


def test_rows_of_known_classes_from_a_new_domain_become_familiar_and_all_else_stays_as_it_was() -> None:
    memory = remembered()
    own, moved, elsewhere = (rows_of(seed, 400, shift)[0] for seed, shift in ((2, 0.0), (3, 6.0), (4, -9.0)))
    assert (familiarity(memory, moved) <= 0.05).double().mean() > 0.98
    rows, labels = rows_of(6, 300, shift=6.0)
    parts = zip(rows.split(50), labels.split(50), strict=True)
    said = memory.memorise([observed(*part) for part in parts], "moved")
    assert (said.new_classes, memory.num_learned) == ((), 0)
    for level in (0.05, 0.1, 0.2):
        by_chance = 3 * math.sqrt(level * (1 - level) * (1 / 120 + 1 / 400))  # 120 rows carry the p-values
        assert (familiarity(memory, moved) <= level).double().mean() < level + by_chance
        assert (familiarity(memory, own) <= level).double().mean() < level + by_chance
    assert (familiarity(memory, elsewhere) <= 0.05).double().mean() > 0.99


def test_memorising_depends_on_neither_order_nor_batches() -> None:
    one, other = remembered(), remembered()
    rows, labels = class_rows(6, 200, CLASSES)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    one.memorise([observed(rows, labels)], "new")
    other.memorise([observed(rows[some], labels[some]) for some in order.split(60)], "new")
    asked = class_rows(7, 50, CLASSES)[0]
    assert_allclose(judged(one, asked)[0].mean, judged(other, asked)[0].mean, rtol=1e-7)
    assert_allclose(familiarity(one, asked), familiarity(other, asked))


def test_a_class_may_have_rows_under_two_names() -> None:
    memory = remembered()
    memory.memorise([observed(*class_rows(5, 10, CLASSES))], "first")
    memory.memorise([observed(*class_rows(6, 10, CLASSES))], "more")
    together = remembered()
    both = [torch.cat(parts) for parts in zip(class_rows(5, 10, 3), class_rows(6, 10, 3), strict=True)]
    together.memorise([observed(*both)], "all")
    asked = class_rows(7, 50, CLASSES)[0]
    assert_allclose(judged(memory, asked)[0].mean, judged(together, asked)[0].mean, rtol=1e-7)
    assert memory.forget("first") == ()
    assert memory.num_learned == 1


REFUSED = {
    "no rows": (list, "new", InputError, "no rows"),
    "one row": (lambda: [observed(*class_rows(5, 1, 3))], "new", InputError, "2 rows"),
    "a gap": (lambda: [observed(*class_rows(5, 20, 4))], "new", LabelError, "new ones are 3"),
    "a name that is taken": (lambda: [observed(*class_rows(5, 20, 3))], "taken", InputError, "forget"),
    "rows of a known class": (
        lambda: [observed(rows_of(5, 60, classes=1)[0], torch.full((60,), 3))],
        "new",
        InputError,
        "class 0",
    ),
    "rows that overflow": (
        lambda: [observed(1e200 * class_rows(5, 20, 3)[0], torch.full((20,), 3))],
        "new",
        InputError,
        "too large",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_memorised_is_refused_in_words_and_leaves_the_memory_as_it_was(case: str) -> None:
    rows, name, error, words = REFUSED[case]
    memory = remembered()
    memory.memorise([observed(*rows_of(6, 60, shift=6.0))], "taken")
    before, settings = copy.deepcopy(memory.state_dict()), memory.settings()
    with pytest.raises(error, match=words):
        memory.memorise(rows(), name)
    assert memory.settings() == settings
    assert all(torch.equal(before[key], value) for key, value in memory.state_dict().items())
    assert memory.num_learned == 0


def test_what_was_learned_says_what_is_promised_and_what_is_confused() -> None:
    words = str(Memorised("bags", 60, 24, (10,), {10: (8, 0.25)}))
    assert "bags: 60 rows, new classes 10" in words
    assert "25% of class 10" in words
    assert "a = 0.04 on" in words
    assert "nothing is promised" in str(Memorised("bags", 10, 0, (10,), {}))


def test_a_class_that_never_came_is_nobody_s_neighbour() -> None:
    rows, labels = rows_of(0, 300)
    memory = written([(rows[labels != 1], labels[labels != 1])])
    memory.calibrate([observed(*rows_of(1, 200))])
    assert memory.classes.tolist() == [0, 2]
    assert memory.look(observed(rows, labels).observation)[0].isfinite().all()
    memory.memorise([observed(*class_rows(5, 30, CLASSES))], "new")
    assert judged(memory, class_rows(6, 5, CLASSES)[0])[0].mean.shape == (1, 5, 4)


def test_a_layer_that_never_changes_leaves_distances_finite() -> None:
    memory = DomainMemory(TAPS, CLASSES)  # in float32
    rows, labels = rows_of(0, 100)
    still = {tap.name: Features(torch.zeros(100, WIDTH)) for tap in TAPS}
    dead, sums = Observation(still, rows[:, 0], rows), memory.writing()
    memory.add(sums, ObservedRows(dead, labels, row_keys(rows)))
    memory.write(sums)
    assert memory.look(dead)[0].isfinite().all()
    alive = {tap.name: Features(100 * rows.float()) for tap in TAPS}
    assert memory.look(dead._replace(features=alive))[0].isfinite().all()


def test_wide_features_are_projected_and_keep_their_lengths_and_their_scalars() -> None:
    memory = DomainMemory([Tap("wide", "vector", 2000), Tap("last", "vector", 10)], CLASSES, widest=64)
    assert (memory.width, memory.directions) == (64, 62)
    wide, last = torch.randn(500, 2000), torch.randn(500, 10)
    z = memory.joint(
        Observation({"wide": Features(wide), "last": Features(last)}, torch.zeros(500), torch.zeros(500, 3))
    )
    units = torch.nn.functional.normalize(wide, dim=1)
    cosines = [(rows @ rows.T)[0, 1:] for rows in (units[:, :2000], z[:, :52])]
    assert (cosines[0] - cosines[1]).square().mean().sqrt() == pytest.approx(52**-0.5, rel=0.2)
    assert_allclose(z[:, 52:62], torch.nn.functional.normalize(last, dim=1), rtol=1e-5)  # it fits
    assert_allclose(z[:, :52].norm(dim=1), 1, rtol=1e-5)
    assert_allclose(z[:, 62], wide.norm(dim=1).log(), rtol=1e-5)
    assert torch.equal(memory.projection, DomainMemory(memory.taps, CLASSES, widest=64).projection)
    assert "projection" not in memory.state_dict()


def test_a_table_s_inputs_have_prototypes_as_they_are_in_units_of_their_deviation() -> None:
    def seen(rows: Tensor) -> ObservedRows:
        features = {"inputs": Features(rows * 50 + 7), "last": Features(rows.clamp_min(0))}
        labels = torch.zeros(len(rows), dtype=torch.int64)
        return ObservedRows(Observation(features, rows[:, 0], rows[:, :CLASSES]), labels, row_keys(rows))

    memory = DomainMemory([Tap("inputs", "vector", WIDTH), Tap("last", "vector", WIDTH)], CLASSES).double()
    sums, (train, _), (test, _) = memory.writing(), rows_of(0, 300), rows_of(1, 200)
    memory.add(sums, seen(train))
    memory.write(sums)
    memory.calibrate([seen(test)])
    assert memory.width == 2 * WIDTH + 2

    def standardised(rows: np.ndarray) -> np.ndarray:
        return (rows - train.numpy().mean(0)) / train.numpy().std(0) / WIDTH**0.5

    asked = rows_of(2, 50)[0]
    found = memory.look(seen(asked).observation)[0][:, 1]  # behind the directions of the last layer
    assert_allclose(found, cdist(standardised(asked.numpy()), memory.prototypes[:, WIDTH:]).min(1), rtol=1e-8)
    larger = memory.look(seen(3 * asked).observation)[0][:, 1]
    assert (larger > found).double().mean() > 0.85  # a direction alone would not change
    twin = DomainMemory.from_state(memory.settings(), memory.state_dict())
    assert torch.equal(twin.look(seen(asked).observation)[0][:, 1], found)


def test_settings_and_tensors_make_the_memory_again_with_what_it_learned() -> None:
    memory = remembered(fade=0.01)
    memory.memorise([observed(*rows_of(6, 200, shift=6.0))], "moved")
    memory.memorise([observed(*class_rows(5, 30, CLASSES))], "new")
    twin = DomainMemory.from_state(memory.settings(), memory.state_dict())
    rows = rows_of(2, 50, shift=2.0)[0]
    assert torch.equal(familiarity(twin, rows), familiarity(memory, rows))
    assert torch.equal(judged(twin, rows)[0].mean, judged(memory, rows)[0].mean)
    assert twin.settings() == memory.settings()


@pytest.mark.parametrize("name", ["mean", "factor", "centres", "held_out", "sets.0.centres", "sets.0.kept"])
def test_tensors_that_do_not_belong_together_make_no_memory(name: str) -> None:
    memory = remembered()
    memory.memorise([observed(*class_rows(5, 30, CLASSES))], "new")
    state = {key: value.clone() for key, value in memory.state_dict().items()}
    state[name] = state[name][..., :-1]
    with pytest.raises(ValueError, match="shape"):
        DomainMemory.from_state(memory.settings(), state)


def test_nothing_of_it_is_learned_by_gradients() -> None:
    memory = remembered()
    assert not list(memory.parameters())
    assert all(not tensor.requires_grad for tensor in memory.buffers())


def test_fading_is_a_mixture_by_familiarity_and_off_by_default() -> None:
    belief, memory = Dirichlet(torch.randn(4, 10, CLASSES)), remembered()
    rows = rows_of(2, 10)[0]
    observation = observed(rows, torch.zeros(10, dtype=torch.int64)).observation
    assert memory.judge(belief, observation)[0] is belief
    memory.fade = 0.01
    faded, said = memory.judge(belief, observation)
    assert isinstance(faded, Faded)
    assert said is not None
    familiar = said.p_value > 0.06
    torch.testing.assert_close(faded.weight[familiar], (said.p_value / (said.p_value + 0.01))[familiar])
    far, _ = memory.judge(belief, observed(-1e3 * rows, torch.zeros(10, dtype=torch.int64)).observation)
    assert isinstance(far, Faded)
    assert (far.weight < 1e-6).all()  # though p itself ends at 1/201


def test_no_domain_judges_nothing_and_learns_nothing() -> None:
    domain, belief = NoDomain(), PointMass(torch.zeros(1, 1, 3))
    assert domain.judge(belief, None) == (belief, None)
    assert not domain.state_dict()
    for refused in (lambda: domain.memorise([], None), lambda: domain.forget("name")):
        with pytest.raises(DomainError, match="remember"):
            refused()


def test_a_memory_without_layers_and_a_negative_fade_are_refused() -> None:
    with pytest.raises(InputError, match="at least one layer"):
        DomainMemory([], CLASSES)
    with pytest.raises(InputError, match="fade"):
        DomainMemory(TAPS, CLASSES, fade=-1)


def test_features_whose_squares_exceed_float32_keep_their_direction_and_their_length() -> None:
    memory, rows = DomainMemory(TAPS, CLASSES), rows_of(0, 20)[0].float()
    z = [
        memory.joint(
            Observation(
                {tap.name: Features(scale * rows) for tap in TAPS}, torch.zeros(20), torch.zeros(20, 3)
            )
        )
        for scale in (1.0, 1e25)
    ]
    assert_allclose(z[1][:, : memory.directions], z[0][:, : memory.directions], rtol=1e-5, atol=1e-6)
    assert_allclose(z[1][:, memory.directions :] - z[0][:, memory.directions :], 25 * np.log(10), rtol=1e-4)
