"""Watching a stream of predictions: does it still look like the held-out rows?

Each score of a row (how unfamiliar it is, its entropy, its loss once the label is known) is ranked among the
held-out rows and all rows of the stream so far. While all of them are exchangeable these ranks are
independent and uniform (Vovk, Gammerman and Shafer 2005), for any model and any number of held-out rows. A
bettor who starts with 1 and bets against uniformity then has 100 or more, ever, with probability at most
1/100 (Ville): an alarm that may be looked at after every row. Nothing here needs torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from totalcal.errors import InputError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_EDGES = np.geomspace(1e-6, 1e4, 1023)
"""Scores are binned, so that the memory of a stream is a count per bin. Bins are the same for every model:
made from the held-out rows they would set these apart from new ones."""

_POWERS = np.array([0.1, 0.3, 0.6])
_TENTHS = 10


class Bettor(NamedTuple):
    """log capital of each strategy: idle, three that bet on small ranks p by κ p^(κ − 1), one on large ranks.

    Money moves between strategies at the rate 1/(t + 2) in step t: t rows in order cost a factor of about t
    and no more, so that a change is noticed whenever it comes.
    """

    log_capital: Floats

    @classmethod
    def start(cls) -> Self:
        shares = np.full(len(_POWERS) + 2, 0.5 / (len(_POWERS) + 1))
        shares[0] = 0.5
        return cls(np.log(shares))

    @property
    def total(self) -> float:
        """log of all the money."""
        return float(np.logaddexp.reduce(self.log_capital))

    def bet(self, rank: float, step: int) -> "Bettor":
        """What the bets on one rank leave; E[gain] = 1 for each strategy while ranks are uniform.

        κ p^(κ − 1) integrates to 1 over (0, 1).
        """
        moving = 1 / (step + 2)
        mixed = np.logaddexp(
            np.log1p(-moving) + self.log_capital, np.log(moving / len(self.log_capital)) + self.total
        )
        powers = np.log(_POWERS) + (_POWERS - 1) * np.log(rank)
        mirrored = np.log(_POWERS[-1]) + (_POWERS[-1] - 1) * np.log1p(-rank)
        return Bettor(mixed + np.concatenate([[0.0], powers, [mirrored]]))


@dataclass
class Detector:
    """One score of a stream: how many rows fell into each bin, what the bets have won, when the alarm came.

    `step` counts the rows of the stream; `alarm_at` is the row that took the capital over the level.
    """

    held_out: Counts
    seen: Counts
    level: float
    seed: int
    bettor: Bettor = field(default_factory=Bettor.start)
    step: int = 0
    alarm_at: int | None = None
    ranks: Counts = field(default_factory=lambda: np.zeros(_TENTHS, dtype=np.int64))

    @classmethod
    def start(cls, held_out: Floats, level: float, seed: int = 0) -> Self:
        counts = np.bincount(_bins(held_out), minlength=len(_EDGES) + 1)
        return cls(counts, np.zeros_like(counts), level, seed)

    def update(self, scores: Floats) -> None:
        """Row by row: rank the score among all rows so far and itself, bet, remember it."""
        counts = self.held_out + self.seen
        bits = np.random.PCG64(self.seed).advance(self.step)  # the same, however rows come in batches
        uniforms = np.random.Generator(bits).random(len(scores))
        for position, uniform in zip(_bins(scores), uniforms, strict=True):
            counts[position] += 1
            rank = (counts[position + 1 :].sum() + uniform * counts[position]) / counts.sum()
            self._bet_on(min(max(rank, 1e-300), 1 - 1e-16))
        self.seen = counts - self.held_out

    def _bet_on(self, rank: float) -> None:
        self.bettor = self.bettor.bet(rank, self.step)
        self.step += 1
        self.ranks[min(int(rank * _TENTHS), _TENTHS - 1)] += 1
        if self.alarm_at is None and self.bettor.total >= np.log(self.level):
            self.alarm_at = self.step

    def merged(self, other: "Detector") -> "Detector":
        """Two streams as one: rows add up; capitals are averaged, since a mean of fair bets is a fair bet."""
        if self.level != other.level or not np.array_equal(self.held_out, other.held_out):
            raise InputError("monitors can be merged only if they started from the same held-out rows.")
        capital = np.logaddexp(self.bettor.log_capital, other.bettor.log_capital) - np.log(2)
        both = Detector(
            self.held_out,
            self.seen + other.seen,
            self.level,
            self.seed,
            Bettor(capital),
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
            "log_capital": self.bettor.log_capital.tolist(),
            "step": self.step,
            "alarm_at": self.alarm_at,
            "ranks": self.ranks.tolist(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            _counts(content["held_out"]),
            _counts(content["seen"]),
            content["level"],
            content["seed"],
            Bettor(np.array(content["log_capital"])),
            content["step"],
            content["alarm_at"],
            np.array(content["ranks"], dtype=np.int64),
        )


@dataclass(frozen=True)
class Status:
    """What a monitor knows of a stream, for people and for metrics."""

    rows: int
    accepted: float | None
    alarms: Mapping[str, int]
    capital: Mapping[str, float]
    rank_shares: Mapping[str, Floats]

    @property
    def in_order(self) -> bool:
        return not self.alarms

    def __str__(self) -> str:
        said = [f"{self.rows} rows"]
        if self.accepted is not None:
            said.append(f"{self.accepted:.1%} accepted")
        if self.in_order:
            said.append("no sign of a shift")
        said += [f"alarm: {name} shifted, noticed at row {row}" for name, row in self.alarms.items()]
        return "; ".join(said)


@dataclass
class Monitor:
    """Watches the scores of a stream against those of held-out rows, with an alarm that holds its level.

    A stream whose rows are exchangeable with the held-out ones, of any length, raises any alarm with
    probability at most `false_alarms`: the level is shared among the scores. Monitors of several servers that
    started from the same held-out rows are merged by `merged`.
    """

    detectors: dict[str, Detector]
    false_alarms: float
    rows: int = 0
    decided: int = 0
    accepted: int = 0

    @classmethod
    def start(
        cls, held_out: Mapping[str, npt.ArrayLike], false_alarms: float = 0.01, seed: int = 0
    ) -> "Monitor":
        """A monitor from scores of held-out rows.

        Args:
            held_out: One array per score, larger is stranger, all non-negative: for instance
                `{"unfamiliarity": …, "entropy": …, "nll": …}`.
            false_alarms: The probability that an in-domain stream ever raises an alarm.
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
            raise InputError("a monitor needs at least one score of the held-out rows, but none came.")
        level = len(held_out) / false_alarms
        scores = {name: _checked(values, name) for name, values in held_out.items()}
        return cls(
            {name: Detector.start(values, level, seed) for name, values in scores.items()}, false_alarms
        )

    def update(self, scores: Mapping[str, npt.ArrayLike], accepted: npt.ArrayLike | None = None) -> Status:
        """Take rows in, in order.

        Args:
            scores: One array per score. Any may be left out: labels, and with them the loss, come later.
            accepted: Which of the rows a gate accepted, if there is one.

        Returns:
            The status after these rows.

        Raises:
            InputError: If a score was not watched from the start, is negative or is not finite.
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
        self.rows += max((len(values) for name, values in checked.items() if name != "nll"), default=0)
        if accepted is not None:
            flags = np.asarray(accepted, dtype=bool)
            self.decided += flags.size
            self.accepted += int(flags.sum())
        return self.status

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
        )

    @property
    def status(self) -> Status:
        watched = self.detectors.items()
        return Status(
            self.rows,
            self.accepted / self.decided if self.decided else None,
            {name: each.alarm_at for name, each in watched if each.alarm_at is not None},
            {name: float(np.exp(min(each.bettor.total, 700.0))) for name, each in watched},
            {name: each.ranks / max(each.step, 1) for name, each in watched},
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "false_alarms": self.false_alarms,
            "rows": self.rows,
            "decided": self.decided,
            "accepted": self.accepted,
            "detectors": {name: each.as_json() for name, each in self.detectors.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Monitor":
        detectors = {name: Detector.from_json(each) for name, each in content["detectors"].items()}
        return cls(
            detectors, content["false_alarms"], content["rows"], content["decided"], content["accepted"]
        )


def watched_scores(prediction: Any, labels: npt.ArrayLike | None = None) -> dict[str, Floats]:
    """What a monitor watches of a `Predictive`: entropy, unfamiliarity if the model remembers its domain,
    and the loss where labels (class numbers) are known.

    Example:
        `totalcal.save(model, path, monitor=Monitor.start(watched_scores(held_out_prediction, labels)))`
    """
    probabilities = np.asarray(prediction.probabilities, dtype=np.float64)
    found = {"entropy": np.maximum(np.asarray(prediction.entropy, dtype=np.float64), 0)}
    if prediction.domain is not None:
        found["unfamiliarity"] = np.asarray(prediction.unfamiliarity, dtype=np.float64)
    if labels is not None:
        chosen = probabilities[np.arange(len(probabilities)), np.asarray(labels)]
        found["nll"] = -np.log(np.clip(chosen, 1e-300, 1.0))
    return found


def _bins(scores: Floats) -> Counts:
    return np.searchsorted(_EDGES, scores).astype(np.int64)


def _pairs(counts: Counts) -> list[list[int]]:
    """(bin, count) of the bins that are not empty: most are."""
    return [[int(place), int(counts[place])] for place in np.flatnonzero(counts)]


def _counts(pairs: list[list[int]]) -> Counts:
    counts = np.zeros(len(_EDGES) + 1, dtype=np.int64)
    for place, count in pairs:
        counts[place] = count
    return counts


def _checked(values: npt.ArrayLike, name: str) -> Floats:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if scores.size == 0 or not np.isfinite(scores).all() or (scores < 0).any():
        raise InputError(
            f"the score {name!r} must be finite and not negative, with at least one row; "
            f"{scores.size} came, {int((~np.isfinite(scores)).sum())} of them not finite."
        )
    return scores
