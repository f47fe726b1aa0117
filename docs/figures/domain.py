"""Who tells OOD inputs, from the committed records of the domain benchmark:

python docs/figures/domain.py docs/images/domain.png docs/results/records/fashion.jsonl
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from totalcal.report import Record
from totalcal_lab.records.domain import CORRUPTION, NO_OOD
from totalcal_lab.records.progress import domain_file
from totalcal_lab.records.store import read_records

SCORES = {
    "entropy": ("entropy", "#9aa5b1", "o"),
    "energy": ("energy", "#c9a227", "s"),
    "mahalanobis": ("Mahalanobis", "#b56576", "v"),
    "knn": ("50th neighbour", "#5b8e7d", "D"),
    "unfamiliarity": ("familiarity (ours)", "#1b4965", "*"),
}


def draw_panel(target: Path, records: Path, model: str = "softmax") -> None:
    """One row per OOD set, one mark per score: the mean over seeds."""
    panel = panel_of(lines_of(records, model))
    nearness = {line["ood"]: line["nearness"] for line in panel}
    names = sorted(nearness, key=lambda name: (nearness[name] != "near", name))
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for score, (title, colour, mark) in SCORES.items():
        means = [100 * np.mean([x[f"auroc_by_{score}"] for x in panel if x["ood"] == name]) for name in names]
        size = 150 if mark == "*" else 45
        axes.scatter(means, range(len(names)), s=size, c=colour, marker=mark, label=title, zorder=3)
    axes.set_yticks(range(len(names)), [f"{name} ({nearness[name]})" for name in names])
    axes.axvline(50, color="#cccccc", linestyle="--", zorder=1)
    axes.annotate("chance", (50, len(names) - 0.6), color="#888888", ha="center", fontsize=8)
    axes.grid(axis="y", color="#eeeeee", zorder=0)
    axes.set_xlim(0, 101.5)
    axes.set_xlabel("AUROC of telling Fashion-MNIST from other inputs, % (plain net, no OOD data seen)")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    without_frame(axes)
    figure.savefig(target, dpi=130)


def lines_of(records: Path, model: str) -> list[Record]:
    return [line for line in read_records(domain_file(records)) if line["model"] == model]


def panel_of(lines: list[Record]) -> list[Record]:
    return [line for line in lines if line["ood"] != NO_OOD and not line["ood"].startswith(CORRUPTION)]


def without_frame(axes: plt.Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


if __name__ == "__main__":
    _, target, records = sys.argv
    draw_panel(Path(target), Path(records))
