"""The slot for the domain: how familiar is an input? (docs/domain.md)"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, distributed, nn

from totalcal.errors import InputError
from totalcal.inputs import Inputs, tensors
from totalcal.memory.distances import (
    Distances,
    Moments,
    Tails,
    by_factor,
    conformal_p_value,
    fisher,
    grouped_fisher,
    less_rounding,
    mahalanobis,
    mean_by_row,
    moments,
    nearest_prototype,
    precision,
    relative_by_factor,
    relative_mahalanobis,
    spherical_prototypes,
    spread_of,
    within_level,
)
from totalcal.memory.features import Features, Tap
from totalcal.types import Belief, Faded, Familiarity

PROTOTYPES = 200
ROWS_PER_PROTOTYPE = 5
SAMPLE = 20  # rows per prototype that k-means sees at most
WIDEST = 1024
FEWEST_ROWS = 40
_SEED = 0
_FARTHEST = torch.finfo(torch.float32).max


class Observation(NamedTuple):
    """What one pass shows of a batch: features by the name of their tap, entropy and logits, all at means.

    The logits of a Dirichlet are its log-concentrations.
    """

    features: Mapping[str, Features]
    entropy: Tensor
    logits: Tensor

    @property
    def energy(self) -> Tensor:
        """−log Σ exp l (Liu et al. 2020); of a Dirichlet −log α₀, how little evidence there is."""
        return -self.logits.logsumexp(-1)


class Observed(NamedTuple):
    """An observation, the labels of its rows, and a key per row that is a function of its content."""

    observation: Observation
    labels: Tensor
    keys: Tensor


class Domain(nn.Module, ABC):
    """What a process knows of where its inputs come from.

    Attributes:
        taps: The layers whose features are read in the pass of a prediction.
    """

    taps: Sequence[Tap]

    @abstractmethod
    def read(self, observation: Observation | None) -> Familiarity | None:
        """How familiar each row is; None without a memory. There is an observation if there are taps."""

    @abstractmethod
    def absorb(self, rows: Iterable[Observed]) -> None:
        """Take in rows of a new domain, outside of gradient descent."""

    @abstractmethod
    def faded(self, belief: Belief, familiarity: Familiarity | None) -> Belief:
        """The belief as familiarity leaves it."""


class NoDomain(Domain):
    """Every input is taken for one of the task."""

    taps = ()

    def read(self, observation: Observation | None) -> None:
        return None

    def absorb(self, rows: Iterable[Observed]) -> None:
        """Nothing is kept, and `rows` is not even looked at."""

    def faded(self, belief: Belief, familiarity: Familiarity | None) -> Belief:
        return belief


def row_keys(inputs: Inputs, seed: int = _SEED) -> Tensor:
    """A number in [0, 2⁶³) for each row, a hash of its content: rows chosen by it do not depend on order.

    >>> rows = torch.randn(4, 3)
    >>> torch.equal(row_keys(rows)[2:], row_keys(rows[2:]))
    True
    """
    keys = torch.zeros(len(next(tensors(inputs))), dtype=torch.int64)
    for index, tensor in enumerate(tensors(inputs)):
        words = _as_integers(tensor.detach().cpu()).flatten(1)
        generator = torch.Generator().manual_seed(seed + index)
        factors = torch.randint(2**62, (words.shape[1],), generator=generator) * 2 + 1
        block = max(1, 2**20 // max(words.shape[1], 1))
        parts = [
            (part.long() * factors).sum(1) for part in words.split(block)
        ]  # wraps around: that is the hash
        keys = mixed(keys + torch.cat(parts))
    return keys


def mixed(keys: Tensor) -> Tensor:
    """Spreads keys over [0, 2⁶³), so that near ones end far apart (the finaliser of splitmix64)."""
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685), (31, 1)):
        keys = (keys ^ ((keys >> shift) & (2 ** (64 - shift) - 1))) * factor
    return keys & (2**63 - 1)


def _as_integers(tensor: Tensor) -> Tensor:
    views = {8: torch.int64, 4: torch.int32, 2: torch.int16}
    if tensor.is_floating_point():
        return tensor.contiguous().view(views[tensor.element_size()])
    return tensor


@dataclass
class Statistics:
    """What is summed up of one layer: n_c, Σ_{y=c} φ and Σ φφᵀ in float64, and a sample of the rows.

    The sample holds the rows with the smallest keys. So the whole is a function of the set of rows: neither
    order nor batches matter, and the statistics of two sets add up to those of their union.
    """

    counts: Tensor
    sums: Tensor
    scatter: Tensor
    keys: Tensor
    kept: Tensor
    largest_sample: int
    waiting: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @classmethod
    def empty(cls, num_classes: int, width: int, largest_sample: int) -> Self:
        sums = torch.zeros(num_classes, width, dtype=torch.float64)
        scatter = torch.zeros(width, width, dtype=torch.float64)
        none = torch.zeros(0, dtype=torch.int64)
        counts = torch.zeros(num_classes, dtype=torch.int64)
        return cls(counts, sums, scatter, none, torch.zeros(0, width), largest_sample)

    def add(self, values: Tensor, labels: Tensor, keys: Tensor) -> None:
        """M ← M + Σ (1, φ, φφᵀ)."""
        exact = values.double().cpu()
        self.counts += torch.bincount(labels.cpu(), minlength=len(self.counts))
        self.sums.index_add_(0, labels.cpu(), exact)
        self.scatter.addmm_(exact.T, exact)
        self._keep(keys, values.cpu())

    def over_ranks(self) -> Self:
        """The sum over all ranks of a data-parallel run, the same on each."""
        if not _is_distributed():
            return self
        for total in (self.counts, self.sums, self.scatter):
            distributed.all_reduce(total)
        self._sort_in()
        for keys, sample in gathered((self.keys, self.kept)):
            self._keep(keys, sample)
        return self

    @property
    def sample(self) -> Tensor:
        """The rows with the smallest keys, in their order."""
        self._sort_in()
        return self.kept

    def _keep(self, keys: Tensor, rows: Tensor) -> None:
        """Rows wait until there are many: to sort them in takes a copy of the sample."""
        if len(self.keys) == self.largest_sample:
            near = keys < self.keys[-1]
            keys, rows = keys[near], rows[near]
        self.waiting.append((keys, rows))
        if sum(len(each) for each, _ in self.waiting) > self.largest_sample:
            self._sort_in()

    def _sort_in(self) -> None:
        if not self.waiting:
            return
        keys, rows = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        self.waiting.clear()
        all_keys, all_rows = torch.cat([self.keys, keys]), torch.cat([self.kept.to(rows), rows])
        order = all_keys.argsort(stable=True)
        is_new = torch.ones(len(order), dtype=torch.bool)  # a row that comes again is not sampled again
        is_new[1:] = all_keys[order][1:] != all_keys[order][:-1]
        chosen = order[is_new][: self.largest_sample]
        self.keys, self.kept = all_keys[chosen], all_rows[chosen]

    @property
    def moments(self) -> Moments:
        return moments(self.counts, self.sums, self.scatter)

    def prototypes(self, most: int) -> Tensor:
        sample = self.sample
        return spherical_prototypes(sample, max(1, min(most, len(sample) // ROWS_PER_PROTOTYPE)))


class LayerMemory(nn.Module):
    """What is remembered of one layer: a metric, and for each domain its class means and prototypes.

    Features wider than `widest` are projected at random first (by a fixed seed), which keeps distances up to
    a few per cent (Johnson and Lindenstrauss 1984).
    """

    origins: Tensor
    within: Tensor
    factor: Tensor
    images: Tensor
    slopes: Tensor
    offsets: Tensor
    prototypes: Tensor
    projection: Tensor

    def __init__(self, width: int, is_last: bool, widest: int = WIDEST) -> None:
        super().__init__()
        self.width, self.kept, self.is_last = width, min(width, widest), is_last
        self.centre_counts: list[int] = []
        self.slope_counts: list[int] = []
        self.prototype_counts: list[int] = []
        generator = torch.Generator().manual_seed(width)
        shape = (width, self.kept) if width > widest else (0, 0)
        projection = torch.randn(shape, generator=generator) / self.kept**0.5
        self.register_buffer("projection", projection, persistent=False)
        self.register_buffer("within", torch.zeros(self.kept, self.kept))
        self.register_buffer("offsets", torch.zeros(0))
        self.register_buffer("images", torch.zeros(0, 0))
        for name in ("origins", "factor", "slopes", "prototypes"):
            self.register_buffer(name, torch.zeros(0, self.kept))

    def projected(self, values: Tensor) -> Tensor:
        """In the width and precision that distances are computed in."""
        rows = values.to(self.within.dtype)
        return rows @ self.projection if self.width > self.kept else rows

    def check(self, statistics: Statistics, tap: Tap) -> None:
        """Variances must be numbers in the precision that distances are computed in."""
        squares = statistics.scatter.diagonal() / statistics.counts.sum()
        if not bool((squares < torch.finfo(self.within.dtype).max).all()):
            raise InputError(
                f"the features of {tap} are too large to be remembered: their mean square is "
                f"{float(squares.max()):.3g}. Some rows are not like the others: scale them, or drop them."
            )

    def settle(self, statistics: Statistics, most: int) -> None:
        """The metric, from the statistics of the first domain: W⁻¹, for the last layer less T⁻¹."""
        found, level = statistics.moments, within_level(statistics.moments)
        means = found.class_means[statistics.counts > 0]
        within = precision(found.within, level)
        if self.is_last:
            distances = relative_mahalanobis(means, found.mean, within, precision(found.total, level))
        else:
            distances = mahalanobis(means, found.mean, within)
        self.within, self.factor = within.to(self.within), distances.factor.to(self.factor)
        self.images = self.images.new_zeros(0, len(self.factor))
        self._add(distances, statistics.prototypes(most))

    def add_domain(self, statistics: Statistics, most: int) -> None:
        """Class means and prototypes of one more domain, in the metric that there is.

        Its distances are measured from its own mean: seen from the mean of a domain far away, they would be
        small differences of large numbers.
        """
        found = statistics.moments
        means = found.class_means[statistics.counts > 0]
        factor, first = self.factor.to(found.mean), self.origins[0].to(found.mean)
        if self.is_last:
            distances = relative_by_factor(means, first, self.within.to(found.mean), factor)
        else:
            distances = by_factor(means, first, factor)
        self._add(distances.seen_from(found.mean), statistics.prototypes(most))

    def _add(self, found: Distances, prototypes: Tensor) -> None:
        self.origins = torch.cat([self.origins, found.origin[None].to(self.origins)])
        self.images = torch.cat([self.images, found.images.to(self.images)])
        self.slopes = torch.cat([self.slopes, found.slopes.to(self.slopes)])
        self.offsets = torch.cat([self.offsets, found.offsets.to(self.offsets)])
        self.prototypes = torch.cat([self.prototypes, prototypes.to(self.prototypes)])
        self.centre_counts.append(len(found.images))
        self.slope_counts.append(len(found.slopes))
        self.prototype_counts.append(len(prototypes))

    def shape_as(self, centres: Sequence[int], slopes: Sequence[int], prototypes: Sequence[int]) -> None:
        """Room for domains that a state dict brings."""
        self.centre_counts, self.slope_counts = list(centres), list(slopes)
        self.prototype_counts = list(prototypes)
        rank = max(centres[0] - 1, 1) if self.is_last else self.kept
        self.factor = self.factor.new_zeros(rank, self.kept)
        self.origins = self.origins.new_zeros(len(centres), self.kept)
        self.images = self.images.new_zeros(sum(centres), rank)
        self.slopes = self.slopes.new_zeros(sum(slopes), self.kept)
        self.offsets = self.offsets.new_zeros(sum(centres))
        self.prototypes = self.prototypes.new_zeros(sum(prototypes), self.kept)

    def distances(self, features: Features, rows: int) -> tuple[Tensor, Tensor]:
        """Rows × domains each: to the nearest prototype, and to the nearest class mean (relative if last)."""
        values = self.projected(features.values)
        centres = (
            self.images.split(self.centre_counts),
            self.slopes.split(self.slope_counts),
            self.offsets.split(self.centre_counts),
        )
        to_means = [
            Distances(origin, self.factor, *each).nearest(values)
            for origin, *each in zip(self.origins, *centres, strict=True)
        ]
        parts = self.prototypes.split(self.prototype_counts)
        to_prototypes = [nearest_prototype(values, prototypes) for prototypes in parts]
        both = torch.stack(to_prototypes, -1), torch.stack(to_means, -1)
        if features.rows is None:
            return both
        return mean_by_row(both[0], features.rows, rows), mean_by_row(both[1], features.rows, rows)


class DomainMemory(Domain):
    """Statistics of a net's own features, written by sums, read as a conformal p-value.

    For each tapped layer: the distance to the nearest prototype and to the nearest class mean; of the
    prediction at means: its entropy and its energy. Each becomes a tail probability among held-out rows.
    Fisher's statistic joins those of the lower layers, those of the last layer, and those of the prediction;
    each of the three becomes a tail probability again, and Fisher's statistic T joins them. In one stage, the
    many layers that see nothing unusual in an input near the domain would outvote the last layer and the
    prediction, which do. With several domains a row belongs to the one it fits best: T is the least of
    theirs.

    **The promise.** `familiarity` is the conformal p-value of T among calibration rows that nothing else was
    made from: for a row exchangeable with them P(familiarity ≤ a) ≤ a, for every a and any number n of them;
    nothing is promised below 1/(n + 1). After `absorb` the calibration rows are those of all domains
    together, and the promise is for rows drawn like that union; to have more domains to fit can only raise a
    row's familiarity, so it stays a promise, if a milder one.
    """

    calibration: Tensor

    def __init__(
        self,
        taps: Sequence[Tap],
        num_classes: int,
        most_prototypes: int = PROTOTYPES,
        widest: int = WIDEST,
        fade: float = 0.0,
    ) -> None:
        super().__init__()
        if not taps:
            raise InputError("a domain memory reads at least one layer, but none was given.")
        if fade < 0:
            raise InputError(f"fade must be 0 (off) or more, but is {fade}.")
        self.taps, self.num_classes = tuple(taps), num_classes
        self.most_prototypes, self.widest, self.fade = most_prototypes, widest, fade
        # The only layer is measured as it is: relative to all rows, a shift that all classes share is lost.
        is_last = [0 < index == len(taps) - 1 for index in range(len(taps))]
        self.layers = nn.ModuleList(
            LayerMemory(tap.width, last, widest) for tap, last in zip(taps, is_last, strict=True)
        )
        self.tail_rows: list[int] = []
        self.register_buffer("calibration", torch.zeros(0, dtype=torch.float64))

    @property
    def num_domains(self) -> int:
        return len(self.tail_rows)

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """How many statistics are of the lower layers, if any, of the last layer, and of the prediction."""
        lower = 2 * (len(self.taps) - 1)
        return (lower, 2, 2) if lower else (2, 2)

    def statistics(self) -> list[Statistics]:
        """Empty sums for rows of one domain, one per layer."""
        largest = SAMPLE * self.most_prototypes
        return [Statistics.empty(self.num_classes, layer.kept, largest) for layer in self._layers()]

    def add(self, statistics: Sequence[Statistics], rows: Observed) -> None:
        """Sum up a batch; each token of a sequence counts with the label of its row."""
        for tap, layer, sums in zip(self.taps, self._layers(), statistics, strict=True):
            features = rows.observation.features[tap.name]
            labels, keys = rows.labels, rows.keys
            if features.rows is not None:
                owners = features.rows.cpu()
                labels, keys = labels.cpu()[owners], mixed(keys[owners] + _positions(owners))
            sums.add(layer.projected(features.values), labels, keys)

    def write(self, statistics: Sequence[Statistics]) -> None:
        """One more domain; the first one brings the metric.

        Raises:
            InputError: If features are so large that their squares overflow; nothing is written then.
        """
        for tap, layer, sums in zip(self.taps, self._layers(), statistics, strict=True):
            layer.check(sums, tap)
        for layer, sums in zip(self._layers(), statistics, strict=True):
            (layer.add_domain if self.num_domains else layer.settle)(sums, self.most_prototypes)
        self.tail_rows.append(0)

    def calibrate(self, distances: Tensor, keys: Tensor, promise: Tensor | None = None) -> None:
        """Held-out rows of the newest domain: every other one, by key, makes the tails, the rest the promise.

        `distances` are those to the newest domain, rows × statistics; `promise` says which rows promise.
        """
        order, index = keys.argsort(stable=True), self.num_domains - 1
        tails, others = order[::2], order[1::2]
        if promise is not None:
            tails, others = order[~promise[order]], order[promise[order]]
        seen = distances[tails].to(self.calibration.device)
        self.tail_rows[index] = len(seen)
        self._keep_tails("each", index, seen)
        self._keep_tails("group", index, self._by_group(index, seen))
        statistic = self._statistic(index, distances[others].to(seen))
        self.calibration = torch.cat([self.calibration, statistic.to(self.calibration)]).sort().values

    def distances(self, observation: Observation) -> Tensor:
        """Rows × domains × statistics: two per layer in the order of the taps, then entropy and energy.

        One too large for its precision is the largest number there: such a row is as unfamiliar as can be.
        """
        columns: list[Tensor] = []
        for tap, layer in zip(self.taps, self._layers(), strict=True):
            columns += layer.distances(observation.features[tap.name], observation.entropy.shape[0])
        predicted = torch.stack([observation.entropy.double(), observation.energy.double()], -1)
        everywhere = predicted[:, None].expand(-1, self.num_domains, -1)
        distances = torch.cat([torch.stack(columns, -1).double(), everywhere], -1)
        return distances.nan_to_num(nan=_FARTHEST, posinf=_FARTHEST).clamp_max(_FARTHEST)

    def read(self, observation: Observation | None) -> Familiarity:
        assert observation is not None
        distances = self.distances(observation)
        by_domain = [self._statistic(k, distances[:, k]) for k in range(self.num_domains)]
        statistic = torch.stack(by_domain).amin(0)
        return Familiarity(self.p_value(statistic), statistic)

    def p_value(self, statistic: Tensor) -> Tensor:
        """The familiarity of rows by their statistic T."""
        lowered = less_rounding(statistic, spread_of(self.calibration))
        return conformal_p_value(lowered, self.calibration)

    @torch.no_grad()
    def absorb(self, rows: Iterable[Observed]) -> None:
        """Rows of a new domain become familiar; nothing becomes less familiar than it was.

        Of the rows, two out of five are held out by key: they make the tails and the calibration of the
        domain. Fewer than 40 rows are too few to calibrate: they leave the memory as it is, with a warning.
        """
        given = [part for share in gathered(list(rows)) for part in share]
        keys = torch.cat([part.keys for part in given]) if given else torch.zeros(0)
        if len(keys) < FEWEST_ROWS:
            warnings.warn(
                f"a new domain needs {FEWEST_ROWS} rows or more to become familiar, but got {len(keys)}: "
                "the domain memory stays as it is. Memorise more rows at once.",
                stacklevel=3,
            )
            return
        ranks = keys.argsort(stable=True).argsort()
        is_written = (ranks % 5 < 3).split([len(part.keys) for part in given])
        statistics = self.statistics()
        for part, chosen in zip(given, is_written, strict=True):
            self.add(statistics, _some(part, chosen))
        self.write(statistics)
        held_out = [_some(part, ~chosen) for part, chosen in zip(given, is_written, strict=True)]
        distances = [self.distances(part.observation)[:, -1] for part in held_out]
        self.calibrate(torch.cat(distances), torch.cat([part.keys for part in held_out]))

    def faded(self, belief: Belief, familiarity: Familiarity | None) -> Belief:
        """g · own + (1 − g) · Dir(1) with g = p / (p + τ); as it is without fading.

        p is the familiarity up to the 95th percentile of T, and beyond it goes on falling with an exponential
        tail: the conformal p-value ends at 1/(n + 1), and with few rows nothing would ever fade.
        """
        if not self.fade or familiarity is None:
            return belief
        tail = self.tail_probability(familiarity.statistic)
        return Faded(belief, tail / (tail + self.fade))

    def tail_probability(self, statistic: Tensor) -> Tensor:
        """The p-value by which rows fade, from their statistic T."""
        return _log_p(Tails.fitted(self.calibration[:, None]), statistic[:, None])[:, 0].exp()

    def settings(self) -> dict[str, Any]:
        """Plain values from which `from_settings` makes a memory that takes the state dict of this one."""
        return {
            "taps": [asdict(tap) for tap in self.taps],
            "num_classes": self.num_classes,
            "most_prototypes": self.most_prototypes,
            "widest": self.widest,
            "fade": self.fade,
            "centres": [layer.centre_counts for layer in self._layers()],
            "slopes": [layer.slope_counts for layer in self._layers()],
            "prototypes": [layer.prototype_counts for layer in self._layers()],
            "tail_rows": self.tail_rows,
            "calibration_rows": len(self.calibration),
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "DomainMemory":
        """A memory with room for the tensors, which `load_state_dict` brings."""
        names = ("num_classes", "most_prototypes", "widest", "fade")
        memory = cls([Tap(**tap) for tap in settings["taps"]], **{name: settings[name] for name in names})
        counts = (settings[name] for name in ("centres", "slopes", "prototypes"))
        for layer, *of_domains in zip(memory._layers(), *counts, strict=True):
            layer.shape_as(*of_domains)
        memory.tail_rows = list(settings["tail_rows"])
        for index, rows in enumerate(memory.tail_rows):
            memory._keep_tails("each", index, torch.zeros(rows, sum(memory.group_sizes)))
            memory._keep_tails("group", index, torch.zeros(rows, len(memory.group_sizes)))
        memory.calibration = memory.calibration.new_zeros(settings["calibration_rows"])
        return memory

    def extra_repr(self) -> str:
        return f"{', '.join(map(str, self.taps))}; domains={self.num_domains}, fade={self.fade}"

    def _statistic(self, domain: int, distances: Tensor) -> Tensor:
        """T of rows by their distances to one domain, rows × statistics."""
        return fisher(_log_p(self._tails("group", domain), self._by_group(domain, distances)))

    def _by_group(self, domain: int, distances: Tensor) -> Tensor:
        return grouped_fisher(_log_p(self._tails("each", domain), distances), self.group_sizes)

    def _keep_tails(self, stage: str, domain: int, scores: Tensor) -> None:
        for name, value in Tails.fitted(scores)._asdict().items():
            self.register_buffer(f"{stage}_{name}_{domain}", value)

    def _tails(self, stage: str, domain: int) -> Tails:
        return Tails(*(self.get_buffer(f"{stage}_{name}_{domain}") for name in Tails._fields))

    def _layers(self) -> list[LayerMemory]:
        return list(self.layers)  # type: ignore[arg-type]


def _log_p(tails: Tails, scores: Tensor) -> Tensor:
    """Tail probabilities that do not hang on the last digits of scores, rows × statistics."""
    return tails.log_p(less_rounding(scores.double(), tails.spread.T))


def gathered(mine: Any) -> list[Any]:
    """What each rank of a data-parallel run has, in the order of the ranks; what we have, without one."""
    if not _is_distributed():
        return [mine]
    everybody = [None] * distributed.get_world_size()
    distributed.all_gather_object(everybody, mine)
    return everybody


def _positions(rows: Tensor) -> Tensor:
    """The number of each token within its row; tokens of a row stand together."""
    starts = torch.searchsorted(rows, rows, side="left")
    return torch.arange(len(rows)) - starts


def _some(part: Observed, chosen: Tensor) -> Observed:
    """Some rows of a batch, with their tokens."""
    features = {name: _chosen(each, chosen) for name, each in part.observation.features.items()}
    observation = Observation(features, part.observation.entropy[chosen], part.observation.logits[chosen])
    return Observed(observation, part.labels[chosen], part.keys[chosen])


def _chosen(features: Features, chosen: Tensor) -> Features:
    if features.rows is None:
        return Features(features.values[chosen])
    kept = chosen[features.rows]
    renumbered = chosen.cumsum(0) - 1
    return Features(features.values[kept], renumbered[features.rows[kept]])


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()
