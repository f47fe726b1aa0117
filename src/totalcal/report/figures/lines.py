"""A line for each model: error against coverage, a score against the severity of corruption."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from totalcal.report.artefacts import RiskCoverage
from totalcal.report.figures.legends import legend_above
from totalcal.report.palette import line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Formatter


def draw_risk_coverage(axes: "Axes", curves: Mapping[str, RiskCoverage]) -> None:
    """The error among the inputs that a model is surest of."""
    models = list(curves)
    for model, curve in curves.items():
        color, linestyle, _ = line(model, models)
        axes.plot(curve.coverage, curve.risk, color=color, linestyle=linestyle, label=model)
    axes.set(xlim=(0, 1), xlabel="share of the inputs answered, surest first", ylabel="error among them")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_percent())
    legend_above(axes)


def draw_severities(axes: "Axes", values: Mapping[str, Mapping[int, float]], score: str) -> None:
    """A score against severity (Figure 3 of the paper); severity 0 is the clean test set."""
    models = list(values)
    for model, means in values.items():
        color, linestyle, marker = line(model, models)
        axes.plot(
            *zip(*means.items(), strict=True), color=color, linestyle=linestyle, marker=marker, label=model
        )
    axes.set(xlabel="severity of corruption", ylabel=score)
    axes.set_xticks(sorted({severity for means in values.values() for severity in means}))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_percent())
    legend_above(axes)


def _percent() -> "Formatter":
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(xmax=1, decimals=None)
