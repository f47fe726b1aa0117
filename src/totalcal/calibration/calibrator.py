"""The calibrator: a temperature and a bias per class, as much of them as held-out rows can pay for.

    log p = log softmax(z / T + b)

A temperature mends a net that is too sure or too mild, a bias one that favours classes: another prior than
that of training, or a label set cut out of a larger one. Both are shrunk towards doing nothing. The cost is

    Σ NLL + log(1 + (log T / s)²) + λ Σ b²

and five-fold cross-validation chooses between T alone, and T with b at each λ. What does more must earn it:
of the candidates within half a standard error of the best, the one that does least wins. T = 1 is not one of
them: a prior that leaves T there until rows say otherwise, and lets go of it then, does better
(`benchmarks/calibrator.py`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from totalcal.errors import InputError
from totalcal.inputs import check_labels
from totalcal.types import Belief, Dirichlet, Faded, PointMass

FOLDS = 5
TEMPERATURE_PRIOR = 0.35
"""s, the scale of log T, which has a Cauchy distribution before a row is seen: half of it lies within ±s."""
RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
"""λ, the strongest first: b has a standard deviation of 1/√(2λ) before a row is seen, .07 to 1.3."""
FEWEST_ROWS = 50
"""With fewer, nothing is changed."""
DOUBT = 0.5
"""By how many standard errors of the paired difference what does more has to be better."""

Floats = npt.NDArray[np.float64]


class NoCalibrator(nn.Module):
    """Beliefs stay as they are."""

    def forward(self, belief: Belief) -> Belief:
        return belief


class TemperatureAndBias(nn.Module):
    """π's mean becomes softmax(log mean / T + b); how much evidence a Dirichlet has counted stays.

    Example:
        >>> sharper = TemperatureAndBias(2)
        >>> sharper.log_temperature.fill_(math.log(0.5))
        tensor(-0.6931, dtype=torch.float64)
        >>> sharper(PointMass(torch.tensor([[[1.0, 0.0]]]))).logits
        tensor([[[2., 0.]]])
    """

    log_temperature: Tensor
    bias: Tensor

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("log_temperature", torch.zeros((), dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(num_classes, dtype=torch.float64))

    def logits(self, logits: Tensor) -> Tensor:
        """z / T + b."""
        scale, bias = (-self.log_temperature).exp().to(logits), self.bias.to(logits)
        return logits * scale + bias

    def forward(self, belief: Belief) -> Belief:
        match belief:
            case PointMass():
                return PointMass(self.logits(belief.logits))
            case Dirichlet():
                log_counts = belief.log_concentration
                total = log_counts.logsumexp(-1, keepdim=True)
                return Dirichlet.clamped(self.logits(log_counts).log_softmax(-1) + total)
            case Faded():
                return Faded(self(belief.own), belief.weight)
        raise TypeError(f"a {type(belief).__name__} cannot be calibrated: it has no logits.")

    def extra_repr(self) -> str:
        return (
            f"temperature={float(self.log_temperature.exp()):.3f}, biases up to {self.bias.abs().max():.2f}"
        )


@dataclass(frozen=True)
class CalibrationResult:
    """What cross-validation said of each candidate, and the one that was taken.

    Attributes:
        calibrator: What to put into `process.calibrator`.
        name: "as it is", "temperature" or "temperature and bias".
        nll: The cross-validated NLL of the three, the third at its best ridge; of too few rows, of the first.
        gain: By how much the NLL fell, in cross-validation.
        gain_error: The standard error of that difference, over rows.
        rows: How many rows it was fitted on.
    """

    calibrator: NoCalibrator | TemperatureAndBias
    name: str
    nll: Mapping[str, float]
    gain: float
    gain_error: float
    rows: int

    @property
    def temperature(self) -> float:
        """T; 1 where nothing was changed."""
        if isinstance(self.calibrator, NoCalibrator):
            return 1.0
        return float(self.calibrator.log_temperature.exp())

    def __str__(self) -> str:
        if self.rows < FEWEST_ROWS:
            return f"nothing changed: {self.rows} rows are too few to choose by, which takes {FEWEST_ROWS}"
        compared = {_NOTHING.name, self.name}
        others = "".join(f"; {name} {value:.4f}" for name, value in self.nll.items() if name not in compared)
        return (
            f"{self.name} (T = {self.temperature:.3f}), NLL {self.nll[_NOTHING.name]:.4f} → "
            f"{self.nll[self.name]:.4f} in cross-validation on {self.rows} rows "
            f"({-self.gain:+.4f} ± {self.gain_error:.4f}{others})"
        )


def fit_calibrator(
    logits: Tensor, labels: Tensor, *, weights: Tensor | None = None, seed: int = 0
) -> CalibrationResult:
    """Choose and fit a calibrator on rows that the net was not trained on.

    Args:
        logits: Logits, log-probabilities or log-concentrations, rows × classes, or draws × rows × classes:
            then the mean of the draws' probabilities is what gets calibrated.
        labels: The class of each row.
        weights: How much each row counts; all alike without them.
        seed: Of the folds. Give rows in an order of their content, where equal data should give equal folds.

    Returns:
        The calibrator, and what cross-validation said of the others.

    Raises:
        InputError: If there are no rows, or logits are not finite.
        LabelError: If a label is not a class.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
        >>> 2.5 < fit_calibrator(3 * logits, labels).temperature < 3.5  # three times too sure
        True
    """
    logits = logits.detach().cpu().double()
    logits = logits[None] if logits.dim() == 2 else logits
    rows, classes = logits.shape[1:]
    check_labels(labels, rows, classes)
    if rows == 0:
        raise InputError("a calibrator is fitted on held-out rows, but there are none.")
    if not bool(logits.isfinite().all()):
        raise InputError("the logits of the held-out rows are not all finite: no calibrator fits them.")
    labels = labels.cpu().long()
    counts = torch.ones(rows, dtype=torch.float64) if weights is None else weights.cpu().double()
    data = _Rows(logits, labels, counts * (rows / counts.sum()))
    judged = _cross_validated(data, seed)
    chosen = _least_within_noise(judged, data.weights.numpy())
    share = data.weights.numpy() / rows
    means = {key: float(share @ values) for key, values in judged.items()}
    best_bias = min((key for key in means if key.ridge is not None), key=lambda key: means[key], default=None)
    shown = chosen if chosen.ridge is not None else best_bias
    named = {key.name: means[key] for key in (_NOTHING, _TEMPERATURE, shown) if key in means}
    gains = judged[_NOTHING] - judged[chosen]
    return CalibrationResult(
        calibrator=_fitted_module(data, chosen),
        name=chosen.name,
        nll=named,
        gain=float(share @ gains),
        gain_error=_standard_error(gains, data.weights.numpy()),
        rows=rows,
    )


@dataclass(frozen=True)
class _Candidate:
    name: str
    ridge: float | None = None


_NOTHING, _TEMPERATURE = _Candidate("as it is"), _Candidate("temperature")


@dataclass(frozen=True)
class _Rows:
    logits: Tensor  # [draws, rows, classes]
    labels: Tensor
    weights: Tensor  # of mean 1

    def at(self, chosen: Tensor) -> "_Rows":
        return _Rows(self.logits[:, chosen], self.labels[chosen], self.weights[chosen])

    def nll(self, log_temperature: float, bias: Tensor | float) -> Floats:
        """−log of the mean over draws of softmax(z / T + b) at the label, row by row."""
        return _nll(self, self.logits * math.exp(-log_temperature) + bias)[0].numpy()


def _nll(rows: _Rows, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The NLL of each row, log-probabilities, and each draw's share in the probability of the label."""
    log_p = logits.log_softmax(-1)
    places = rows.labels.expand(len(logits), -1).unsqueeze(-1)
    of_label = log_p.gather(-1, places).squeeze(-1)  # [draws, rows]
    total = of_label.logsumexp(0)
    return math.log(len(logits)) - total, log_p, (of_label - total).exp()


