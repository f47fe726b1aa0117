"""A saved model as one traced program: rows in, all that a prediction says out, and no random number."""

import builtins
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from traceback import FrameSummary, extract_stack, extract_tb
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

import totalcal
from totalcal.decisions import Bar, Gate
from totalcal.decisions.costs import Costs
from totalcal.decisions.rules import ROUNDING
from totalcal.decisions.sets import PredictionSets
from totalcal.errors import ExportError
from totalcal.files.predicting.exported import ROWS
from totalcal.files.saved import Model
from totalcal.inputs import Inputs, from_named, named
from totalcal.parts.sampling import SeedNoise, stochastic_layers
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
        self.sets = sets_of(saved, sampling)
        self.preprocessing = saved.preprocessing
        self.names = list(named(example, ROWS))
        by_moments = sampling.draws == "moments"
        self.noise = None if by_moments else SeedNoise(int(sampling.draws), sampling.seed or 0)
        self(*named(example, ROWS).values())  # the noise keeps what it drew: a program draws nothing
        layers = stochastic_layers(self.model.backbone)
        if self.noise is not None and self.noise.count and layers:
            list(self.noise.of_layers(layers))  # of theirs, a prediction keeps what it made of it

    def forward(self, *rows: Tensor) -> dict[str, Tensor]:
        inputs = from_named(dict(zip(self.names, rows, strict=True)), ROWS)
        with _CommonOperators():
            if self.preprocessing is not None:
                assert isinstance(inputs, Tensor)
                precision = next((weight.dtype for weight in self.model.parameters()), torch.float32)
                scaled = (inputs.double() - self.preprocessing.mean) / self.preprocessing.scale
                inputs = scaled.to(precision)
            noise = None if self.noise is None else self.noise.again()
            return outputs_of(self.model.predicted(inputs, noise, self.context), self.gate, self.sets)


def sets_of(saved: Model, sampling: Sampling) -> PredictionSets | None:
    """The sets of classes that a program can give: by thresholds, for predictions made as theirs were."""
    sets = saved.valid_sets
    if sets is None or sets.method != "split":
        return None
    is_alike = sets.sampling.draws == sampling.draws and sets.sampling.seed in (None, sampling.seed)
    return sets if is_alike else None


def outputs_of(
    prediction: Predictive, gate: Gate | None, sets: PredictionSets | None = None
) -> dict[str, Tensor]:
    """By name, a row of each per input, in float64: what a program gives."""
    found = {"probabilities": prediction.probabilities, **uncertainties_of(prediction)}
    if prediction.domain is not None:
        found |= {name: getattr(prediction, name) for name in P_VALUES}
    found = {name: values.double() for name, values in found.items()}
    if gate is not None:
        found["decision"] = _decision(found, gate)
        if gate.costs is not None and gate.costs.is_matrix:
            found["answer"] = _answer_costs(gate.costs, found["probabilities"]).argmin(-1)
    if sets is not None:
        probabilities = found["probabilities"]  # as `PredictionSets.of`, by the method "split"
        columns = probabilities.shape[-1]
        limits = torch.from_numpy(sets.thresholds(columns))
        likeliest = probabilities.argmax(-1, keepdim=True) == torch.arange(columns)
        found["set"] = (-probabilities <= limits + ROUNDING * limits.abs()) | likeliest
    return found


def _answer_costs(costs: Costs, probabilities: Tensor) -> Tensor:
    """What each answer is expected to cost."""
    return probabilities @ torch.from_numpy(costs.matrix(probabilities.shape[-1]))


def _decision(scores: Mapping[str, Tensor], gate: Gate) -> Tensor:
    """0 accepts; i says that the i-th bar is the first that rejects the row, as in `Gate.__call__`."""
    decision = torch.zeros_like(scores["probabilities"][..., 0], dtype=torch.int64)
    if gate.costs is not None:
        scores = {**scores, EXPECTED_COST: _expected_cost(gate.costs, scores)}
    for place, bar in reversed(list(enumerate(gate.bars, start=1))):
        decision = torch.where(_rejected(bar, scores), place, decision)
    return decision


def _expected_cost(costs: Costs, scores: Mapping[str, Tensor]) -> Tensor:
    """As `Costs.expected`."""
    inside = _answer_costs(costs, scores["probabilities"]).amin(-1)
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
        with torch.no_grad(), warnings.catch_warnings(), _FirstConstant() as constant:
            warnings.simplefilter("ignore")
            with _traceable(), redirect_stderr(io.StringIO()):  # where torch prints what it has so far
                return torch.export.export(program, rows, dynamic_shapes=shapes, strict=False)
    except Exception as problem:  # errors of torch's own, and whatever a net's forward does to a tracer
        raise ExportError(f"{_STATIC} ({constant.line or _last_line(problem)}).") from problem


