"""Predictions saved by any framework: an .npz with `labels` and one array, whose name states its kind."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy.typing as npt

from totalcal.errors import InputError
from totalcal.reading import npz_names, read_npz
from totalcal.scores.evaluate import evaluate_outputs
from totalcal.scores.foreign import OutputKind
from totalcal.scores.verdict import Verdict

KINDS: tuple[OutputKind, ...] = get_args(OutputKind)


class SavedOutputs(NamedTuple):
    """The content of a file: outputs n × K or draws × n × K, what they are, and labels if there are any."""

    outputs: npt.NDArray[Any]
    kind: OutputKind
    labels: npt.NDArray[Any] | None


def evaluate_files(
    predictions: str | os.PathLike[str],
    ood: Sequence[str | os.PathLike[str]] = (),
    *,
    bins: int = 15,
    uncertainty: str = "entropy",
) -> Verdict:
    """Judge a file of predictions, with files of predictions on foreign inputs, named by their stems."""
    test = read_outputs(predictions)
    if test.labels is None:
        raise InputError(f"{predictions} holds no `labels`; a test set needs them.")
    panel = {}
    for path in ood:
        foreign = read_outputs(path)
        if foreign.kind != test.kind:
            raise InputError(
                f"{path} holds {foreign.kind}, but {predictions} holds {test.kind}: save both alike."
            )
        if (name := Path(path).stem) in panel:
            raise InputError(f"two foreign sets are called {name!r}; give their files different names.")
        panel[name] = foreign.outputs
    return evaluate_outputs(test.outputs, test.labels, test.kind, panel, bins=bins, uncertainty=uncertainty)


def read_outputs(path: str | os.PathLike[str]) -> SavedOutputs:
    """Read an .npz; it must hold exactly one of the kinds of output."""
    arrays = read_npz(path, (*KINDS, "labels"))
    kinds: list[OutputKind] = [kind for kind in KINDS if kind in arrays]
    if len(kinds) != 1:
        found = ", ".join(npz_names(path)) or "nothing"
        raise InputError(f"{path} must hold exactly one of {', '.join(KINDS)}, but it holds {found}.")
    return SavedOutputs(arrays[kinds[0]], kinds[0], arrays.get("labels"))
