"""The paper's tables as data: Table 2 (results), Table 4 (corruptions).

Percentages are kept as fractions, as in our records; the paper's ECE has 100 bins.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from totalcal.report import Summary, describe

SEEDS = 10

PRINTED_MODELS = ("bnn", "edl", "enp", "etp")

OOD_SETS = {
    "imdb": "random",
    "fashion": "mnist",
    "svhn": "cifar100",
    "cifar10": "svhn",
    "cifar100": "tinyimagenet",
}
"""The out-of-distribution set of each task in Table 2 (appendix B.3 has CIFAR-10 for SVHN)."""


class Printed(NamedTuple):
    """One number of a table."""

    summary: Summary
    bold: bool


@cache
def results() -> dict[tuple[str, str], dict[str, Printed]]:
    """Table 2: (task, score) → model → number; the scores are error, ece_100, nll, auroc."""
    table: dict[tuple[str, str], dict[str, Printed]] = {}
    for row in _rows("results.csv"):
        number = _printed(row, float(row["std"]))
        table.setdefault((row["task"], row["score"]), {})[row["model"]] = number
    return table


@cache
def corruptions() -> dict[tuple[str, int, str], dict[str, Printed]]:
    """Table 4: (task, severity, score) → model → number; the scores are error and ece_100.

    It prints three standard deviations, here divided by three, without saying over what: so `n` is 0.
    """
    table: dict[tuple[str, int, str], dict[str, Printed]] = {}
    for row in _rows("corruptions.csv"):
        number = _printed(row, float(row["three_std"]) / 3, n=0)
        table.setdefault((row["task"], int(row["severity"]), row["score"]), {})[row["model"]] = number
    return table


def _printed(row: dict[str, str], std: float, n: int = SEEDS) -> Printed:
    scale = 100 if describe(row["score"]).percent else 1
    return Printed(Summary(float(row["mean"]) / scale, std / scale, n), row["bold"] == "1")


def _rows(name: str) -> list[dict[str, str]]:
    text = files("totalcal_lab.records").joinpath("paper_tables", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
