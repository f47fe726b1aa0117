"""What goes wrong, by name. A message says what was expected, what was found, and what to do."""

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches


class TotalcalError(Exception):
    """Whatever totalcal itself refuses; the command line prints it as one line."""


class InputError(TotalcalError, ValueError):
    """The numbers given cannot be used: not finite, empty, out of range."""


class NotFiniteError(InputError):
    """Some rows are not finite, or have no finite prediction; the others can be used."""


class ShapeError(InputError):
    """A tensor or array has another shape than the call needs."""


class LabelError(InputError):
    """A label is not a class."""


class ContextError(InputError):
    """A model was given a context it cannot use, or none where it needs one."""


class DomainError(InputError):
    """A predictor without a domain memory was asked how familiar an input is."""


class UnknownNameError(TotalcalError, KeyError):
    """A name is in no registry; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        near = get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"there is no {kind} {name!r}.{hint} Known: {', '.join(self.known)}.")

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])

    def __reduce__(self) -> tuple[type["UnknownNameError"], tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.kind, self.name, self.known)


class MissingExtraError(TotalcalError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed. Run: pip install 'totalcal[{extra}]'"
        )


class DataError(TotalcalError):
    """A data set cannot be read: its files are not in the format they should be in."""


class UnreadableFileError(DataError, InputError):
    """A file is absent, is damaged, is of another kind, or asks for more than is allowed."""


class IntegrityError(DataError):
    """A file is not the one it should be; the message names it, the digest expected and the one found."""


class SourceError(DataError):
    """A data set could not be fetched from a source, or from any of them."""


class GateError(InputError):
    """The held-out data cannot support the promise that a gate was asked for."""


class ModelFileError(TotalcalError):
    """A model file is damaged, hostile, made by a newer version, or does not fit what it is loaded into."""


class DivergenceError(TotalcalError, ArithmeticError):
    """The loss of a training run is not finite."""


class CheckpointError(TotalcalError):
    """A run cannot resume from a checkpoint: it is of a newer format, of another run, or absent."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint file is not what was written."""


class ExportError(TotalcalError):
    """A model has no form as a program on its own; the message says why."""


def printable(text: str) -> str:
    r"""Text with every control character spelled out, so that a name can neither colour nor clear a terminal.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter) in _CONTROLS else letter
        for letter in text
    )


_CONTROLS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # also what turns the direction of writing
