"""The paper's two toys (appendix B.1, B.2): what a memory comes to believe, seen in one and two dimensions.

The paper fixes the data, the net, 400 epochs of Adam at 10⁻³, identity keys, h = v + tanh(a) and a rule
without tanh. It leaves open what the constants below choose; docs/toys.md says why.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from totalcal.backbones import mlp
from totalcal.errors import UnknownNameError
from totalcal.functional.cells import blend
from totalcal.parts.evidence import ResidualEvidence
from totalcal.parts.heads import EvidentialHead
from totalcal.parts.latents.memory import ExternalMemory, IdentityKeys
from totalcal.parts.sampling import Noise
from totalcal.process import TuringProcess
from totalcal.training.sources import TensorSource
from totalcal.training.step import Descent, Pass
from totalcal.types import Batch, KLScales

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
    if name not in TOYS:
        raise UnknownNameError("toy", name, TOYS)
    return TOYS[name]


def _true_log_odds(inputs: Tensor) -> Tensor:
    """log p(x | y) up to a constant: the classes are equally frequent."""
    return -0.5 * (inputs - class_centres()).square()  # [inputs, classes]


class Evidence(NamedTuple):
    """exp(a(v; Z))_k, the evidence that the memory alone gives each class: inputs × classes."""

    mean: Tensor
    spread: Tensor
    """One standard deviation over draws of Z."""


class Study(NamedTuple):
    """A trained toy."""

    toy: Toy
    model: TuringProcess
    seed: int

    @torch.no_grad()
    def evidence(self, inputs: Tensor, draws: int = DRAWS) -> Evidence:
        """What the memory says of some inputs; one draw of Z serves them all, as in a joint."""
        embedding = self.model.encode(inputs).unsqueeze(0)  # [1, inputs, classes]
        noise = Noise(torch.Generator().manual_seed(self.seed))
        evidence = self.model.latent.draw(embedding, None, draws, noise).exp()
        return Evidence(evidence.mean(0), evidence.std(0))


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
        kl_scales=KLScales(local=LOCAL_KL),
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
    descent = Descent(model, Pass(model), optimizer, examples=len(data))
    for epoch in range(epochs):
        for batch in data.batches(len(data), generator):
            descent.step(batch, context, epoch, 0, generator)
    return Study(toy, model.eval(), seed)
