"""Two figures from the records of `benchmarks/learning.py`: what a memory notices, and what it learns.

python docs/figures/memory.py docs/results/records/learning.jsonl docs/images
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

BY = {
    "entropy": ("entropy", "#9aa5b1", "o"),
    "far_from_classes": ("unlike any class", "#c9a227", "s"),
    "far_from_domain": ("unlike the domain", "#5b8e7d", "D"),
    "unfamiliarity": ("familiarity, the one number", "#1b4965", "*"),
}
METHODS = {
    "memory": ("memory, no training", "#1b4965", "o-"),
    "gradient": ("last layer trained again on all rows", "#b56576", "s--"),
    "nearest mean": ("nearest class mean", "#c9a227", "v:"),
    "10 neighbours": ("10 nearest rows", "#9aa5b1", "D:"),
}
TITLES = {"fashion": "clothes", "clinc": "queries", "pictures": "pictures"}
Lines = list[dict[str, Any]]


def draw_noticed(target: Path, lines: Lines) -> None:
    """A row per set, a mark per score: the mean over the nets."""
    found = [line for line in lines if line["kind"] == "noticed"]
    names = sorted({(line["task"], line["set"]) for line in found}, reverse=True)
    figure, axes = plt.subplots(figsize=(6, 0.4 * len(names) + 1.6), layout="constrained")
    for by, (title, colour, mark) in BY.items():
        means = [
            100 * np.mean([x["auroc"] for x in found if (x["task"], x["set"]) == name and x["by"] == by])
            for name in names
        ]
        size = 170 if mark == "*" else 55
        axes.scatter(means, range(len(names)), s=size, c=colour, marker=mark, label=title, zorder=3)
    axes.set_yticks(range(len(names)), [f"{TITLES[task]}: {name}" for task, name in names])
    axes.set_xlabel("AUROC, %")
    axes.grid(axis="y", color="#eeeeee")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=130)


def draw_learned(target: Path, lines: Lines) -> None:
    """Error over all classes against labelled rows per new class: a panel per task."""
    found = [line for line in lines if line["kind"] == "learned"]
    tasks = sorted({line["task"] for line in found}, reverse=True)
    figure, panels = plt.subplots(
        1, len(tasks), figsize=(3.4 * len(tasks), 3.9), layout="constrained", squeeze=False
    )
    for axes, task in zip(panels[0], tasks, strict=True):
        for method, (title, colour, style) in METHODS.items():
            rows = sorted({x["rows"] for x in found if (x["task"], x["method"]) == (task, method)})
            errors = [
                100
                * np.mean(
                    [x["error"] for x in found if (x["task"], x["method"], x["rows"]) == (task, method, n)]
                )
                for n in rows
            ]
            axes.plot(rows, errors, style, color=colour, label=title, markersize=6)
        axes.set(title=TITLES[task], xlabel="labelled rows per new class", xscale="log")
        axes.set_xticks(rows, [str(n) for n in rows])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("error over all classes, %")
    lines_of_one, titles = panels[0][0].get_legend_handles_labels()
    figure.legend(lines_of_one, titles, loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    records, folder = Path(sys.argv[1]), Path(sys.argv[2])
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    everything = [line for line in lines if line["task"] in TITLES]
    draw_noticed(folder / "memory_noticed.png", everything)
    draw_learned(folder / "memory_learned.png", everything)
