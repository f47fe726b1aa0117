"""The slot for the memory: how familiar is an input, and is it of a class learned since? (docs/memory.md)"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from totalcal.errors import DomainError
from totalcal.memory.features import Tap
from totalcal.memory.rows import Observation, ObservedRows
from totalcal.types import Belief, Familiarity

FEWEST_FOR_A_PROMISE = 48  # rows of a name: two of five are held out, 19 at least, which is 5 %


@dataclass(frozen=True)
class Memorised:
    """What `memorise` learned, in words when printed.

    Attributes:
        name: By which `forget` drops it.
        rows: How many there were.
        held_out: How many of them the p-values of the name are made of; 0 if too few to promise anything.
        new_classes: The classes that the model had not known, by number, or by name if they have one.
        confusions: For each of these, the known class that its rows are most often taken for while they are
            left out of the memory, and how often.
    """

    name: str
    rows: int
    held_out: int
    new_classes: tuple[Any, ...]
    confusions: Mapping[Any, tuple[Any, float]]

    def __str__(self) -> str:
        learned = ", ".join(map(str, self.new_classes))
        words = [f"{self.name}: {self.rows} rows" + (f", new classes {learned}" if learned else "")]
        words += [
            f"{share:.0%} of class {each} would be taken for class {other}"
            for each, (other, share) in self.confusions.items()
            if share
        ]
        return "; ".join([*words, promise_in_words(self.held_out)])


def promise_in_words(held_out: int) -> str:
    """What is promised of rows like those of a name of which so many rows were held out."""
    if not held_out:
        return f"fewer than {FEWEST_FOR_A_PROMISE} rows: its rows are recognised, and nothing is promised"
    return (
        f"{held_out} rows held out: P(familiarity ≤ a) ≤ a for rows like them from a = "
        f"{1 / (held_out + 1):.2g} on"
    )


class Domain(nn.Module, ABC):
    """What a process knows of where its inputs come from, and of classes beyond those of its net.

    Attributes:
        taps: The layers whose features are read in the pass of a prediction.
    """

    taps: Sequence[Tap]

    @abstractmethod
    def judge(self, belief: Belief, observation: Observation | None) -> tuple[Belief, Familiarity | None]:
        """The belief with the classes learned, and how familiar each row is; None without a memory."""

    @abstractmethod
    def memorise(
        self, rows: Iterable[ObservedRows], name: str | None, names: Sequence[Any] | None = None
    ) -> Memorised:
        """Take in labelled rows under a name, outside of gradient descent.

        Classes are spoken of by their `names`, those of new ones included, or by number.
        """

    @abstractmethod
    def forget(self, name: str) -> tuple[int, ...]:
        """Drop what was memorised under a name; the numbers of the classes that go with it."""

    @property
    @abstractmethod
    def num_learned(self) -> int:
        """How many classes were learned beyond those of the net."""

    @property
    @abstractmethod
    def promises(self) -> Mapping[str, str]:
        """What was memorised, by name, and what is promised of rows like it."""


class NoDomain(Domain):
    """Every input is taken for one of the task, and nothing is learned."""

    taps = ()
    num_learned = 0
    promises: Mapping[str, str] = {}

    def judge(self, belief: Belief, observation: Observation | None) -> tuple[Belief, None]:
        return belief, None

    def memorise(
        self, rows: Iterable[ObservedRows], name: str | None, names: Sequence[Any] | None = None
    ) -> Memorised:
        raise DomainError(_NO_MEMORY)

    def forget(self, name: str) -> tuple[int, ...]:
        raise DomainError(_NO_MEMORY)


_NO_MEMORY = (
    "this model has no memory, so it cannot learn after training. Give it one: "
    "totalcal.remember(model, train, held_out)."
)
