"""A saved model as one traced program: rows in, all that a prediction says out, and no random number."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from totalcal.decisions import Bar, Gate
from totalcal.decisions.costs import Costs
from totalcal.decisions.rules import ROUNDING
from totalcal.errors import ExportError
from totalcal.files.predicting.exported import ROWS
from totalcal.files.saved import Model
from totalcal.inputs import Inputs, from_named, named
from totalcal.parts.sampling import SeedNoise
from totalcal.types import Predictive, Sampling
from totalcal.uncertainties import CONFIDENCE, EXPECTED_COST, FAMILIARITY, P_VALUES, uncertainties_of

_STATIC = (
    "The number of rows may vary, and nothing else: a net whose steps depend on the values or the length of "
    "its inputs has no fixed program"
)


class Program(nn.Module):
    """What is traced. Rows are as the user has them; the preprocessing is a part of the program.

    Args:
        saved: The model, with its context, gate and preprocessing.
        sampling: How it predicts.
        example: Some rows.
    """

    def __init__(self, saved: Model, sampling: Sampling, example: Inputs) -> None:
        super().__init__()
        self.model, self.context, self.gate = saved.process, saved.context, saved.gate
        self.preprocessing = saved.preprocessing
        self.names = list(named(example, ROWS))
        by_moments = sampling.draws == "moments"
        self.noise = None if by_moments else SeedNoise(int(sampling.draws), sampling.seed or 0)
        self(*named(example, ROWS).values())  # the noise keeps what it drew: a program draws nothing

    def forward(self, *rows: Tensor) -> dict[str, Tensor]:
        inputs = from_named(dict(zip(self.names, rows, strict=True)), ROWS)
        with _CommonOperators():
            return outputs_of(self._predicted(inputs), self.gate)

    def _predicted(self, rows: Inputs) -> Predictive:
        noise = None if self.noise is None else self.noise.again()
        return self.model.predicted(self._received(rows), noise, self.context)

    def _received(self, rows: Inputs) -> Inputs:
        if self.preprocessing is None:
            return rows
        assert isinstance(rows, Tensor)
        precision = next((weight.dtype for weight in self.model.parameters()), torch.float32)
        return ((rows.double() - self.preprocessing.mean) / self.preprocessing.scale).to(precision)


def outputs_of(prediction: Predictive, gate: Gate | None) -> dict[str, Tensor]:
    """By name, a row of each per input, in float64: what a program gives."""
    found = {"probabilities": prediction.probabilities, **uncertainties_of(prediction)}
    if prediction.domain is not None:
        found |= {name: getattr(prediction, name) for name in P_VALUES}
    found = {name: values.double() for name, values in found.items()}
    if gate is not None:
        found["decision"] = _decision(found, gate)
    return found


def _decision(scores: Mapping[str, Tensor], gate: Gate) -> Tensor:
    """0 accepts; i says that the i-th bar is the first that rejects the row, as in `Gate.__call__`."""
    decision = torch.zeros_like(scores["probabilities"][..., 0], dtype=torch.int64)
    if gate.costs is not None:
        scores = {**scores, EXPECTED_COST: _expected_cost(gate.costs, scores)}
    for place, bar in reversed(list(enumerate(gate.bars, start=1))):
        rejected = _rejected(bar, scores)
        decision = torch.where(rejected, place, decision)
    return decision


def _expected_cost(costs: Costs, scores: Mapping[str, Tensor]) -> Tensor:
    """As `Costs.expected`."""
    probabilities = scores["probabilities"]
    matrix = torch.from_numpy(costs.matrix(probabilities.shape[-1]))
    inside = (probabilities @ matrix).amin(-1)
    if FAMILIARITY not in scores:
        return inside
    small = scores[FAMILIARITY].clamp(max=1 / math.e)
    outside = costs.ood / (costs.ood + (1 - costs.ood) * -math.e * small * small.log())
    return (1 - outside) * inside + outside * costs.miss_ood


def _rejected(bar: Bar, scores: Mapping[str, Tensor]) -> Tensor:
    """As `Bar.rejects`."""
    confidence, predicted = scores["probabilities"].max(-1)
    limits = torch.full_like(confidence, bar.threshold)
    if bar.by_class is not None:
        columns = scores["probabilities"].shape[-1]
        by_class = [*bar.by_class, *[bar.threshold] * (columns - len(bar.by_class))]
        limits = torch.tensor(by_class, dtype=confidence.dtype)[predicted]
    if bar.score == CONFIDENCE:
        return confidence < limits
    values = scores[bar.score]
    if bar.score in P_VALUES:
        return values <= limits
    return values > limits + ROUNDING * limits.abs()


def traced(program: Program, example: Inputs) -> ExportedProgram:
    """The program as a graph of torch's operators, for any number of rows.

    Raises:
        ExportError: If its steps depend on what comes in, or on how much.
    """
    rows = tuple(named(example, ROWS).values())
    shapes = (tuple({0: Dim("rows")} for _ in rows),)
    try:
        with torch.no_grad(), _plain_kernels(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(program, rows, dynamic_shapes=shapes, strict=False)
    except Exception as problem:  # errors of torch's own, and whatever a net's forward does to a tracer
        raise ExportError(f"{_STATIC} ({first_line(problem)}).") from problem


@contextmanager
def _plain_kernels() -> Iterator[None]:
    """Attention in single steps: other runtimes do not have the fused kernels of torch's fast path."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def first_line(problem: Exception) -> str:
    """What went wrong, in one line: torch explains itself in many."""
    message = str(problem).strip() or "no reason given"
    return f"{type(problem).__name__}: {message.splitlines()[0][:200].rstrip('.')}"


class _CommonOperators(TorchFunctionMode):
    """Three functions that ONNX does not have are made of others."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _INSTEAD.get(function, function)(*args, **(kwargs or {}))


def searchsorted(sorted_sequence: Tensor, values: Tensor, *, side: str = "left") -> Tensor:
    """How many of the sorted numbers are below each value, along the last axis, by bisection."""
    assert side == "left"
    length = sorted_sequence.shape[-1]
    below = torch.zeros_like(values, dtype=torch.int64)
    for power in reversed(range(length.bit_length())):
        reached = below + 2**power
        probe = sorted_sequence.gather(-1, (reached - 1).clamp(max=length - 1))
        below = torch.where((reached <= length) & (probe < values), reached, below)
    return below


_SHIFT = 8
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)  # B₂ₖ / 2k


def digamma(values: Tensor) -> Tensor:
    """ψ(x) = ψ(x + 8) − Σ 1/(x + i), and at 8 or more its series: to 10⁻¹³ for x > 0 in float64."""
    shifted = values + _SHIFT
    square = shifted.reciprocal().square()
    series = torch.zeros_like(values)
    for coefficient in reversed(_BERNOULLI):
        series = (series + coefficient) * square
    steps = torch.arange(_SHIFT, dtype=values.dtype, device=values.device)
    below = (values.unsqueeze(-1) + steps).reciprocal().sum(-1)
    return shifted.log() - 0.5 / shifted - series - below


def entropy_summand(values: Tensor) -> Tensor:
    """−p log p for p in [0, 1], with 0 log 0 = 0."""
    is_some = values > 0
    return torch.where(is_some, -values * torch.where(is_some, values, 1.0).log(), 0.0)


_INSTEAD: Mapping[Any, Callable[..., Tensor]] = {
    torch.searchsorted: searchsorted,
    torch.Tensor.digamma: digamma,
    torch.special.entr: entropy_summand,
}
