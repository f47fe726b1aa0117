"""What goes wrong, by name. A message says what was expected, what came, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class TotalcalError(Exception):
    """Whatever totalcal itself refuses; the command line prints it as one line."""


class InputError(TotalcalError, ValueError):
    """The numbers given cannot be used: not finite, empty, out of range."""


class ShapeError(InputError):
    """A tensor or array has another shape than the call needs."""


class LabelError(InputError):
    """A label is not a class."""


class ContextError(InputError):
    """A model was given a context it cannot use, or none where it needs one."""


class UnknownNameError(TotalcalError, KeyError):
    """A name stands in no registry; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(self._message())

    def _message(self) -> str:
        near = get_close_matches(self.name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"there is no {self.kind} {self.name!r}.{hint} Known: {', '.join(self.known)}."

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])

    def __reduce__(self) -> tuple[type["UnknownNameError"], tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.kind, self.name, self.known)


class MissingExtraError(TotalcalError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed. Do: pip install 'totalcal[{extra}]'"
        )
