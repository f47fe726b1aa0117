"""The memory of a domain: sums of a joint feature, read as p-values and as a classifier (docs/memory.md)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.errors import InputError, LabelError, UnknownNameError
from totalcal.memory.classes import LearnedClass, Readout, readout
from totalcal.memory.distances import (
    Tails,
    centroids,
    conformal_p_value,
    less_rounding,
    mean_by_row,
    spread_of,
)
from totalcal.memory.domain import FEWEST_FOR_A_PROMISE, Domain, Memorised, promise_in_words
from totalcal.memory.features import INPUTS, Tap
from totalcal.memory.known import Known
from totalcal.memory.rows import Observation, ObservedRows, Sample, mixed
from totalcal.memory.sums import Sums, metric
from totalcal.ranks import gathered, summed
from totalcal.types import Belief, Faded, Familiarity, WithLearned

PROTOTYPES = 200
WIDEST = 1024
SAMPLE = 20  # rows per prototype that k-means sees at most
ROWS_PER_PROTOTYPE = 5
FEWEST_PER_CLASS = 2  # one is taken out to see what the others say of it
_KEPT_HELD_OUT = 256  # rows of the classes of training, in half precision: two numbers are fitted on them
_MOST_IN_HALF = 6e4
_WIDEST_TABLE = 256  # columns that stand in the joint feature as they are, not as a direction
_CONFUSED, _ENOUGH_TO_TELL = 0.4, 20  # half would be if two classes were one
_SMALLEST_LENGTH = 1e-6
_FARTHEST = torch.finfo(torch.float32).max
_FARTHEST_PLACE = 1e15  # a place farther out counts as one there: squares stay within float32
_STORED = (  # and tails, and what was memorised
    *("mean", "factor", "spread", "input_mean", "input_scale", "centres", "classes", "prototypes", "tokens"),
    *("calibration", "held_out", "held_out_labels"),
)
_WHOLE = frozenset({"classes", "held_out_labels", "keys"})
_OF_ROWS = frozenset(  # in their precision
    {"mean", "factor", "spread", "input_mean", "input_scale", "centres", "prototypes", "tokens"}
)


@dataclass
class Written:
    """What the rows of training leave: the sums of the joint feature, and samples of rows and of tokens."""

    sums: Sums
    rows: Sample
    tokens: Sample

    def over_ranks(self) -> Self:
        """The same on each rank of a data-parallel run."""
        summed(self.sums.counts, self.sums.totals, self.sums.squares)
        self.rows.over_ranks()
        self.tokens.over_ranks()
        return self


class _HeldOut(NamedTuple):
    """Held-out rows: their statistics, where they lie in the metric, their classes and keys."""

    statistics: Tensor
    rows: Tensor
    labels: Tensor
    keys: Tensor


class LearnedSet(nn.Module):
    """What was memorised under one name: centres and prototypes, its own p-values, rows of each class.

    Attributes:
        name: The name.
        classes: For each centre the number of its class.
        learned: For each class beyond the net's: its number, how many rows it has, how many are kept.
    """

    centres: Tensor
    prototypes: Tensor
    tokens: Tensor
    calibration: Tensor
    totals: Tensor
    keys: Tensor
    kept: Tensor

    def __init__(
        self,
        name: str,
        classes: Sequence[int],
        learned: Sequence[tuple[int, int, int]],
        tensors: Mapping[str, Tensor],
    ) -> None:
        super().__init__()
        self.name, self.classes = name, list(classes)
        self.learned = [(number, count, kept) for number, count, kept in learned]
        for key in ("centres", "prototypes", "tokens", "calibration", "totals", "keys", "kept"):
            self.register_buffer(key, tensors[key])

    def rows_by_class(self) -> dict[int, LearnedClass]:
        sizes = [kept for *_, kept in self.learned]
        parts = zip(self.learned, self.totals, self.keys.split(sizes), self.kept.split(sizes), strict=True)
        return {
            number: LearnedClass(count, total.double().cpu(), keys.cpu(), kept.double().cpu())
            for (number, count, _), total, keys, kept in parts
        }

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "classes": self.classes, "learned": self.learned}


class DomainMemory(Domain):
    """Sums of one joint feature of the net, read as p-values, and as a classifier of classes learned later.

    The joint feature z has the tapped layers side by side, each of length one, and the logarithms of their
    lengths; but a table's inputs stand there as they are. A sequence is known by the mean of its tokens.
    From n_c, S_c = Σ z and G = Σ z zᵀ comes one metric (`totalcal.memory.sums`). Two numbers:

    - how far from everything seen: each layer's distance to its nearest prototype, a = min_c (z − μ_c)ᵀ W⁻¹
      (z − μ_c), and of a sequence the mean distance of its tokens to theirs;
    - how unlike any class: r = a − (z − m)ᵀ T⁻¹ (z − m), the entropy and the energy of the prediction.

    Each statistic becomes a tail probability p among held-out rows. Those of the layers count as one, and so
    do entropy and energy, by the mean of their −log p. A row is far if any of the first ones says so: −log of
    the harmonic mean of p, which is nearly the largest. It is like no class as far as both of the others say
    so: Fisher's sum. T joins the two numbers, each as its own tail probability, by the harmonic mean again.

    **The promise.** `familiarity` is the conformal p-value of T, and `unlike_domain` and `unlike_classes` are
    those of the two, among calibration rows that nothing else was made from: for a row exchangeable with
    them P(p ≤ a) ≤ a, for every a and any number n of them; nothing is promised below 1/(n + 1). What is
    memorised brings centres, prototypes and calibration rows of its own, seen in the same metric: p is the
    largest over all that are known, so the promise to the rows of training stays, and those of a name have
    one from 1 / (n + 1) of its own n on.

    Args:
        taps: The layers.
        num_classes: Those of the net.
        most_prototypes: At most so many; a fifth of the rows if they are few.
        widest: The joint feature is projected at random to so many columns.
        fade: τ; 0 does not fade.
    """

    projection: Tensor
    readout_weight: Tensor
    readout_scale: Tensor
    mean: Tensor
    factor: Tensor
    spread: Tensor
    input_mean: Tensor
    input_scale: Tensor
    centres: Tensor
    classes: Tensor
    prototypes: Tensor
    tokens: Tensor
    calibration: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    weights: Tensor
    known: Known
    each: Tails
    numbers: Tails

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
            raise InputError("a memory reads at least one layer, but none was given.")
        if fade < 0:
            raise InputError(f"fade must be 0 (off) or more, but is {fade}.")
        self.taps, self.num_classes = tuple(taps), num_classes
        self.most_prototypes, self.widest, self.fade = most_prototypes, widest, fade
        self.tokens_of = next((tap for tap in self.taps if tap.kind == "tokens"), None)
        scalars = sum(tap.width for tap in self.taps if _stays(tap)) + len(self.taps)
        self.layers = sorted(self.taps, key=_stays)  # directions first, then a table's inputs
        units = [tap.width for tap in self.layers if not _stays(tap)]
        self.widths = _shared_out(units, widest - scalars) + [t.width for t in self.layers[len(units) :]]
        self.units, self.directions = sum(self.widths[: len(units)]), sum(self.widths)
        self.width = self.directions + len(self.taps)
        wide = [pair for pair in zip(units, self.widths, strict=False) if pair[0] > pair[1]]
        shape = [max(sizes) for sizes in zip(*wide, strict=True)] or [0, 0]
        self.register_buffer("projection", _signs(*shape), persistent=False)
        self.register_buffer("readout_weight", torch.zeros(self.width + 1, 0), persistent=False)
        self.register_buffer("readout_scale", torch.zeros(2), persistent=False)
        self.register_buffer("weights", self._weights(), persistent=False)
        self.sets: list[LearnedSet] = nn.ModuleList()  # type: ignore[assignment]

    # --- writing ---

    def writing(self) -> Written:
        """Empty sums for rows of the training domain."""
        largest = SAMPLE * self.most_prototypes
        return Written(Sums.empty(self.num_classes, self.width), Sample(largest), Sample(largest))

    def add(self, written: Written, rows: ObservedRows) -> None:
        """Sum up a batch."""
        z, labels, keys = self.joint(rows.observation).cpu(), rows.labels.cpu(), rows.keys
        if not bool(z.isfinite().all()) or float(z.abs().max()) ** 2 > _FARTHEST:
            raise InputError(
                "some rows have features that are too large to be remembered: "
                f"{float(z.abs().max()):.3g}. They are not like the others: scale them, or drop them."
            )
        written.sums.add(z, labels)
        written.rows.add(keys, z, labels)
        written.tokens.add(*self._token_rows(rows))

    def write(self, written: Written) -> None:
        """The metric and the prototypes of the training domain."""
        sample = written.rows.sort_in()
        assert sample.rows is not None
        found = metric(written.sums, self._blocks(), sample.rows, sample.labels)
        seen = written.sums.counts > 0
        precision = self.projection.dtype
        inputs = slice(self.units, self.directions)
        squares = written.sums.squares.diagonal()[inputs] / written.sums.counts.sum()
        variance = (squares - found.mean[inputs].square()).clamp_min(0)
        self._keep(
            input_mean=found.mean[inputs].to(precision),
            input_scale=torch.where(variance > 0, (len(variance) * variance).rsqrt(), 0).to(precision),
            mean=found.mean.to(precision),
            factor=found.factor.to(precision),
            spread=found.spread.to(precision),
            centres=found.centres[seen].to(precision),
            classes=seen.nonzero()[:, 0],
        )
        self._keep(
            prototypes=self._prototypes(self._placed(sample.rows)).to(precision),
            tokens=self._token_prototypes(written.tokens).to(precision),
        )
        self.known = self._what_is_known([])

    def calibrate(
        self,
        batches: Iterable[ObservedRows],
        promise: Iterable[ObservedRows] | None = None,
        keep_rows: bool = True,
    ) -> None:
        """Held-out rows: every other one, by key, makes the tails, the rest the promise.

        With rows for the `promise` given, all of the others make the tails. Some are kept, so that classes
        can be learned beside theirs.
        """
        found = self._held_out(batches)
        order = found.keys.argsort(stable=True)
        tails, others = order[::2], found.statistics[order[1::2]]
        if promise is not None:
            tails, more = order, self._held_out(promise)
            others, found = more.statistics, _HeldOut(*map(torch.cat, zip(found, more, strict=True)))
        kept = found.keys.argsort(stable=True)[: _KEPT_HELD_OUT * keep_rows]
        self.each = Tails.fitted(found.statistics[tails])
        self.numbers = Tails.fitted(self._numbers(found.statistics[tails]))
        self._keep(
            held_out=found.rows[kept].clamp(-_MOST_IN_HALF, _MOST_IN_HALF).half(),
            held_out_labels=found.labels[kept],
            calibration=self.ranked(others).T.contiguous().sort(-1).values,
        )

    def _held_out(self, batches: Iterable[ObservedRows]) -> "_HeldOut":
        """Of the rows of all ranks, on the device of the memory."""
        seen = [_HeldOut(*self.look(each.observation), each.labels, each.keys) for each in batches]
        parts = [[tensor.cpu() for tensor in each] for each in seen]
        everybody = [part for share in gathered(parts) for part in share]
        device = self.projection.device
        return _HeldOut(*(torch.cat(each).to(device) for each in zip(*everybody, strict=True)))

    # --- reading ---

    def joint(self, observation: Observation) -> Tensor:
        """z, [n, width]: directions first, then a table's inputs, then logarithms of lengths."""
        values, rows = [], observation.entropy.shape[0]
        for tap in self.layers:
            features = observation.features[tap.name]
            found = features.values.to(self.projection.dtype)
            values.append(found if features.rows is None else mean_by_row(found, features.rows, rows))
        norms = [torch.linalg.vector_norm(each, dim=-1, dtype=torch.float64) for each in values]
        lengths = torch.stack(norms, -1)  # in float64, where no square overflows
        scales = lengths.clamp_min(_SMALLEST_LENGTH).to(values[0]).split(1, -1)
        for place, (tap, width) in enumerate(zip(self.layers, self.widths, strict=True)):
            if not _stays(tap):
                values[place] = values[place] / scales[place]
            if width < tap.width:
                projected = values[place] @ self.projection[: tap.width, :width]
                values[place] = F.normalize(projected, dim=-1)
        return torch.cat([*values, (lengths + _SMALLEST_LENGTH).log().to(values[0])], -1)

    def _placed(self, z: Tensor) -> tuple[Tensor, ...]:
        """Layer by layer, where prototypes lie: a table's inputs standardised and of mean square one."""
        layers: tuple[Tensor, ...] = z[:, : self.directions].split(self.widths, -1)
        if self.units == self.directions:
            return layers
        inputs = (layers[-1] - self.input_mean.to(z)) * self.input_scale.to(z)
        return *layers[:-1], inputs.clamp(-_FARTHEST_PLACE, _FARTHEST_PLACE)

    def look(
        self, observation: Observation, of: "Sequence[LearnedSet] | None" = None
    ) -> tuple[Tensor, Tensor]:
        """Rows × statistics, and where the rows lie: u = F (z − m).

        Of the statistics those of the domain come first, then those of the classes; the larger, the stranger.

        Distances are to the nearest of what training and the given sets (all, if none are given) have seen.
        One too large for its precision is the largest number there.
        """
        known = self.known if of is None else self._what_is_known(of)
        z = self.joint(observation)
        u = ((z - self.mean) @ self.factor.T).clamp(-_FARTHEST_PLACE, _FARTHEST_PLACE)
        far = list(known.to_prototypes(self._placed(z)))
        if self.tokens_of is not None:
            far.append(known.to_tokens(observation.features[self.tokens_of.name], z.shape[0]))
        absolute, relative = known.to_centres(u)
        columns = [*far, absolute, relative, observation.entropy, observation.energy]
        found = torch.stack([each.double() for each in columns], -1)
        return found.clamp(-_FARTHEST, _FARTHEST).nan_to_num(nan=_FARTHEST), u

    def ranked(self, statistics: Tensor) -> Tensor:
        """T, how far from the domain, and how far from any class of it, rows × 3."""
        numbers = self._numbers(statistics)
        domain, classes = _log_p(self.numbers, numbers).neg().split(1, -1)
        return torch.cat([torch.logaddexp(domain, classes), numbers], -1)

    def _numbers(self, statistics: Tensor) -> Tensor:
        """How far from the domain, and how far from any class of it, of what `look` gives."""
        groups = -(_log_p(self.each, statistics) @ self.weights.double())
        return torch.cat([groups[:, :-1].logsumexp(-1, keepdim=True), groups[:, -1:]], -1)

    def _weights(self) -> Tensor:
        """Statistics × groups: prototypes of layers, those of tokens, a; r with the prediction."""
        layers, tokens = len(self.layers), int(self.tokens_of is not None)
        alone = [torch.eye(1)] * (tokens + 1)
        found: Tensor = torch.block_diag(
            torch.full((layers, 1), 1 / layers), *alone, torch.tensor([[1.0], [0.5], [0.5]])
        )
        return found

    def p_values(self, ranked: Tensor) -> Tensor:
        """Conformal p-values of what `ranked` gives: the largest over training and all that was memorised.

        A set whose calibration rows are all less strange than a row does not speak for it: it would say 1 /
        (n + 1), below which it promises nothing.
        """
        found = self._p_values(ranked, self.calibration)
        for each in self.sets:
            if rows := each.calibration.shape[-1]:
                theirs = self._p_values(ranked, each.calibration)
                found = torch.where(theirs > 1.5 / (rows + 1), torch.maximum(found, theirs), found)
        return found

    def judge(self, belief: Belief, observation: Observation | None) -> tuple[Belief, Familiarity | None]:
        assert observation is not None
        statistics, u = self.look(observation)
        ranked = self.ranked(statistics)
        p = self.p_values(ranked)
        familiarity = Familiarity(p[:, 0], ranked[:, 0], p[:, 1], p[:, 2], ranked[:, 1], ranked[:, 2])
        if self.num_learned:
            q = self.readout().logits(u).double().softmax(-1)
            belief = WithLearned(belief, q[:, -self.num_learned :])
        if self.fade:
            tail = self.tail_probability(familiarity.statistic)
            belief = Faded(belief, tail / (tail + self.fade))
        return belief, familiarity

    def tail_probability(self, statistic: Tensor) -> Tensor:
        """The p-value by which rows fade: beyond the 95th percentile of T it goes on falling.

        The conformal p-value ends at 1/(n + 1), and with few rows nothing would ever fade.
        """
        return _log_p(Tails.fitted(self.calibration[0][:, None]), statistic[:, None])[:, 0].exp()

    # --- learning ---

    @property
    def num_learned(self) -> int:
        return self.readout_weight.shape[1] and self.readout_weight.shape[1] - len(self.classes)

    def memorise(
        self, rows: Iterable[ObservedRows], name: str | None = None, names: Sequence[Any] | None = None
    ) -> Memorised:
        """Labelled rows under a name: centres, prototypes and p-values of their own, and new classes.

        Raises:
            InputError: There are too few rows, the name is taken, or the rows of a new class cannot be told
                from those of a known one. The memory is as it was.
            LabelError: Labels are neither known classes nor the numbers that follow.
        """
        given = [part for share in gathered(list(rows)) for part in share]
        known = self.num_classes + self.num_learned
        if not given:
            raise InputError("there are no rows to memorise.")
        labels, keys = (torch.cat([getattr(each, key).cpu() for each in given]) for key in ("labels", "keys"))
        new = sorted(set(labels.tolist()) - set(range(known)))
        if new != list(range(known, known + len(new))):
            raise LabelError(
                f"the classes known are 0 to {known - 1}, so new ones are {known}, …; got {new}."
            )
        if new and not len(self.held_out):
            raise InputError(
                "this memory kept no rows (keep_rows=False), beside which it would learn a new class; it can "
                "learn new domains of the classes that it knows."
            )
        name = self._free_name(name, new)
        names = range(known + len(new)) if names is None else names
        counts = torch.bincount(labels, minlength=known)
        for each in new or labels.unique().tolist():
            if counts[each] < FEWEST_PER_CLASS:
                raise InputError(
                    f"{FEWEST_PER_CLASS} rows of class {names[each]} are needed, but got {int(counts[each])}."
                )
        before = list(self.sets)
        self.sets.append(self._learned_set(name, given, labels, keys))
        try:
            left_out = self._refit()
            confusions = {each: self._confusion(each, left_out) for each in new}
            for each, (other, share) in confusions.items():
                if share >= _CONFUSED and counts[each] >= _ENOUGH_TO_TELL:
                    raise InputError(
                        f"the net cannot tell class {names[each]} from class {names[other]}: {share:.0%} of "
                        "its rows would be taken for that one. The model is as it was."
                    )
        except BaseException:
            self.sets = nn.ModuleList(before)  # type: ignore[assignment]
            self._refit()
            raise
        said = {names[each]: (names[other], share) for each, (other, share) in confusions.items()}
        return Memorised(name, len(labels), self.sets[-1].calibration.shape[-1], tuple(said), said)

    def forget(self, name: str) -> tuple[int, ...]:
        """Drop all of a name, as if it had never been; classes behind those that go move down.

        Raises:
            UnknownNameError: Nothing of this name was memorised.
        """
        names = [each.name for each in self.sets]
        if name not in names:
            raise UnknownNameError("memorised name", name, names)
        before = self._learned_numbers()
        self.sets = nn.ModuleList(  # type: ignore[assignment]
            each for each in self.sets if each.name != name
        )
        left = self._learned_numbers()
        renumbered = {old: self.num_classes + place for place, old in enumerate(left)}
        for each in self.sets:
            each.classes = [renumbered.get(number, number) for number in each.classes]
            each.learned = [(renumbered[number], *sizes) for number, *sizes in each.learned]  # type: ignore[misc]
        self._refit()
        return tuple(number for number in before if number not in left)

    @property
    def promises(self) -> dict[str, str]:
        return {each.name: promise_in_words(each.calibration.shape[-1]) for each in self.sets}

    @property
    def names(self) -> tuple[str, ...]:
        """What was memorised."""
        return tuple(each.name for each in self.sets)

    def readout(self) -> Readout:
        """The memory as a classifier: the classes of training that were seen, then those learned."""
        t, b = self.readout_scale
        return Readout(self.readout_weight, t, b, len(self.classes))

    # --- files ---

    def settings(self) -> dict[str, Any]:
        """Plain values from which, and from the state dict, `from_state` makes the memory again."""
        return {
            "taps": [asdict(tap) for tap in self.taps],
            "num_classes": self.num_classes,
            "most_prototypes": self.most_prototypes,
            "widest": self.widest,
            "fade": self.fade,
            "sets": [each.settings() for each in self.sets],
        }

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], state: Mapping[str, Tensor]) -> "DomainMemory":
        """A memory as it was: nothing is made but of the tensors given.

        Raises:
            KeyError, ValueError: Tensors are missing, or do not fit.
        """
        names = ("num_classes", "most_prototypes", "widest", "fade")
        memory = cls([Tap(**tap) for tap in settings["taps"]], **{name: settings[name] for name in names})
        memory.to(state["factor"].dtype)
        for name in _STORED:
            memory.register_buffer(name, state[name])
        memory.each, memory.numbers = (Tails(state[f"{name}.reference"]) for name in ("each", "numbers"))
        for index, each in enumerate(settings["sets"]):
            prefix = f"sets.{index}."
            theirs = {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
            memory.sets.append(LearnedSet(tensors=theirs, **each))
        memory._check_tensors()
        memory._refit()
        return memory

    def __repr__(self) -> str:
        learned = f"; learned {', '.join(self.names)}" if self.sets else ""
        fading = f"; fade={self.fade}" if self.fade else ""
        return f"DomainMemory({', '.join(map(str, self.taps))}{learned}{fading})"

    # --- inside ---

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor.to(self.projection.device))

    def _p_values(self, ranked: Tensor, calibration: Tensor) -> Tensor:
        lowered = less_rounding(ranked, spread_of(calibration).T)
        return conformal_p_value(lowered.T.contiguous(), calibration).T

    def _what_is_known(self, sets: "Sequence[LearnedSet]") -> "Known":
        """By training and by these sets."""
        parts = [self.prototypes, *(each.prototypes for each in sets)]
        centres = F.pad(self.centres, (0, self.width - len(self.spread)))
        return Known(
            [each.contiguous() for each in torch.cat(parts).split(self.widths, -1)],
            torch.cat([self.tokens, *(each.tokens for each in sets)]),
            torch.cat([centres, *(each.centres for each in sets)]),
            self.spread,
        )

    def _blocks(self) -> Tensor:
        """Columns of z that share a unit: all directions, each input of a table, each logarithm."""
        scalars, first = self.width - self.units, min(self.units, 1)
        return torch.cat([torch.zeros(self.units, dtype=torch.int64), first + torch.arange(scalars)])

    def _prototypes(self, layers: Sequence[Tensor]) -> Tensor:
        """Of each layer as many, side by side."""
        count = max(1, min(self.most_prototypes, len(layers[0]) // ROWS_PER_PROTOTYPE))
        return torch.cat([centroids(rows, count) for rows in layers], -1)

    def _token_rows(self, rows: ObservedRows) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, features and labels of tokens, if a layer has some; a key is of the row and the place."""
        none = torch.zeros(0, dtype=torch.int64)
        if self.tokens_of is None:
            return none, torch.zeros(0, 0), none
        values, owners = rows.observation.features[self.tokens_of.name]
        assert owners is not None
        owners = owners.cpu()
        places = torch.arange(len(owners)) - torch.searchsorted(owners, owners, side="left")
        keys = mixed(rows.keys[owners] + places)
        return keys, values.to(self.projection.dtype).cpu(), rows.labels.cpu()[owners]

    def _token_prototypes(self, tokens: Sample) -> Tensor:
        sample = tokens.sort_in().rows
        if sample is None or not sample.numel():
            return torch.zeros(0, 0)
        return self._prototypes([F.normalize(sample, dim=-1)])

    def _free_name(self, name: str | None, new: Sequence[int]) -> str:
        if name is None:
            base = " ".join(["class", *map(str, new)]) if new else "domain"
            free = (f"{base} ({number})" if number else base for number in range(len(self.sets) + 1))
            return next(each for each in free if each not in self.names)
        if name in self.names:
            raise InputError(
                f"{name!r} was memorised before: forget it first, and give all of its rows at once."
            )
        return name

    def _learned_set(
        self, name: str, given: Sequence[ObservedRows], labels: Tensor, keys: Tensor
    ) -> LearnedSet:
        order = keys.argsort(stable=True)
        is_held_out = torch.zeros(len(keys), dtype=torch.bool)
        if len(keys) >= FEWEST_FOR_A_PROMISE:
            is_held_out[order] = torch.arange(len(keys)) % 5 >= 3
        z = torch.cat([self.joint(each.observation) for each in given])
        u = (z - self.mean) @ self.factor.T
        if not bool(u.isfinite().all()):
            raise InputError("some rows have features that are too large to be memorised: drop them.")
        written = order[~is_held_out[order]].to(u.device)
        classes = labels[written.cpu()].unique().tolist()
        centres = [u[written[(labels[written.cpu()] == c).to(u.device)]].double().mean(0) for c in classes]
        sample = Sample(SAMPLE * self.most_prototypes)
        if self.tokens_of is not None:
            for part, chosen in zip(
                given, (~is_held_out).split([len(each.keys) for each in given]), strict=True
            ):
                token_keys, values, of_token = self._token_rows(part)
                owners = part.observation.features[self.tokens_of.name].rows
                assert owners is not None
                mine = chosen[owners.cpu()]
                sample.add(token_keys[mine], values[mine], of_token[mine])
        learned = [c for c in labels.unique().tolist() if c >= self.num_classes]
        parts = [LearnedClass.of(u[(labels == c).to(u.device)].cpu(), keys[labels == c]) for c in learned]
        empty = u.new_zeros(0, u.shape[1])
        found = LearnedSet(
            name,
            classes,
            [(c, part.count, len(part.kept)) for c, part in zip(learned, parts, strict=True)],
            {
                "centres": torch.stack(centres).to(u),
                "prototypes": self._prototypes(self._placed(z[written[: SAMPLE * self.most_prototypes]])),
                "tokens": self._token_prototypes(sample).to(u),
                "calibration": self.calibration.new_zeros(3, 0),
                "totals": torch.stack([part.total for part in parts]) if parts else empty.double(),
                "keys": torch.cat([part.keys for part in parts]) if parts else keys[:0],
                "kept": torch.cat([part.kept for part in parts]).to(u) if parts else empty,
            },
        ).to(u.device)
        if bool(is_held_out.any()):
            statistics = torch.cat([self.look(each.observation, [found])[0] for each in given])
            ranked = self.ranked(statistics[is_held_out.to(statistics.device)])
            found.calibration = ranked.T.contiguous().sort(-1).values.to(self.calibration)
        return found

    def _learned_numbers(self) -> list[int]:
        return sorted({number for each in self.sets for number, *_ in each.learned})

    def _learned_classes(self) -> list[LearnedClass]:
        """Of all sets together, in the order of their numbers."""
        found: dict[int, LearnedClass] = {}
        for each in self.sets:
            for number, rows in each.rows_by_class().items():
                found[number] = found[number].merged(rows) if number in found else rows
        return [found[number] for number in sorted(found)]

    def _known_means(self) -> Tensor:
        return F.pad(self.centres, (0, self.width - self.centres.shape[1])).cpu()

    def _refit(self) -> list[Tensor]:
        """The readout, which is made of all that is kept and not kept itself.

        Returns:
            For each learned class what it says of the kept rows while each is left out.
        """
        self.known = self._what_is_known(self.sets)
        learned = self._learned_classes()
        if not learned:
            self._set_readout(torch.zeros(self.width + 1, 0), torch.zeros(2))
            return []
        rows, places = self._held_out_rows()
        found, left_out = readout(self._known_means(), learned, rows, places)
        self._set_readout(found.weight, torch.stack([found.temperature, found.bias]))
        return left_out

    def _set_readout(self, weight: Tensor, scale: Tensor) -> None:
        self.readout_weight, self.readout_scale = weight.to(self.projection), scale.to(self.projection)

    def _held_out_rows(self) -> tuple[Tensor, Tensor]:
        """Those of classes that training had seen, with the place of their class among these."""
        labels, classes = self.held_out_labels.cpu(), self.classes.cpu()
        known = torch.isin(labels, classes)
        return self.held_out.cpu()[known], torch.searchsorted(classes, labels[known])

    def _confusion(self, number: int, left_out: Sequence[Tensor]) -> tuple[int, float]:
        """What rows of a learned class are taken for while they are left out, and how often."""
        place = len(self.classes) + number - self.num_classes
        taken = left_out[number - self.num_classes].argmax(-1)
        wrong = taken[taken != place]
        if not len(wrong):
            return number, 0.0
        other = int(wrong.mode().values)
        known = (
            int(self.classes[other])
            if other < len(self.classes)
            else other - len(self.classes) + self.num_classes
        )
        return known, float((taken == other).double().mean())

    def _check_tensors(self) -> None:
        """Raises ValueError where tensors of a file do not belong together, or cannot be used."""
        own = self.state_dict()
        for name, tensor in own.items():
            last = name.rpartition(".")[2]
            kind = torch.int64 if last in _WHOLE else self.factor.dtype if last in _OF_ROWS else None
            if (kind or tensor.dtype) != tensor.dtype or tensor.is_floating_point() == (last in _WHOLE):
                raise ValueError(f"{name} holds {tensor.dtype}")
            if not bool(tensor.isfinite().all()):
                raise ValueError(f"{name} holds numbers that are not finite")
        if not 0 <= int(self.classes.min()) <= int(self.classes.max()) < self.num_classes:
            raise ValueError(f"classes {self.classes.tolist()} of {self.num_classes}")
        rows = self.calibration.shape[-1]
        columns = len(self.weights)
        first, width = len(self.spread), self.width
        expected = {
            "mean": (width,),
            "factor": (width, width),
            "input_mean": (self.directions - self.units,),
            "input_scale": (self.directions - self.units,),
            "centres": (len(self.classes), first),
            "prototypes": (len(self.prototypes), self.directions),
            "calibration": (3, rows),
            "each.reference": (columns, self.each.reference.shape[-1]),
            "numbers.reference": (2, self.numbers.reference.shape[-1]),
            "held_out": (len(self.held_out_labels), width),
        }
        if self.tokens_of is not None:
            expected["tokens"] = (len(self.tokens), self.tokens_of.width)
        if not len(self.prototypes) or (self.tokens_of is not None and not len(self.tokens)):
            raise ValueError("there are no prototypes")
        for name, shape in expected.items():
            if tuple(self.get_buffer(name).shape) != shape:
                raise ValueError(f"{name} has shape {tuple(self.get_buffer(name).shape)}, not {shape}")
        learned = self._learned_numbers()
        if learned != list(range(self.num_classes, self.num_classes + len(learned))):
            raise ValueError(f"learned classes {learned[:10]} beside {self.num_classes}")
        for each in self.sets:
            numbers = [*each.classes, *(number for sizes in each.learned for number in sizes)]
            if not isinstance(each.name, str) or not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError(f"{each.name!r} of classes {each.classes}")
            if max(each.classes, default=0) >= self.num_classes + len(learned):
                raise ValueError(f"{each.name} is of classes {each.classes}")
            shapes = {
                "centres": (len(each.classes), width),
                "prototypes": (len(each.prototypes), self.directions),
                "calibration": (3, each.calibration.shape[-1]),
                "totals": (len(each.learned), width),
                "kept": (sum(kept for *_, kept in each.learned), width),
                "keys": (sum(kept for *_, kept in each.learned),),
            }
            for name, shape in shapes.items():
                if tuple(each.get_buffer(name).shape) != shape:
                    raise ValueError(f"{name} of {each.name} has shape {tuple(each.get_buffer(name).shape)}")


def _shared_out(widths: Sequence[int], columns: int) -> list[int]:
    """How many columns each layer has: the last up to half of them, the others alike, as far as they need."""
    if sum(widths) <= columns or not widths:
        return list(widths)
    last = min(widths[-1], max(columns // 2, columns - sum(widths[:-1]), 1))
    left, shares = columns - last, [0] * (len(widths) - 1) + [last]
    for rank, place in enumerate(sorted(range(len(widths) - 1), key=lambda place: widths[place])):
        shares[place] = max(min(widths[place], left // (len(widths) - 1 - rank)), 1)
        left -= shares[place]
    return shares


def _signs(rows: int, columns: int) -> Tensor:
    """Random signs, made of integers: files do not hold them, and every torch agrees."""
    signs = torch.empty(rows, columns)
    for row in range(rows):  # at once, as integers, they would be twelve times as large
        signs[row] = mixed(torch.arange(row * columns, (row + 1) * columns)) % 2 * 2 - 1
    return signs


def _stays(tap: Tap) -> bool:
    """Whether the columns stand in the joint feature as they are, and not as a direction."""
    return tap.name == INPUTS and tap.kind == "vector" and tap.width <= _WIDEST_TABLE


def _log_p(tails: Tails, scores: Tensor) -> Tensor:
    """Tail probabilities that do not hang on the last digits of scores, rows × statistics."""
    return tails.log_p(less_rounding(scores.double(), tails.spread.T))
