"""Two figures from the committed records of the domain benchmark.

Who tells OOD inputs, the README's first figure:

    python docs/figures/domain.py panel docs/images/domain.png docs/results/records/fashion.jsonl

What fading gives and what it costs:

    python docs/figures/domain.py fading docs/images/fading.png docs/results/records/{fashion,best}.jsonl
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from totalcal.report import Record
from totalcal_lab.records.domain import CORRUPTION, FADES, NO_OOD
from totalcal_lab.records.progress import domain_file
from totalcal_lab.records.store import read_records

SCORES = {
    "entropy": ("entropy", "#9aa5b1", "o"),
    "energy": ("energy", "#c9a227", "s"),
    "mahalanobis": ("Mahalanobis", "#b56576", "v"),
    "knn": ("50th neighbour", "#5b8e7d", "D"),
    "unfamiliarity": ("familiarity (ours)", "#1b4965", "*"),
}


MODELS = (("softmax", "plain net", "#9aa5b1"), ("etp", "ETP, trained for accuracy", "#1b4965"))


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


def draw_fading(target: Path, *records: Path) -> None:
    """NLL and both ECEs against the AUROC of entropy: a line per model, a mark per τ, named at the ends."""
    figure, all_axes = plt.subplots(1, 3, figsize=(9.5, 3.2), layout="constrained", sharex=True)
    for file, (model, title, colour) in zip(records, MODELS, strict=True):
        lines = lines_of(file, model)
        missed = [100 - 100 * worst_auroc(panel_of(lines), fade) for fade in FADES]
        own = [line for line in lines if line["ood"] == NO_OOD]
        corrupted = [line for line in lines if line["ood"].startswith(CORRUPTION)]
        prices = (
            [np.mean([line[f"nll/{fade}"] for line in own]) for fade in FADES],
            [100 * np.mean([line[f"ece/{fade}"] for line in own]) for fade in FADES],
            [100 * np.mean([line[f"ece/{fade}"] for line in corrupted]) for fade in FADES],
        )
        for axes, price in zip(all_axes, prices, strict=True):
            axes.plot(missed, price, "o-", color=colour, label=title, markersize=4)
            for end, lift in ((0, 4 if price[0] > price[-1] else -10), (-1, 4)):
                axes.annotate(
                    f"τ={FADES[end]}",
                    (missed[end], price[end]),
                    xytext=(4, lift),
                    textcoords="offset points",
                    fontsize=7,
                )
    for axes, name in zip(all_axes, ("NLL", "ECE, %", "ECE under corruption, %"), strict=True):
        axes.set_title(name, fontsize=10)
        axes.set(ylim=(0, None), xscale="log", xlim=(40, 0.7))
        axes.set_xticks((30, 10, 3, 1), ("70", "90", "97", "99"))
        axes.set_xlabel("AUROC of entropy, worst far OOD set, %", fontsize=8)
        axes.grid(color="#eeeeee")
        without_frame(axes)
    all_axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(target, dpi=130)


def lines_of(records: Path, model: str) -> list[Record]:
    return [line for line in read_records(domain_file(records)) if line["model"] == model]


def panel_of(lines: list[Record]) -> list[Record]:
    return [line for line in lines if line["ood"] != NO_OOD and not line["ood"].startswith(CORRUPTION)]


def worst_auroc(panel: list[Record], fade: str) -> float:
    """Of the far sets, each a mean over seeds."""
    far = {line["ood"] for line in panel if line["nearness"] == "far"}
    return min(float(np.mean([x[f"auroc_faded/{fade}"] for x in panel if x["ood"] == name])) for name in far)


def without_frame(axes: plt.Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


if __name__ == "__main__":
    _, kind, target, *records = sys.argv
    {"panel": draw_panel, "fading": draw_fading}[kind](Path(target), *map(Path, records))