def _cross_validated(data: _Rows, seed: int) -> dict[_Candidate, Floats]:
    """The NLL of each row under each candidate, fitted on the other four fifths; the path of ridges ends
    where two in a row were worse than the one before."""
    rows, as_it_is = len(data.labels), data.nll(0.0, 0.0)
    if rows < FEWEST_ROWS:
        return {_NOTHING: as_it_is}
    fold = torch.from_numpy(np.random.default_rng(seed).permutation(rows) % FOLDS)
    parts = [(data.at(fold != k), data.at(fold == k), (fold == k).numpy()) for k in range(FOLDS)]
    judged = {_NOTHING: as_it_is, _TEMPERATURE: np.zeros(rows)}
    starts: list[Floats] = []
    for rest, left_out, mask in parts:
        found = _fit_temperature(rest)
        starts.append(np.array([found]))
        judged[_TEMPERATURE][mask] = left_out.nll(found, 0.0)
    path: list[float] = []
    for ridge in RIDGES:
        candidate, values = _Candidate("temperature and bias", ridge), np.zeros(rows)
        for k, (rest, left_out, mask) in enumerate(parts):
            starts[k] = _fit_bias(rest, ridge, starts[k])
            values[mask] = left_out.nll(starts[k][0], torch.from_numpy(starts[k][1:]))
        judged[candidate] = values
        path.append(float(data.weights.numpy() @ values))
        if len(path) > 2 and path[-1] > path[-2] > path[-3]:
            break
    return judged


