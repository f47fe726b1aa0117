"""What `calibrate` did: which rows served what, what was gained, what is promised and what is not."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class CalibrationSummary:
    """The story of a calibrated model in plain values; `str` tells it in ten lines.

    Attributes:
        train_rows: How many rows the memory was written from; 0 without a memory.
        fitting_rows: Held-out rows that calibrator and tails were fitted on.
        promise_rows: Held-out rows that familiarity, decisions and sets are ranks among.
        split: The split in words.
        calibrator: What cross-validation said of nothing, temperature, and temperature and bias.
        before: Scores of the net as it was, on the promise rows: `error`, `nll`, `ece`.
        after: The same after calibration.
        layers: The layers that the memory reads; none without a memory.
        promises: What holds for inputs like the held-out ones, and what could not be promised.
        notes: What else there is to know.
    """

    train_rows: int
    fitting_rows: int
    promise_rows: int
    split: str
    calibrator: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    layers: tuple[str, ...]
    promises: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        remembered = (
            f"{self.train_rows} training rows, read at {', '.join(self.layers)}" if self.layers else "none"
        )
        return "\n".join(
            [
                f"held-out rows: {self.split}",
                f"calibrator:    {self.calibrator}",
                f"gain:          {_gain(self.before, self.after)} (rows of the promises)",
                f"memory:        {remembered}",
                *(f"promise:       {promise}" for promise in self.promises),
                *(f"note:          {note}" for note in self.notes),
            ]
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What `as_json` described."""
        lists = {name: tuple(map(str, content[name])) for name in ("layers", "promises", "notes")}
        scores = {
            when: {name: float(value) for name, value in content[when].items()}
            for when in ("before", "after")
        }
        _gain(**scores)
        return cls(**{**content, **lists, **scores})


def _gain(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    return (
        f"NLL {before['nll']:.4f} → {after['nll']:.4f}, ECE {before['ece']:.1%} → {after['ece']:.1%}, "
        f"error {before['error']:.1%} → {after['error']:.1%}"
    )
