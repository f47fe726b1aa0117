"""What the settings in a model file may be, by their names, wherever they stand: checked before any is used.

A file from elsewhere may set anything. What it may not is named here once, for the recipe, the layers, the
gate, the sets and the monitor alike; a setting without a line of its own is any plain finite value.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from totalcal.errors import ModelFileError


class Requirement(NamedTuple):
    """What a setting has to be, in words, and whether a value is."""

    words: str
    fits: Callable[[Any], bool]

    def or_none(self) -> "Requirement":
        return Requirement(f"{self.words}, or nothing,", lambda value: value is None or self.fits(value))

    def or_text(self, text: str) -> "Requirement":
        return Requirement(f"{self.words}, or {text!r},", lambda value: value == text or self.fits(value))

    def or_list(self) -> "Requirement":
        return Requirement(
            f"{self.words}, or a list of these,", lambda value: all(map(self.fits, _listed(value)))
        )


def _whole(least: int, most: int = 2**31) -> Requirement:
    return Requirement(
        f"a whole number from {least} to {most}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
    )


def _real(least: float, most: float, words: str) -> Requirement:
    return Requirement(words, lambda value: _is_number(value) and least <= value <= most)


COUNT, SIZE, TIMES = _whole(0, 2**53), _whole(1), _whole(1, 2**16)
NUMBER = _real(-math.inf, math.inf, "a number")
SHARE = _real(0, 1, "a number from 0 to 1")
POSITIVE = _real(1e-300, 1e300, "a number above 0")
NOT_NEGATIVE = _real(0, math.inf, "a number, 0 or more,")
TEXT = Requirement("a text", lambda value: isinstance(value, str))
FLAG = Requirement("true or false", lambda value: isinstance(value, bool))
STRIDE, EXTENT, AXIS = TIMES.or_list(), _whole(0, 2**16).or_list(), _whole(-32, 32)
NUMBERS = NUMBER.or_list()

SETTINGS: Mapping[str, Requirement] = {
    # of layers of torch
    "start_dim": AXIS, "end_dim": AXIS, "kernel_size": STRIDE, "stride": STRIDE.or_none(), "dilation": STRIDE,
    "groups": TIMES, "in_channels": SIZE, "out_channels": SIZE, "in_features": SIZE, "out_features": SIZE,
    "output_padding": EXTENT, "ceil_mode": FLAG, "inplace": FLAG, "eps": POSITIVE.or_none(), "p": SHARE,
    "momentum": SHARE.or_none(), "num_heads": TIMES, "num_embeddings": SIZE, "embedding_dim": SIZE,
    # of models and their parts
    "num_classes": SIZE, "num_cells": SIZE, "width": SIZE, "write_draws": TIMES,
    "retention": SHARE, "cell_variance": POSITIVE, "prior_variance": POSITIVE, "prior_mean": NUMBER,
    "precision": POSITIVE, "dropout": SHARE, "hidden": STRIDE, "num_inputs": SIZE, "local": NOT_NEGATIVE,
    "latent": NOT_NEGATIVE, "weights": NOT_NEGATIVE, "local_ramp": COUNT, "local_kl_scale": NOT_NEGATIVE,
    "weight_kl_scale": NOT_NEGATIVE, "fade": NOT_NEGATIVE, "widest": SIZE, "most_prototypes": COUNT,
    "calibration_rows": COUNT,
    # of the gate, the sets and the monitor
    "score": TEXT, "verdict": TEXT, "promise": TEXT, "threshold": NUMBER.or_none(), "coverage": SHARE,
    "method": TEXT, "false_alarms": SHARE, "rows": COUNT, "decided": COUNT, "accepted": COUNT,
    "level": POSITIVE, "step": COUNT, "alarm_at": COUNT.or_none(), "ranks": COUNT.or_list(),
    "shares": SHARE.or_list(), "sums": NUMBERS, "log_total": NUMBER, "seed": _whole(0, 2**63).or_none(),
    "scores": NUMBERS.or_none(), "error_before": SHARE, "error_after": SHARE,
    "draws": _whole(0).or_text("moments"), "class_groups": COUNT.or_list(),
    "ask": NOT_NEGATIVE, "miss_ood": NOT_NEGATIVE, "ood": SHARE,
}  # fmt: skip

_USERS = frozenset({"scores", "versions", "summary"})  # at the top: names of the user's own
_DEEPEST = 32


def check_settings(description: Mapping[str, Any]) -> None:
    """Refuse what no model can be set to.

    Raises:
        ModelFileError: If a setting is not what its name says.

    Example:
        >>> check_settings({"settings": {"latent": {"cell_variance": -1}}})
        Traceback (most recent call last):
        totalcal.errors.ModelFileError: it sets settings.latent.cell_variance to '-1', where a number ...
    """
    layers = description.get("settings")
    paths = {f"settings.{path}" for path in layers} if isinstance(layers, dict) else ()  # named by the user
    for path, value in _walked({name: part for name, part in description.items() if name not in _USERS}):
        rule = None if path in paths else SETTINGS.get(path.rpartition(".")[2])
        if isinstance(value, dict) and value.keys() == {"number"}:
            value = {"inf": math.inf, "-inf": -math.inf}.get(str(value["number"]), "nan")
        elif rule is None and isinstance(value, dict | str):
            continue
        if not (rule.fits(value) if rule else _is_plain(value)):
            words = rule.words if rule else "a plain finite value"
            raise ModelFileError(f"it sets {path} to {str(value)[:40]!r}, where {words} is needed.")


def _walked(part: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > _DEEPEST:
        raise ModelFileError(f"it nests {path[:80]} more than {_DEEPEST} deep.")
    named = part.items() if isinstance(part, dict) else ()
    for name, value in named:
        here = f"{path}.{name}".strip(".")
        yield here, value
        for each in [value] if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from _walked(each, here, depth + 1)


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return is_number and (isinstance(value, float) or abs(value) < 2**63)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return not isinstance(value, int | float) or abs(value) < 2**63
