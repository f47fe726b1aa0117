"""What the toys show (appendix B): the figures in the paper's layout, and its account of them as numbers."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from totalcal.errors import MissingExtraError
from totalcal.studies.toys import DRAWS, Study, class_centres, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLEAR_ODDS = 9.0
DRAWS_TO_MEASURE = 200

_COLOURS = ("tab:blue", "tab:orange", "tab:green")
_MAPS = ("Blues", "Oranges", "Greens")
_MAP_POINTS = 120


class ToyNumbers(NamedTuple):
    """One trained toy, measured on a line through its inputs and on its data."""

    toy: str
    seed: int
    accuracy: float
    """Of the predictions for the training points."""
    right_class: float
    """Of the line, where the reference is sure at 9 : 1: how often the right class has most evidence."""
    spread_correlation: float
    """Rank correlation over the line of the distance from the boundary and the spread of the right class."""
    dominance: tuple[float, ...]
    """For each class, at its points: its evidence over the strongest other one's, geometric mean."""
    largest_cell: float


def line(study: Study, points: int = 201) -> Tensor:
    """Inputs along the first axis, through the middle of the others: data and one unit on either side."""
    low, high = window(study)
    inputs = ((low + high) / 2).repeat(points, 1)
    inputs[:, 0] = torch.linspace(float(low[0]), float(high[0]), points)
    return inputs


def window(study: Study, margin: float = 1.0) -> tuple[Tensor, Tensor]:
    """The corners of what a figure shows: the data and a margin around it."""
    inputs = study.toy.data.inputs
    return inputs.amin(0) - margin, inputs.amax(0) + margin


def numbers(study: Study) -> ToyNumbers:
    toy, inputs = study.toy, line(study)
    right, distance = toy.right_class(inputs), toy.distance(inputs)
    evidence = study.evidence(inputs, draws=DRAWS_TO_MEASURE)
    clear = distance > math.log(CLEAR_ODDS)
    predicted = study.model.predict(
        toy.data.inputs, generator=torch.Generator().manual_seed(study.seed)
    ).probabilities.argmax(-1)
    return ToyNumbers(
        toy=toy.name,
        seed=study.seed,
        accuracy=_fraction(predicted == toy.data.labels),
        right_class=_fraction((evidence.mean.argmax(-1) == right)[clear]),
        spread_correlation=_rank_correlation(distance, evidence.spread.gather(1, right.unsqueeze(1))[:, 0]),
        dominance=_dominance(study),
        largest_cell=float(study.model.latent.get_buffer("cells").max()),
    )


def _dominance(study: Study) -> tuple[float, ...]:
    labels = study.toy.data.labels.unsqueeze(1)
    evidence = study.evidence(study.toy.data.inputs, draws=DRAWS_TO_MEASURE).mean.log()
    others = evidence.scatter(1, labels, -torch.inf).amax(1)
    ratio = evidence.gather(1, labels)[:, 0] - others
    return tuple(float(ratio[labels[:, 0] == k].mean().exp()) for k in range(len(study.toy.classes)))


def _fraction(flags: Tensor) -> float:
    return float(flags.double().mean())


def _rank_correlation(first: Tensor, second: Tensor) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(first.numpy(), second.numpy()).statistic)


def draw_toy(study: Study, path: Path) -> None:
    """Save the figure of a trained toy; the ending of the path chooses the format."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "the figure of a toy") from error
    figure = Figure(figsize=(8, 6), layout="constrained", facecolor="white")
    (_draw_line if study.toy.data.inputs.shape[1] == 1 else _draw_plane)(study, figure)
    figure.supxlabel(settings(study), fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _draw_line(study: Study, figure: "Figure") -> None:
    """Class densities and data above, memory evidence below."""
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_densities(study, above)
    _draw_evidence(study, below)
    below.axvline(0, color="grey", linestyle=":", linewidth=1)
    below.set_xlabel("x")


def _draw_densities(study: Study, axes: "Axes") -> None:
    inputs, labels = line(study)[:, 0], study.toy.data.labels
    for k, centre in enumerate(class_centres()):
        density = torch.distributions.Normal(centre, 1.0).log_prob(inputs).exp()
        points = study.toy.data.inputs[labels == k, 0]
        axes.plot(inputs, density, color=_COLOURS[k], label=f"p(x | y = {study.toy.classes[k]})")
        axes.plot(points, torch.full_like(points, -0.03 * (k + 1)), "|", color=_COLOURS[k], markersize=10)
    axes.set(ylabel="density", title="two classes, and what the memory makes of them")
    axes.legend(loc="upper right", frameon=False)


def _draw_plane(study: Study, figure: "Figure") -> None:
    """A map of the evidence for each class on its own scale, and a cut through all on a common one."""
    maps, cut = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 1.1))[:, 0]
    low, high = window(study)
    columns = torch.linspace(float(low[0]), float(high[0]), _MAP_POINTS)
    rows = torch.linspace(float(low[1]), float(high[1]), _MAP_POINTS)
    grid = torch.cartesian_prod(rows, columns).flip(1)  # [rows · columns, 2]
    evidence = study.evidence(grid).mean.reshape(_MAP_POINTS, _MAP_POINTS, -1)
    for k, axes in enumerate(maps.subplots(1, len(study.toy.classes), sharey=True)):
        shades = evidence[..., k].numpy()
        mesh = axes.pcolormesh(columns.numpy(), rows.numpy(), shades, cmap=_MAPS[k], rasterized=True)
        figure.colorbar(mesh, ax=axes, orientation="horizontal", label=f"evidence for {study.toy.classes[k]}")
        _draw_points(study, axes)
        axes.axhline(float(rows.mean()), color="black", linewidth=0.8, linestyle=":")
    axes = cut.subplots()
    _draw_evidence(study, axes)
    _draw_ticks(study, axes)
    axes.set_xlabel("first principal component, along the dotted line of the maps")


def _draw_points(study: Study, axes: "Axes") -> None:
    for k, colour in enumerate(_COLOURS):
        points = study.toy.data.inputs[study.toy.data.labels == k]
        axes.scatter(points[:, 0], points[:, 1], s=10, color=colour, edgecolors="black", linewidths=0.4)


def _draw_ticks(study: Study, axes: "Axes") -> None:
    """Where the data are along the first axis, a row of ticks per class, at the foot of the picture."""
    for k, colour in enumerate(_COLOURS):
        points = study.toy.data.inputs[study.toy.data.labels == k, 0]
        heights = torch.full_like(points, 0.02 + 0.03 * k)
        axes.plot(points, heights, "|", color=colour, markersize=6, transform=axes.get_xaxis_transform())


def _draw_evidence(study: Study, axes: "Axes") -> None:
    """exp(a)_k along the line, mean ± one standard deviation over ten draws of Z."""
    inputs = line(study)
    mean, spread = study.evidence(inputs)
    for k, name in enumerate(study.toy.classes):
        _draw_band(axes, inputs[:, 0], mean[:, k], spread[:, k], _COLOURS[k], name)
    axes.set(ylabel=f"memory evidence exp(a), {DRAWS} draws", xlim=(inputs[0, 0], inputs[-1, 0]))
    axes.legend(loc="upper center", frameon=False)


def _draw_band(axes: "Axes", x: Tensor, mean: Tensor, spread: Tensor, colour: str, label: str) -> None:
    axes.plot(x, mean, color=colour, label=label)
    axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.25, linewidth=0)
