"""The paper's two toys (appendix B.1, B.2): what a memory comes to believe, seen in one and two dimensions.

The paper fixes the data, the net, 400 epochs of Adam at 10⁻³, identity keys, h = v + tanh(a) and a rule
without tanh. It leaves open what the constants below choose; docs/toys.md says why.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from totalcal.errors import UnknownNameError
from totalcal.functional.cells import blend
from totalcal.models import TuringProcess
from totalcal.nets import mlp
from totalcal.parts import EvidentialHead, ExternalMemory, IdentityKeys, Noise, ResidualEvidence
from totalcal.training import TensorSource
from totalcal.types import Batch, LossWeights
from totalcal_lab.studies.truth import rank_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The paper's.
POINTS_PER_CLASS = 20
EPOCHS, LEARNING_RATE = 400, 1e-3
DRAWS = 10

# Ours, where it is silent.
NUM_CELLS, RETENTION, CELL_VARIANCE, LOCAL_KL = 20, 0.99, 0.1, 1e-3
WRITE_DRAWS = 10
CELL_LEVEL = 0.5


class Toy(NamedTuple):
    """A small problem and its net.

    `reference` gives log-odds that no model here has seen (inputs × classes, up to a constant per input): the
    truth where it is known. It says which class is right at an input, and how far the boundary is.
    """

    name: str
    data: Batch
    hidden: tuple[int, ...]
    classes: tuple[str, ...]
    reference: Callable[[Tensor], Tensor]

    def right_class(self, inputs: Tensor) -> Tensor:
        return self.reference(inputs).argmax(-1)

    def distance(self, inputs: Tensor) -> Tensor:
        """How far the boundary is: the log-odds of the right class against the next one."""
        best, next_best = self.reference(inputs).topk(2, dim=-1).values.unbind(-1)
        return best - next_best


def gaussians(generator: torch.Generator) -> Toy:
    """Two classes on a line, 20 points each, x | y ~ N(±1, 1) (appendix B.1).

    >>> gaussians(torch.Generator().manual_seed(0)).data.inputs.shape
    torch.Size([40, 1])
    """
    labels = torch.arange(2).repeat_interleave(POINTS_PER_CLASS)
    inputs = class_centres()[labels] + torch.randn(len(labels), generator=generator)
    return Toy("gaussians", Batch(inputs.unsqueeze(1), labels), (32,), ("left", "right"), _true_log_odds)


def class_centres() -> Tensor:
    """The means of the two Gaussian classes (appendix B.1)."""
    return torch.tensor([-1.0, 1.0])


def iris(generator: torch.Generator) -> Toy:
    """Fisher's iris on its first two principal components (appendix B.2).

    There is no truth to hold the memory against; linear discriminants stand in for it.
    """
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    flowers = load_iris()
    plane = PCA(n_components=2).fit_transform(flowers.data)
    discriminants = LinearDiscriminantAnalysis().fit(plane, flowers.target)

    def log_odds(inputs: Tensor) -> Tensor:
        return torch.from_numpy(discriminants.decision_function(inputs.double().numpy()))

    data = Batch(torch.from_numpy(plane).float(), torch.from_numpy(flowers.target).long())
    return Toy("iris", data, (32, 32), tuple(str(name) for name in flowers.target_names), log_odds)


TOYS: dict[str, Callable[[torch.Generator], Toy]] = {"gaussians": gaussians, "iris": iris}


def toy_named(name: str) -> Callable[[torch.Generator], Toy]:
    """What makes a toy, by name, or an error that suggests the nearest name."""
    if name not in TOYS:
        raise UnknownNameError("toy", name, TOYS)
    return TOYS[name]


def _true_log_odds(inputs: Tensor) -> Tensor:
    """log p(x | y) up to a constant: the classes are equally frequent."""
    return -0.5 * (inputs - class_centres()).square()  # [inputs, classes]


class EvidenceSpread(NamedTuple):
    """exp(a(v; Z))ₖ, the evidence that the memory alone gives each class: inputs × classes."""

    mean: Tensor
    spread: Tensor
    """One standard deviation over draws of Z."""


class Study(NamedTuple):
    """A trained toy."""

    toy: Toy
    model: TuringProcess
    seed: int

    @torch.no_grad()
    def evidence(self, inputs: Tensor, draws: int = DRAWS) -> EvidenceSpread:
        """What the memory says of some inputs; one draw of Z serves them all, as in a joint."""
        embedding = self.model.encode(inputs).unsqueeze(0)  # [1, inputs, classes]
        noise = Noise(torch.Generator().manual_seed(self.seed))
        evidence = self.model.latent.draw(embedding, None, draws, noise).exp()
        return EvidenceSpread(evidence.mean(0), evidence.std(0))


def context_for(num_classes: int) -> int:
    """The context at which the mean cell settles at ½: |C| = R K / 4.

    Without the tanh nothing holds the cells. A row writes 2 in all to the R cells of K entries, so that
    m ← γ m + (1 − γ) Σ_C φ [onehot(y) + softmax(v)] rests where the mean entry is 2 |C| / (R K).

    >>> context_for(2), context_for(3)
    (10, 15)
    """
    return round(CELL_LEVEL * NUM_CELLS * num_classes / 2)


def settings(study: Study) -> str:
    """What the paper leaves out, and is chosen here, in a line for a figure's caption."""
    rows, context = len(study.toy.data.labels), context_for(len(study.toy.classes))
    return (
        f"R = {NUM_CELLS} cells, γ = {RETENTION}, κ² = {CELL_VARIANCE}, local weight {LOCAL_KL:g}, "
        f"point weights, {rows} rows per batch, {context} of them the context, "
        f"{WRITE_DRAWS} draws per write, seed {study.seed}"
    )


