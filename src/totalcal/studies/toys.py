"""The paper's two toys (appendix B.1, B.2): what a memory comes to believe, seen in one and two dimensions.

The paper fixes the data, the net, 400 epochs of Adam at 10⁻³, identity keys, h = v + tanh(a) and a rule
without tanh. It leaves open what the constants below choose; docs/toys.md says why.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from totalcal.backbones import mlp
from totalcal.functional.update_rules import blend
from totalcal.parts.evidence import ResidualEvidence
from totalcal.parts.heads import EvidentialHead
from totalcal.parts.latents.memory import ExternalMemory, IdentityKeys
from totalcal.parts.sampling import Noise
from totalcal.process import TuringProcess
from totalcal.studies.toys_data import Toy, toy_named
from totalcal.types import LossWeights

# The paper's.
EPOCHS, LEARNING_RATE = 400, 1e-3
DRAWS = 10

# Ours, where it is silent.
NUM_CELLS, RETENTION, CELL_VARIANCE, LOCAL_KL = 20, 0.99, 0.1, 1e-3
WRITE_DRAWS = 10
CELL_LEVEL = 0.5


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
        f"point weights, {rows} rows a batch, {context} of them the context, "
        f"{WRITE_DRAWS} draws a write, seed {study.seed}"
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
        weights=LossWeights(local=LOCAL_KL),
    )


def run_toy(name: str, seed: int = 0, epochs: int = EPOCHS) -> Study:
    """Draw the data, train on all of it as one batch whose first rows, newly shuffled, are the context."""
    generator = torch.Generator().manual_seed(seed)
    toy = toy_named(name)(generator)
    with torch.random.fork_rng(devices=[]):  # layers start from torch's global generator
        torch.manual_seed(seed)
        model = toy_process(toy)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    rows, context = len(toy.data.labels), context_for(len(toy.classes))
    for _ in range(epochs):
        order = torch.randperm(rows, generator=generator)
        terms = model(toy.data.inputs[order], toy.data.labels[order], context, generator)
        loss = terms.total(examples=rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Study(toy, model.eval(), seed)
