"""The paper's algorithm as a plain loop: for toys, tests, and for reading."""

import torch
from torch import Tensor

from totalcal.inputs import Inputs
from totalcal.process import TuringProcess
from totalcal.training.history import StepReport
from totalcal.training.sources import TensorSource
from totalcal.training.step import Descent, Pass


def train(
    model: TuringProcess,
    inputs: Inputs,
    labels: Tensor,
    *,
    epochs: int,
    learning_rate: float = 1e-3,
    batch_size: int = 128,
    generator: torch.Generator | None = None,
) -> list[StepReport]:
    """Adam on the free energy, a write to the memory before every step; the model is trained in place.

    For real work take `fit`, which has schedules, validation, checkpoints and devices.

    Args:
        model: Any model of the family; it is left in evaluation mode.
        inputs: Rows × whatever the backbone takes, on the model's device.
        labels: The class of each row, 0 to `num_classes` − 1.
        epochs: How often every row is seen.
        learning_rate: Of Adam; constant.
        batch_size: Rows per gradient step.
        generator: Where order, contexts, weights and memory draw from; torch's global generator without one.

    Returns:
        A report for each gradient step: its epoch, the loss, the loss's terms, how far the memory moved.

    Raises:
        InputError: If inputs and labels differ in length, or inputs are not finite.
        LabelError: If a label is not a class.
        DivergenceError: If the loss, a weight or a memory cell ceases to be finite.

    Example:
        >>> import totalcal
        >>> inputs, labels = torch.randn(64, 2), torch.randint(3, (64,))
        >>> model = totalcal.etp(torch.nn.Linear(2, 3), num_classes=3)
        >>> steps = totalcal.train(model, inputs, labels, epochs=2)
        >>> [step.epoch for step in steps]
        [0, 1]
    """
    data = TensorSource(inputs, labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    descent = Descent(model, Pass(model, write_generator=generator), optimizer, examples=len(data))
    model.train()
    steps = [
        report for epoch in range(epochs) for report in descent.epoch(data, batch_size, epoch, generator)
    ]
    model.eval()
    return steps
