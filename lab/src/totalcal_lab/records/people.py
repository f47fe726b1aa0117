"""Predictors against the votes of people, from records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from totalcal.report import Entry, Group, Record, Table, summarise
from totalcal_lab.records.labels import column_title, common_settings, in_order

PEOPLE = "people"
"""The preset of the lines about people themselves."""

COLUMNS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "people_kl": ("KL(people ‖ model)", 3),
        "people_nll": ("NLL of a vote", 3),
        "people_ece": ("ECE against shares, %", 1),
        "agreement": ("votes for its class, %", 1),
        "entropy_correlation": ("ρ(entropies)", 2),
        "auroc_ambiguous": ("AUROC of ambiguous images, %", 1),
        "asked_ambiguous": ("gate asks: ambiguous, %", 0),
        "asked_clear": ("clear, %", 0),
    }
)
TERMS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {f"{term}_correlation": (f"ρ({term}, people)", 2) for term in ("reducible", "irreducible", "data")}
)


def people_table(records: Sequence[Record], columns: Mapping[str, tuple[str, int]] = COLUMNS) -> Table:
    """One group per preset, people first; a row per model and form, means ± deviations over seeds."""
    presets = sorted({record["preset"] for record in records}, key=lambda name: (name != PEOPLE, name))
    groups = []
    for preset in presets:
        mine = [record for record in records if record["preset"] == preset]
        models = in_order({record["model"] for record in mine})
        keys = [
            (model, form)
            for model in models
            for form in dict.fromkeys(line["form"] for line in mine if line["model"] == model)
        ]
        rows = [
            _row([line for line in mine if (line["model"], line["form"]) == key], columns) for key in keys
        ]
        if any(entry.text for row in rows for entry in row[1:]):
            title = (
                "people themselves"
                if preset == PEOPLE
                else column_title(mine[0]["task"], preset, common_settings(mine))
            )
            groups.append(Group(title, rows))
    return Table(["", *(title for title, _ in columns.values())], groups)


def _row(lines: Sequence[Record], columns: Mapping[str, tuple[str, int]]) -> list[Entry]:
    name = " ".join(filter(None, (lines[0]["model"], lines[0]["form"] and f"({lines[0]['form']})")))
    return [Entry(name), *(_entry(lines, key, *columns[key]) for key in columns)]


def _entry(lines: Sequence[Record], key: str, title: str, digits: int) -> Entry:
    values = [line[key] for line in lines if key in line]
    if not values:
        return Entry("")
    found, scale = summarise(values), 100 if title.endswith("%") else 1
    spread = f" ± {scale * found.std:.{digits}f}" if found.n > 1 else ""
    return Entry(f"{scale * found.mean:.{digits}f}{spread}", sort=found.mean)


def draw_people(records: Sequence[Record], path: Path) -> None:
    """Save the figure: each model's entropy over that of the votes, one panel per preset, seeds averaged."""
    import numpy as np
    from matplotlib.figure import Figure

    lines = [record for record in records if "entropy_curve" in record]
    presets = sorted({line["preset"] for line in lines})
    figure = Figure(figsize=(5 * len(presets), 4), layout="constrained", facecolor="white")
    for axes, preset in zip(figure.subplots(1, len(presets), squeeze=False)[0], presets, strict=True):
        mine = [line for line in lines if line["preset"] == preset]
        for index, model in enumerate(in_order({line["model"] for line in mine})):
            for form, style in (("as it is", "-"), ("calibrated", "--")):
                curves = [
                    line["entropy_curve"] for line in mine if (line["model"], line["form"]) == (model, form)
                ]
                if curves:
                    people, own = np.mean(curves, axis=0).T
                    axes.plot(people, own, f"C{index}{style}", marker="o", ms=3, label=f"{model}, {form}")
        axes.axline((0, 0), slope=1, color="grey", lw=0.8, ls=":")
        axes.set(title=preset, xlabel="entropy of people's votes, nats", ylabel="entropy of the prediction")
        axes.legend(fontsize="x-small", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
