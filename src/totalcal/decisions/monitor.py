"""Watching a stream of predictions: does it still look like the held-out rows?

Each score of a row (how unfamiliar it is, its entropy, its loss once the label is known) is ranked among the
held-out rows and all rows of the stream so far. While all of them are exchangeable these ranks are
independent and uniform (Vovk, Gammerman and Shafer 2005), for any model and any number of held-out rows. A
bettor who starts with 1 and bets against uniformity then has 100 or more, ever, with probability at most
1/100 (Ville): an alarm that may be looked at after every row. Nothing here needs torch.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from totalcal.errors import InputError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

NLL, OVERCONFIDENCE = "nll", "overconfidence"
_WAYS = {"far_from_domain": "far from everything seen", "far_from_classes": "unlike any class"}
WITH_LABELS = frozenset({NLL, OVERCONFIDENCE})

_EDGES = np.geomspace(1e-6, 1e4, 1023)
"""Scores are binned, so that the memory of a stream is a count per bin. Bins are the same for every model:
made from the held-out rows they would set these apart from new ones."""

_POWERS = (0.1, 0.3, 0.6)
_TENTHS = 10
_BLOCK = 256
_ENOUGH = 30  # rows of a class
_MILLION = 10**6


class Bettor(NamedTuple):
    """All the money, as a logarithm, and how it is shared among strategies.

    One is idle, three bet on small ranks p by κ p^(κ − 1), one bets on large ranks. Money moves between
    strategies at the rate 1/(t + 2) in step t: t rows in order cost a factor of about t and no more, so that
    a change is noticed whenever it comes.
    """

    total: float
    shares: tuple[float, ...]

    @classmethod
    def start(cls) -> Self:
        return cls(0.0, (0.5, *[0.5 / (len(_POWERS) + 1)] * (len(_POWERS) + 1)))

    @property
    def log_capital(self) -> Floats:
        """Of each strategy."""
        return self.total + np.log(self.shares)

    def bet(self, ranks: Sequence[float], step: int) -> tuple["Bettor", list[float]]:
        """What the bets on one rank after the other leave, and log of all the money after each.

        κ p^(κ − 1) integrates to 1 over (0, 1): E[gain] = 1 for each strategy while ranks are uniform. Plain
        floats: a step needs the one before it, and an array of five is slower than five numbers.
        """
        total, shares, totals = self.total, self.shares, []
        slow, middle, quick = _POWERS
        for rank in ranks:
            moving = 1 / (step + 2)
            kept, even = 1 - moving, moving / len(shares)
            idle, first, second, third, mirrored = shares
            left = (
                kept * idle + even,
                (kept * first + even) * slow * rank ** (slow - 1),
                (kept * second + even) * middle * rank ** (middle - 1),
                (kept * third + even) * quick * rank ** (quick - 1),
                (kept * mirrored + even) * quick * (1 - rank) ** (quick - 1),
            )
            factor = left[0] + left[1] + left[2] + left[3] + left[4]
            shares = tuple([each / factor for each in left])
            total += math.log(factor)
            totals.append(total)
            step += 1
        return Bettor(total, shares), totals


@dataclass
class Detector:
    """One score of a stream: how many rows fell into each bin, what the bets have won, when the alarm came.

    `step` counts the rows of the stream; `alarm_at` is the row that took the capital over the level. `sums`
    are those of the scores in millionths, of the held-out rows and of the stream: whole numbers, which add up
    alike in any order.
    """

    held_out: Counts
    seen: Counts
    level: float
    seed: int
    sums: tuple[int, int]
    bettor: Bettor = field(default_factory=Bettor.start)
    step: int = 0
    alarm_at: int | None = None
    ranks: Counts = field(default_factory=lambda: np.zeros(_TENTHS, dtype=np.int64))

    @classmethod
    def start(cls, held_out: Floats, level: float, seed: int = 0) -> Self:
        counts = np.bincount(_bins(held_out), minlength=len(_EDGES) + 1)
        return cls(counts, np.zeros_like(counts), level, seed, (_millionths(held_out), 0))

    @property
    def means(self) -> tuple[float, float]:
        """Of the held-out rows, and of the stream; NaN before its first row."""
        before, now = self.sums
        stream = now / _MILLION / self.step if self.step else math.nan
        return before / _MILLION / int(self.held_out.sum()), stream

    def update(self, scores: Floats) -> None:
        """Row by row: rank the score among all rows so far and itself, bet, remember it."""
        bits = np.random.PCG64(self.seed).advance(self.step)  # the same, however rows come in batches
        uniforms = np.random.Generator(bits).random(len(scores))
        bins = _bins(scores)
        for start in range(0, len(bins), _BLOCK):
            block = slice(start, start + _BLOCK)
            self._bet_on(self._ranked(bins[block], uniforms[block]))
            self.seen = self.seen + np.bincount(bins[block], minlength=len(self.seen))
        self.sums = self.sums[0], self.sums[1] + _millionths(scores)

    def _ranked(self, bins: Counts, uniforms: Floats) -> Floats:
        """The share of rows with a larger score, ties broken at random, among all up to each row."""
        counts = self.held_out + self.seen
        larger = np.append(counts[::-1].cumsum()[-2::-1], 0)
        is_earlier = np.tri(len(bins), k=-1, dtype=bool)
        above = larger[bins] + (is_earlier & (bins > bins[:, None])).sum(1)
        alike = counts[bins] + (is_earlier & (bins == bins[:, None])).sum(1) + 1
        ranks: Floats = (above + uniforms * alike) / (counts.sum() + np.arange(1, len(bins) + 1))
        return ranks.clip(1e-300, 1 - 1e-16)

    def _bet_on(self, ranks: Floats) -> None:
        self.bettor, totals = self.bettor.bet(ranks.tolist(), self.step)
        if self.alarm_at is None:
            over = np.flatnonzero(np.array(totals) >= math.log(self.level))
            self.alarm_at = self.step + int(over[0]) + 1 if len(over) else None
        self.step += len(ranks)
        tenths = np.minimum(ranks * _TENTHS, _TENTHS - 1).astype(np.int64)
        self.ranks = self.ranks + np.bincount(tenths, minlength=_TENTHS)

    def merged(self, other: "Detector") -> "Detector":
        """Two streams as one: rows add up; capitals are averaged, since a mean of fair bets is a fair bet."""
        if self.level != other.level or not np.array_equal(self.held_out, other.held_out):
            raise InputError("monitors can be merged only if they started from the same held-out rows.")
        capital = np.logaddexp(self.bettor.log_capital, other.bettor.log_capital) - np.log(2)
        total = float(np.logaddexp.reduce(capital))
        both = Detector(
            self.held_out,
            self.seen + other.seen,
            self.level,
            self.seed,
            (self.sums[0], self.sums[1] + other.sums[1]),
            Bettor(total, tuple(np.exp(capital - total).tolist())),
            self.step + other.step,
            ranks=self.ranks + other.ranks,
        )
        both.alarm_at = both.step if both.bettor.total >= np.log(both.level) else None
        return both

    def as_json(self) -> dict[str, Any]:
        """Plain values: a few kilobytes, however long the stream was."""
        return {
            "held_out": _pairs(self.held_out),
            "seen": _pairs(self.seen),
            "level": self.level,
            "seed": self.seed,
            "sums": list(self.sums),
            "log_total": self.bettor.total,
            "shares": list(self.bettor.shares),
            "step": self.step,
            "alarm_at": self.alarm_at,
            "ranks": self.ranks.tolist(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        held_out, seen = _counts(content["held_out"]), _counts(content["seen"])
        ranks = np.array(content["ranks"], dtype=np.int64)
        if ranks.shape != (_TENTHS,):
            raise InputError(f"a monitor has {_TENTHS} shares of ranks, but got {ranks.size}.")
        of_held_out, of_stream = map(int, content["sums"])
        shares = tuple(map(float, content["shares"]))
        level, step, alarm_at = float(content["level"]), int(content["step"]), content["alarm_at"]
        if not held_out.any() or min(level, *shares) <= 0 or len(shares) != len(Bettor.start().shares):
            raise ValueError("there are no held-out rows, no money, or no level")
        return cls(
            held_out,
            seen,
            level,
            int(content["seed"]),
            (of_held_out, of_stream),
            Bettor(float(content["log_total"]), shares),
            step,
            None if alarm_at is None else int(alarm_at),
            ranks,
        )


@dataclass(frozen=True)
class Status:
    """What a monitor knows of a stream, for people and for metrics.

    Attributes:
        rows: Of the stream.
        accepted: The share of them that the gate accepted, where there is one.
        alarms: By score, the row at which it was found to have shifted.
        capital: By score, what the bets have made of 1.
        rank_shares: By score, how many rows rank in each tenth of the held-out ones: even when all is well.
        means: By score, that of the held-out rows and that of the stream.
        labelled: How many labels have come.
        by_class: By predicted class, how many rows were decided about, and how many of these accepted.
    """

    rows: int
    accepted: float | None
    alarms: Mapping[str, int]
    capital: Mapping[str, float]
    rank_shares: Mapping[str, Floats]
    means: Mapping[str, tuple[float, float]]
    labelled: int
    by_class: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def in_order(self) -> bool:
        return not self.alarms

    def __str__(self) -> str:
        said = [f"{self.rows} {'row' if self.rows == 1 else 'rows'}"]
        if self.accepted is not None:
            by_class = {name: yes / rows for name, (rows, yes) in self.by_class.items() if rows >= _ENOUGH}
            least = min(by_class, key=lambda name: by_class[name]) if len(by_class) > 1 else None
            more = "" if least is None else f" ({by_class[least]:.1%} of {least}, the least of all classes)"
            said.append(f"{self.accepted:.1%} accepted{more}")
        if self.in_order:
            said.append("no sign of a shift")
        if self.labelled:
            held_out, stream = (mean - 1 for mean in self.means[OVERCONFIDENCE])
            said.append(
                f"confidence less accuracy {stream:+.3f} over {self.labelled} labels, "
                f"{held_out:+.3f} held out"
            )
        said += [f"alarm: {name} shifted, noticed at row {row}" for name, row in self.alarms.items()]
        if (
            any(name in self.alarms for name in ("unfamiliarity", *_WAYS))
            and _WAYS.keys() <= self.capital.keys()
        ):
            said.append(
                f"inputs are {_WAYS[max(_WAYS, key=lambda name: self.capital[name])]}, rather than the other"
            )
        return "; ".join(said)


@dataclass
class Monitor:
    """Watches the scores of a stream against those of held-out rows, with an alarm that holds its level.

    A stream whose rows are exchangeable with the held-out ones, of any length, raises any alarm with
    probability at most `false_alarms`: the level is shared among the scores. Monitors of several servers that
    started from the same held-out rows are merged by `merged`.

    Attributes:
        detectors: One per score.
        false_alarms: The probability that an in-distribution stream ever raises an alarm.
        rows: How many rows of the stream were seen.
        decided: How many of them a gate decided about.
        accepted: How many it accepted.
        by_class: The same two by predicted class.

    Example:
        >>> monitor = Monitor.start({"entropy": np.linspace(0.01, 1, 200)})
        >>> monitor.update({"entropy": [0.3, 0.7]}).in_order
        True
    """

    detectors: dict[str, Detector]
    false_alarms: float
    rows: int = 0
    decided: int = 0
    accepted: int = 0
    by_class: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def start(
        cls, held_out: Mapping[str, npt.ArrayLike], false_alarms: float = 0.01, seed: int = 0
    ) -> "Monitor":
        """A monitor from scores of held-out rows.

        Args:
            held_out: One array per score, larger is less familiar, all non-negative: for instance
                `{"unfamiliarity": …, "entropy": …, "nll": …}`.
            false_alarms: The probability that an in-distribution stream ever raises an alarm.
            seed: Ties between rows are broken at random, from this seed.

        Returns:
            A monitor that has seen no row of a stream.

        Raises:
            InputError: If a score is negative, not finite or has no rows, or the level is no probability.

        Example:
            >>> monitor = Monitor.start({"entropy": np.linspace(0.01, 1, 200)})
            >>> monitor.update({"entropy": np.full(20, 1.6)}).alarms
            {'entropy': 2}
        """
        if not 0 < false_alarms < 1:
            raise InputError(f"false_alarms is a probability between 0 and 1, but is {false_alarms}.")
        if not held_out:
            raise InputError("a monitor needs at least one score of the held-out rows, but got none.")
        level = len(held_out) / false_alarms
        scores = {name: _checked(values, name) for name, values in held_out.items()}
        return cls(
            {name: Detector.start(values, level, seed) for name, values in scores.items()}, false_alarms
        )

    def update(
        self,
        scores: Mapping[str, npt.ArrayLike],
        accepted: npt.ArrayLike | None = None,
        predicted: Sequence[Any] | None = None,
    ) -> Status:
        """Take rows in, in order.

        Args:
            scores: One array per score. Any may be left out: labels, and with them the loss, come later.
            accepted: Which of the rows a gate accepted, if there is one.
            predicted: The classes predicted for them, to count by class what was accepted.

        Returns:
            The status after these rows.

        Raises:
            InputError: If a score was not watched from the start, is negative or is not finite.

        Example:
            >>> monitor = Monitor.start({"entropy": [0.1, 0.2, 0.3]})
            >>> monitor.update({"entropy": [0.2, 0.1]}).rows
            2
        """
        checked = {name: _checked(values, name) for name, values in scores.items()}
        for name in checked:
            if name not in self.detectors:
                raise InputError(
                    f"{name!r} was not among the held-out scores ({', '.join(self.detectors)}). "
                    "Start the monitor with it."
                )
        for name, values in checked.items():
            self.detectors[name].update(values)
        self.rows += max(
            (len(values) for name, values in checked.items() if name not in WITH_LABELS), default=0
        )
        if accepted is not None:
            flags = np.asarray(accepted, dtype=bool)
            self.decided += flags.size
            self.accepted += int(flags.sum())
            for name, flag in zip(() if predicted is None else predicted, flags.tolist(), strict=False):
                rows, yes = self.by_class.get(str(name), (0, 0))
                self.by_class[str(name)] = rows + 1, yes + flag
        return self.status

    def for_another_stream(self, seed: int | None = None) -> "Monitor":
        """The same held-out rows before the first row of another stream, which breaks ties in its own way.

        With one seed for all, the monitors of a hundred servers would win and lose their bets together.

        Args:
            seed: Where ties are broken from; a chance of its own if not given.

        Example:
            >>> monitor = Monitor.start({"entropy": [0.1, 0.2, 0.3]})
            >>> first, second = (monitor.for_another_stream() for _ in range(2))
            >>> first.detectors["entropy"].seed == second.detectors["entropy"].seed
            False
        """
        own = secrets.randbits(62) if seed is None else seed
        fresh = {
            name: Detector(each.held_out, np.zeros_like(each.held_out), each.level, own, (each.sums[0], 0))
            for name, each in self.detectors.items()
        }
        return Monitor(fresh, self.false_alarms)

    def merged(self, other: "Monitor") -> "Monitor":
        """The streams of two servers that started from the same held-out rows, as one."""
        if self.detectors.keys() != other.detectors.keys() or self.false_alarms != other.false_alarms:
            raise InputError("monitors can be merged only if they watch the same scores at the same level.")
        detectors = {name: each.merged(other.detectors[name]) for name, each in self.detectors.items()}
        return Monitor(
            detectors,
            self.false_alarms,
            self.rows + other.rows,
            self.decided + other.decided,
            self.accepted + other.accepted,
            {
                name: (mine[0] + theirs[0], mine[1] + theirs[1])
                for name in {**self.by_class, **other.by_class}
                for mine, theirs in [(self.by_class.get(name, (0, 0)), other.by_class.get(name, (0, 0)))]
            },
        )

    @property
    def status(self) -> Status:
        """What the monitor has found so far."""
        watched = self.detectors.items()
        return Status(
            self.rows,
            self.accepted / self.decided if self.decided else None,
            {name: each.alarm_at for name, each in watched if each.alarm_at is not None},
            {name: float(np.exp(min(each.bettor.total, 700.0))) for name, each in watched},
            {name: each.ranks / max(each.step, 1) for name, each in watched},
            {name: each.means for name, each in watched},
            self.detectors[OVERCONFIDENCE].step if OVERCONFIDENCE in self.detectors else 0,
            dict(self.by_class),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "false_alarms": self.false_alarms,
            "rows": self.rows,
            "decided": self.decided,
            "accepted": self.accepted,
            "by_class": [[name, rows, yes] for name, (rows, yes) in self.by_class.items()],
            "detectors": {name: each.as_json() for name, each in self.detectors.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Monitor":
        """The monitor that `as_json` described.

        Raises:
            InputError: If it described none.
        """
        try:
            detectors = {name: Detector.from_json(each) for name, each in content["detectors"].items()}
            by_class = {str(name): (int(rows), int(yes)) for name, rows, yes in content["by_class"]}
            rows, decided, accepted = (int(content[name]) for name in ("rows", "decided", "accepted"))
            made = cls(detectors, float(content["false_alarms"]), rows, decided, accepted, by_class)
            if not detectors or not 0 < made.false_alarms <= 1:
                raise ValueError(f"{len(detectors)} scores, {made.false_alarms} false alarms")
            str(made.status)  # whatever it is asked for
            return made
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            raise InputError(
                f"what should be the state of a monitor is none ({error!r:.80}): start a new one."
            ) from error


def watched_scores(prediction: Any, labels: npt.ArrayLike | None = None) -> dict[str, Floats]:
    """What a monitor watches of a `Predictive`: entropy, unfamiliarity if the model remembers its domain,
    and, where labels (class numbers) are known, loss and overconfidence.

    Example:
        `totalcal.save(model, path, monitor=Monitor.start(watched_scores(held_out_prediction, labels)))`
    """
    probabilities = _on_host(prediction.probabilities)
    found = {"entropy": np.maximum(_on_host(prediction.entropy), 0)}
    if prediction.domain is not None:
        found["unfamiliarity"] = _on_host(prediction.unfamiliarity)
        for name in _WAYS:  # far from everything that was seen, or unlike any class of it: which one moved?
            found[name] = np.maximum(_on_host(getattr(prediction.domain, name)), 0)
    if labels is not None:
        chosen = probabilities[np.arange(len(probabilities)), _on_host(labels).astype(np.int64)]
        found |= label_scores(chosen, probabilities.max(1))
    return found


def _on_host(values: Any) -> Floats:
    """An array, or a tensor of any device; this file knows no torch."""
    array = values.numpy(force=True) if hasattr(values, "numpy") else values
    return np.asarray(array, dtype=np.float64)


def label_scores(chosen: Floats, confidence: Floats) -> dict[str, Floats]:
    """What labels tell: the loss, and 1 + confidence − correct, whose mean is 1 while a model is calibrated.

    Args:
        chosen: The probability of the true class of each row.
        confidence: The largest probability of each row.
    """
    return {
        NLL: -np.log(np.clip(chosen, 1e-300, 1.0)),
        OVERCONFIDENCE: 1 + np.minimum(confidence, 1.0) - (chosen >= confidence),
    }


def _bins(scores: Floats) -> Counts:
    return np.searchsorted(_EDGES, scores).astype(np.int64)


def _millionths(scores: Floats) -> int:
    """Σ in whole millionths; a score beyond the last bin counts as its edge."""
    return int(np.rint(np.minimum(scores, _EDGES[-1]) * _MILLION).astype(np.int64).sum())


def _pairs(counts: Counts) -> list[list[int]]:
    """(bin, count) of the bins that are not empty: most are."""
    return [[int(place), int(counts[place])] for place in np.flatnonzero(counts)]


def _counts(pairs: list[list[int]]) -> Counts:
    counts = np.zeros(len(_EDGES) + 1, dtype=np.int64)
    for place, count in pairs:
        if place < 0 or count < 0:
            raise ValueError(f"{count} in bin {place}")
        counts[place] = count
    return counts


def _checked(values: npt.ArrayLike, name: str) -> Floats:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if scores.size == 0 or not np.isfinite(scores).all() or (scores < 0).any():
        raise InputError(
            f"the score {name!r} must be finite and not negative, with at least one row; "
            f"got {scores.size}, {int((~np.isfinite(scores)).sum())} of them not finite."
        )
    return scores
