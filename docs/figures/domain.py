"""The README's first figure: who tells OOD inputs, from the committed records of the domain benchmark.

python docs/figures/domain.py docs/results/records/fashion.jsonl docs/images/domain.png
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from totalcal.records.domain import CORRUPTION, NO_OOD
from totalcal.records.progress import domain_file
from totalcal.records.store import read

SCORES = {
    "entropy": ("entropy", "#9aa5b1", "o"),
    "energy": ("energy", "#c9a227", "s"),
    "mahalanobis": ("Mahalanobis", "#b56576", "v"),
    "knn": ("50th neighbour", "#5b8e7d", "D"),
    "unfamiliarity": ("familiarity (ours)", "#1b4965", "*"),
}


def draw(records: Path, target: Path, model: str = "softmax") -> None:
    """One row per OOD set, one mark per score: the mean over seeds."""
    lines = [line for line in read(domain_file(records)) if line["model"] == model]
    panel = [line for line in lines if line["ood"] != NO_OOD and not line["ood"].startswith(CORRUPTION)]
    nearness = {line["ood"]: line["nearness"] for line in panel}
    names = sorted(nearness, key=lambda name: (nearness[name] != "near", name))
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for score, (title, colour, mark) in SCORES.items():
        means = [100 * np.mean([x[f"auroc_by_{score}"] for x in panel if x["ood"] == name]) for name in names]
        size = 150 if mark == "*" else 45
        axes.scatter(means, range(len(names)), s=size, c=colour, marker=mark, label=title, zorder=3)
    axes.set_yticks(range(len(names)), [f"{name} ({nearness[name]})" for name in names])
    axes.axvline(50, color="#cccccc", linestyle="--", zorder=1)
    axes.annotate("a coin", (50, len(names) - 0.6), color="#888888", ha="center", fontsize=8)
    axes.grid(axis="y", color="#eeeeee", zorder=0)
    axes.set_xlim(0, 101.5)
    axes.set_xlabel("AUROC of telling Fashion-MNIST from other inputs, % (one plain net, no OOD data seen)")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