@contextmanager
def _traceable() -> Iterator[None]:
    """`len(rows)` is what `rows.shape[0]` is while a net is traced, and no constant; attention is in single
    steps, since other runtimes do not have the fused kernels of torch's fast path."""

    def length(value: Any) -> Any:
        rows = value.shape[0] if isinstance(value, Tensor) and value.dim() else None
        return rows if isinstance(rows, torch.SymInt) else _LENGTH(value)

    is_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    builtins.len = length
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        builtins.len = _LENGTH
        torch.backends.mha.set_fastpath_enabled(is_fast)


_LENGTH = len


class _FirstConstant(logging.Handler):
    """Finds the line of a net that takes the number of rows for a constant; torch tells its logger alone."""

    line = ""

    def emit(self, record: logging.LogRecord) -> None:
        if not self.line and str(record.msg).startswith("set_replacement"):
            place = _place(extract_stack())
            if place:
                self.line = (
                    f"{place} takes the number of rows for a constant: write x.shape[0], without int() or a "
                    "loop over rows"
                )

    def __enter__(self) -> Self:
        self.logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
        self.before = self.logger.level, self.logger.propagate, self.logger.handlers
        self.logger.setLevel(logging.INFO)
        self.logger.propagate, self.logger.handlers = False, [self]  # nobody else wants to know
        return self

    def __exit__(self, *_: object) -> None:
        level, self.logger.propagate, self.logger.handlers = self.before
        self.logger.setLevel(level)


def _last_line(problem: Exception) -> str:
    """What went wrong, and in which line of the net."""
    place = _place(extract_tb(problem.__traceback__))
    return f"{place}, {first_line(problem)}" if place else first_line(problem)


def _place(frames: Sequence[FrameSummary]) -> str:
    """The innermost line of the net: what the program called, but for torch, ourselves and Python."""
    of_program = [
        place for place, frame in enumerate(frames) if (frame.filename, frame.name) == (__file__, "forward")
    ]
    others = [str(Path(module.__file__ or "").parent) for module in (torch, totalcal, logging)]
    for frame in reversed(frames[of_program[-1] :] if of_program else ()):
        if frame.line and not frame.filename.startswith((*others, "<")):
            return f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}"
    return ""


def first_line(problem: Exception) -> str:
    """What went wrong, in one line: torch explains itself in many."""
    message = str(problem).strip() or "no reason given"
    first = message.splitlines()[0].partition("\x1b")[0].strip()  # what torch colours are steps of its own
    return f"{type(problem).__name__}: {first[:200].rstrip('.')}"


class _CommonOperators(TorchFunctionMode):
    """Functions that ONNX does not have, or not in every layout, are made of others."""

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


def logaddexp(one: Tensor, other: Tensor) -> Tensor:
    """log(eᵃ + eᵇ), where ONNX takes the exponentials themselves: beyond 709 they are infinite."""
    high, low = torch.maximum(one, other), torch.minimum(one, other)
    apart = torch.where(high == low, 0.0, high - low)  # equal infinities are not apart
    return high + torch.exp(-apart).log1p()


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q kᵀ scale + mask) v, in steps whose layout is the same when ONNX takes them apart."""
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], -3) for part in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scores = scores + attn_mask
    elif attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    weights = scores.softmax(-1).masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)
    return functional.dropout(weights, dropout_p) @ value


def distances(
    one: Tensor,
    other: Tensor,
    p: float = 2.0,
    compute_mode: str = "",
) -> Tensor:
    """‖x_i − y_j‖ of all pairs in one way: torch takes another from 25 rows on, which fixes their number."""
    apart: Tensor = torch.linalg.vector_norm(one.unsqueeze(-2) - other.unsqueeze(-3), p, dim=-1)
    return apart


def packed(*given: Any, **named_ones: Any) -> Any:
    """Each step of a packed sequence has as many rows as are that long: no step of a program is so."""
    if torch.compiler.is_compiling():
        raise ExportError(
            "packed sequences have no fixed program: give the layer padded rows, and take its output at each "
            "row's last step"
        )
    return _PACK(*given, **named_ones)


_PACK = torch._VF._pack_padded_sequence
_INSTEAD: Mapping[Any, Callable[..., Any]] = {
    _PACK: packed,
    torch.cdist: distances,
    torch.searchsorted: searchsorted,
    torch.Tensor.digamma: digamma,
    torch.logaddexp: logaddexp,
    torch.special.entr: entropy_summand,
    functional.scaled_dot_product_attention: attention,
}
