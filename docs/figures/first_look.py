"""The README's figure: python docs/figures/first_look.py

It runs the README's first example, and draws what the model makes of digits, letters and noise.
"""

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

ROOT = Path(__file__).parents[2]
COLOURS = {"accept": "#2a788e", "ask": "#e9b44c", "not my domain": "#b5443f"}


def main() -> None:
    """Draw docs/images/first_look.png."""
    names: dict[str, Any] = {}
    (example, *_) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    exec(re.sub(r"\nmodel.save.*", "", example), names)
    model, (digits, _), letters = names["model"], names["test"], names["others"]
    noise = torch.rand(len(digits), *digits.shape[1:], generator=torch.Generator().manual_seed(0)) * 2 - 1
    found = {name: model.predict(rows) for name, rows in
             {"new digits": digits, "letters": letters, "noise": noise}.items()}  # fmt: skip
    plt.rcParams.update({"font.size": 14, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.6), width_ratios=[5, 4], layout="constrained")
    edges = np.linspace(0, 1, 21)
    for name, colour in (("new digits", "#2a788e"), ("letters", "#b5443f")):
        share = np.histogram(found[name].familiarity, edges)[0] / len(found[name].familiarity)
        left.stairs(100 * share, edges, fill=True, alpha=0.75, color=colour, label=name)
    left.axvline(0.05, color="black", linestyle=":", linewidth=1.2)
    left.text(0.08, 50, "← 5 %", fontsize=14)
    left.set(xlabel="familiarity", ylabel="inputs, %", xlim=(0, 1), ylim=(0, 100))
    left.legend(frameon=False, loc="upper right")
    start = np.zeros(len(found))
    for verdict, colour in COLOURS.items():
        share = np.array(
            [100 * np.mean([word == verdict for word in each.decision]) for each in found.values()]
        )
        right.barh(list(found), share, left=start, color=colour, label=verdict)
        start += share
    right.invert_yaxis()
    right.set(xlabel="inputs, %", xlim=(0, 100))
    right.spines["left"].set_visible(False)
    right.tick_params(axis="y", length=0)
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False, fontsize=12
    )
    figure.savefig(ROOT / "docs" / "images" / "first_look.png", dpi=110)


if __name__ == "__main__":
    main()