def toy_process(toy: Toy) -> TuringProcess:
    """An ETP in its simplest form: point weights, identity keys, h = v + tanh(a), no tanh in the rule."""
    num_classes = len(toy.classes)
    memory = ExternalMemory(
        NUM_CELLS,
        num_classes,
        cell_variance=CELL_VARIANCE,
        retention=RETENTION,
        update_rule=blend,
        key_map=IdentityKeys(),
        write_draws=WRITE_DRAWS,
    )
    return TuringProcess(
        backbone=mlp(toy.data.inputs.shape[1], num_classes, toy.hidden),
        latent=memory,
        head=EvidentialHead(ResidualEvidence(), prior_map=nn.Identity()),
        num_classes=num_classes,
        loss_weights=LossWeights(local=LOCAL_KL),
    )


def run_toy(name: str, seed: int = 0, epochs: int = EPOCHS) -> Study:
    """Draw the data, train on all of it as one batch whose first rows, newly shuffled, are the context."""
    generator = torch.Generator().manual_seed(seed)
    toy = toy_named(name)(generator)
    with torch.random.fork_rng(devices=[]):  # layers start from torch's global generator
        torch.manual_seed(seed)
        model = toy_process(toy)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    data, context = TensorSource(*toy.data), context_for(len(toy.classes))
    for epoch in range(epochs):
        for batch in data.batches(len(data), generator):
            terms, _ = model.step(batch.inputs, batch.labels, context, generator)
            optimizer.zero_grad()
            terms.total(examples=len(data), epoch=epoch).backward()
            optimizer.step()
    return Study(toy, model.eval(), seed)


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


def cut(study: Study, points: int = 201) -> Tensor:
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
    """The figure of a toy as numbers: what `totalcal-lab toy --json` prints."""
    toy, inputs = study.toy, cut(study)
    right, distance = toy.right_class(inputs), toy.distance(inputs)
    evidence = study.evidence(inputs, draws=DRAWS_TO_MEASURE)
    spread = evidence.spread.gather(1, right.unsqueeze(1))[:, 0]
    clear = distance > math.log(CLEAR_ODDS)
    predicted = study.model.predict(toy.data.inputs, seed=study.seed).probabilities.argmax(-1)
    return ToyNumbers(
        toy=toy.name,
        seed=study.seed,
        accuracy=_fraction(predicted == toy.data.labels),
        right_class=_fraction((evidence.mean.argmax(-1) == right)[clear]),
        spread_correlation=rank_correlation(distance.numpy(), spread.numpy()),
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


def draw_toy(study: Study, path: Path) -> None:
    """Save the figure of a trained toy; the ending of the path chooses the format."""
    from matplotlib.figure import Figure

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
    inputs, labels = cut(study)[:, 0], study.toy.data.labels
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
    inputs = cut(study)
    mean, spread = study.evidence(inputs)
    for k, name in enumerate(study.toy.classes):
        _draw_band(axes, inputs[:, 0], mean[:, k], spread[:, k], _COLOURS[k], name)
    axes.set(ylabel=f"memory evidence exp(a), {DRAWS} draws", xlim=(inputs[0, 0], inputs[-1, 0]))
    axes.legend(loc="upper center", frameon=False)


def _draw_band(axes: "Axes", x: Tensor, mean: Tensor, spread: Tensor, colour: str, label: str) -> None:
    axes.plot(x, mean, color=colour, label=label)
    axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.25, linewidth=0)