def _least_within_noise(judged: Mapping[_Candidate, Floats], weights: Floats) -> _Candidate:
    """The first candidate, in the order of what they change, that the best one does not beat clearly."""
    fitted = [key for key in judged if key != _NOTHING] or [_NOTHING]
    best = min(fitted, key=lambda key: float(weights @ judged[key]))
    for candidate in fitted[: fitted.index(best)]:
        difference = judged[candidate] - judged[best]
        if weights @ difference / len(difference) <= DOUBT * _standard_error(difference, weights):
            return candidate
    return best


def _standard_error(differences: Floats, weights: Floats) -> float:
    share = weights / weights.sum()
    centred = differences - share @ differences
    return float(np.sqrt(np.sum((share * centred) ** 2)))


def _fitted_module(data: _Rows, chosen: _Candidate) -> NoCalibrator | TemperatureAndBias:
    if chosen == _NOTHING:
        return NoCalibrator()
    found = TemperatureAndBias(data.logits.shape[-1])
    log_temperature = _fit_temperature(data)
    bias = np.zeros(data.logits.shape[-1])
    if chosen.ridge is not None:
        whole = _fit_bias(data, chosen.ridge, np.array([log_temperature]))
        log_temperature, bias = whole[0], whole[1:]
    found.log_temperature.fill_(log_temperature)
    found.bias.copy_(torch.from_numpy(bias))
    return found


def _fit_temperature(data: _Rows) -> float:
    """log T of least cost, between −3 and 3."""
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        value = float(data.weights.numpy() @ data.nll(log_temperature, 0.0))
        return value + math.log1p((log_temperature / TEMPERATURE_PRIOR) ** 2)

    return float(minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-4}).x)


def _fit_bias(data: _Rows, ridge: float, start: Floats) -> Floats:
    """log T and b of least cost, by L-BFGS in units in which the cost is about as curved in each of them."""
    from scipy.optimize import minimize

    probabilities = data.logits.softmax(-1).mean(0)
    curvature = (data.weights[:, None] * probabilities * (1 - probabilities)).sum(0)
    units = np.concatenate([[2 / math.sqrt(len(data.labels) + 4)], ((curvature + 2 * ridge) ** -0.5).numpy()])
    labels = data.labels.expand(len(data.logits), -1).unsqueeze(-1)
    minus_one = torch.full_like(labels, -1, dtype=torch.float64)

    def cost(scaled: Floats) -> tuple[float, Floats]:
        log_temperature, bias = scaled[0] * units[0], torch.from_numpy(scaled[1:] * units[1:])
        cooled = data.logits * math.exp(-log_temperature)
        nll, log_p, share = _nll(data, cooled + bias)
        slope = log_p.exp_().scatter_add_(-1, labels, minus_one)  # of the NLL, by each logit
        slope *= (share * data.weights).unsqueeze(-1)
        value = float(data.weights @ nll) + ridge * float(bias.square().sum())
        by_bias = slope.sum((0, 1)) + 2 * ridge * bias
        pull = 2 * log_temperature / (TEMPERATURE_PRIOR**2 + log_temperature**2)
        by_temperature = pull - float((slope * cooled).sum())
        gradient = np.concatenate([[by_temperature], by_bias.numpy()]) * units
        return value + math.log1p((log_temperature / TEMPERATURE_PRIOR) ** 2), gradient

    first = np.zeros(len(units))
    first[: len(start)] = start / units[: len(start)]
    found = minimize(cost, first, jac=True, method="L-BFGS-B", options={"maxiter": 60, "ftol": 1e-8})
    return np.asarray(found.x * units)
