"""Post-hoc scores of out-of-distribution inputs, each with the settings of its paper and without OOD data.

All grow as an input becomes less familiar. They see what the classifier decides by: the last layer's
features [n, d], and its logits [n, K]. Some are fitted on training rows, none on anything else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from totalcal.errors import UnknownNameError
from totalcal.inputs import Inputs
from totalcal.memory.remembering import last_layer
from totalcal.models.process import Context, TuringProcess
from totalcal.training.sources import Data
from totalcal.types import Draws, Predictive

ScoreFunction = Callable[[Tensor, Tensor], Tensor]
"""From features and logits to one number per row."""

NEIGHBOURS = 50  # Sun et al. 2022 on CIFAR-10
GENERALISED_POWER, GENERALISED_CLASSES = 0.1, 100  # Liu et al. 2023
SCALE_PERCENTILE = 0.85  # Xu et al. 2024
_TINY = 1e-12
JITTERS = (0.0, *(10.0**power for power in range(-16, 1)))  # Mukhoti et al. 2023 take the first that works


class TrainingRows(NamedTuple):
    """What a score may be fitted on."""

    features: Tensor
    logits: Tensor
    labels: Tensor


def max_softmax(features: Tensor, logits: Tensor) -> Tensor:
    """1 − max p (Hendrycks and Gimpel 2017)."""
    return 1 - logits.double().softmax(-1).max(-1).values


def max_logit(features: Tensor, logits: Tensor) -> Tensor:
    """−max l (Hendrycks et al. 2022)."""
    return -logits.max(-1).values


def energy(features: Tensor, logits: Tensor) -> Tensor:
    """−log Σ exp l, at temperature 1 (Liu et al. 2020)."""
    return -logits.logsumexp(-1)


def generalised_entropy(features: Tensor, logits: Tensor) -> Tensor:
    """Σ p^γ (1 − p)^γ over the 100 largest p, γ = 0.1 (GEN, Liu et al. 2023)."""
    p = logits.double().softmax(-1)
    top = p.topk(min(GENERALISED_CLASSES, p.shape[-1]), dim=-1).values
    return (top * (1 - top)).pow(GENERALISED_POWER).sum(-1)


def knn(train: TrainingRows) -> ScoreFunction:
    """The distance to the 50th nearest training row on the unit sphere (Sun et al. 2022)."""
    bank = F.normalize(train.features, dim=-1)
    k = min(NEIGHBOURS, len(bank))

    def score(features: Tensor, logits: Tensor) -> Tensor:
        similar = [part @ bank.T for part in F.normalize(features, dim=-1).split(256)]
        nearest = torch.cat([each.topk(k, dim=-1).values[:, -1] for each in similar])
        return (2 - 2 * nearest).clamp_min(0).sqrt()

    return score


def mahalanobis_distance(train: TrainingRows) -> ScoreFunction:
    """min_c (x − μ_c)ᵀ W⁻¹ (x − μ_c), one covariance for all classes (Lee et al. 2018), of the last layer."""
    found = _gaussians(train)
    factor = _root_of_inverse(found.within)
    images = found.means @ factor
    return lambda features, logits: _squares(features.double() @ factor, images).amin(-1)


def relative_mahalanobis_distance(train: TrainingRows) -> ScoreFunction:
    """The Mahalanobis distance less that to all training rows as one Gaussian (RMDS, Ren et al. 2021)."""
    found, absolute = _gaussians(train), mahalanobis_distance(train)
    factor = _root_of_inverse(found.total)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        background = ((features.double() - found.mean) @ factor).square().sum(-1)
        return absolute(features, logits) - background

    return score


def normalised(method: Callable[[TrainingRows], ScoreFunction]) -> Callable[[TrainingRows], ScoreFunction]:
    """The same of features of length one: Mahalanobis++ (Müller and Hein 2025)."""

    def fitted(train: TrainingRows) -> ScoreFunction:
        score = method(train._replace(features=F.normalize(train.features, dim=-1)))
        return lambda features, logits: score(F.normalize(features, dim=-1), logits)

    return fitted


def fdbd(train: TrainingRows) -> ScoreFunction:
    """−mean over c ≠ ŷ of (l_ŷ − l_c) / (‖w_ŷ − w_c‖ ‖x − μ‖) (Liu and Qin 2024).

    How far x lies from the decision boundaries, in units of its distance to the mean of training.
    """
    weight, _ = _classifier(train)
    mean, lengths = train.features.double().mean(0), torch.cdist(weight.T, weight.T)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        rows, logits = features.double(), logits.double()
        predicted = logits.argmax(-1)
        gaps = logits.gather(-1, predicted[:, None]) - logits  # 0 at ŷ
        to_boundaries = torch.where(gaps > 0, gaps / lengths[predicted].clamp_min(_TINY), 0).sum(-1)
        found: Tensor = -to_boundaries / (logits.shape[-1] - 1) / (rows - mean).norm(dim=-1).clamp_min(_TINY)
        return found

    return score


def scale(train: TrainingRows) -> ScoreFunction:
    """−log Σ exp of the logits of x · exp(r), r = Σ x / Σ of its largest 15 % (SCALE, Xu et al. 2024).

    For features that are not negative, as behind a ReLU: others are taken at 0 in r.
    """
    _, bias = _classifier(train)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        rows = features.double().clamp_min(0)
        kept = rows.topk(max(1, round((1 - SCALE_PERCENTILE) * rows.shape[-1])), dim=-1).values
        factor = (rows.sum(-1) / kept.sum(-1).clamp_min(_TINY)).exp()
        return -(factor[:, None] * (logits.double() - bias) + bias).logsumexp(-1)

    return score


def vim(train: TrainingRows) -> ScoreFunction:
    """α ‖x's part outside of the principal subspace‖ − log Σ exp l (Wang et al. 2022).

    The origin is −W⁺b, where W and b are the classifier's; they are read off the training rows by least
    squares, which is exact for a linear classifier. The subspace has 1,000 dimensions from 2,048 features on,
    512 from 768 on, and half of the features below; α makes the mean residual of training rows their mean
    largest logit.
    """
    features, logits = train.features.double(), train.logits.double()
    weight, bias = _classifier(train)
    origin = -torch.linalg.pinv(weight.T) @ bias
    width = features.shape[1]
    kept = 1000 if width >= 2048 else 512 if width >= 768 else width // 2
    centred = features - origin
    _, directions = torch.linalg.eigh(centred.T @ centred / len(features))  # ascending
    rest = directions[:, : width - kept]
    alpha: Tensor = logits.max(-1).values.mean() / (centred @ rest).norm(dim=-1).mean()

    def score(features: Tensor, logits: Tensor) -> Tensor:
        residual: Tensor = ((features.double() - origin) @ rest).norm(dim=-1)
        return alpha * residual - logits.double().logsumexp(-1)

    return score


def class_gaussians(train: TrainingRows) -> ScoreFunction:
    """−log Σ_c p(c) N(x; μ_c, Σ_c), a Gaussian per class (the density of DDU, Mukhoti et al. 2023)."""
    features = train.features.double()
    classes = train.labels.unique()
    parts = [features[train.labels == label] for label in classes]
    factors = [_jittered_cholesky(part.T.cov(correction=min(1, len(part) - 1))) for part in parts]
    means = torch.stack([part.mean(0) for part in parts])
    log_prior = torch.tensor([len(part) / len(features) for part in parts]).to(features).log()
    log_scale = torch.stack([factor.diagonal().log().sum() for factor in factors])
    constant = log_prior - log_scale - features.shape[1] / 2 * math.log(2 * math.pi)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        rows = features.double()
        whitened = [
            torch.linalg.solve_triangular(factor, (rows - mean).T, upper=False)
            for factor, mean in zip(factors, means, strict=True)
        ]
        squares = torch.stack([each.square().sum(0) for each in whitened], -1)
        return -(constant - squares / 2).logsumexp(-1)

    return score


OOD_BASELINES: Mapping[str, Callable[[TrainingRows], ScoreFunction]] = MappingProxyType(
    {
        "max_softmax": lambda train: max_softmax,
        "max_logit": lambda train: max_logit,
        "energy": lambda train: energy,
        "gen": lambda train: generalised_entropy,
        "knn": knn,
        "mahalanobis": mahalanobis_distance,
        "relative_mahalanobis": relative_mahalanobis_distance,
        "mahalanobis++": normalised(mahalanobis_distance),
        "relative_mahalanobis++": normalised(relative_mahalanobis_distance),
        "fdbd": fdbd,
        "scale": scale,
        "vim": vim,
        "ddu": class_gaussians,
    }
)


class OODScored:
    """A process whose predictions bring post-hoc OOD scores along, by name."""

    def __init__(
        self, process: TuringProcess, train: Data, names: Sequence[str] = tuple(OOD_BASELINES)
    ) -> None:
        """Fit the named scores on the training rows, in one pass.

        Raises:
            UnknownNameError: If there is no score of a name.
        """
        for name in names:
            if name not in OOD_BASELINES:
                raise UnknownNameError("OOD baseline", name, OOD_BASELINES)
        self.process = process
        self.tap, features, logits, labels = last_layer(process, train)
        rows = TrainingRows(features, logits, labels)
        self.scores = {name: OOD_BASELINES[name](rows) for name in names}

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Context | None = None
    ) -> Predictive:
        """The predictions of the process, with the scores."""
        observation = self.process.observe(inputs, [self.tap])
        features = observation.features[self.tap.name].values
        scores = {name: score(features, observation.logits) for name, score in self.scores.items()}
        prediction = self.process.predict(inputs, draws=draws, seed=seed, context=context)
        return replace(prediction, scores=scores)


class _Gaussians(NamedTuple):
    """Class means [classes, d], the mean of all rows, and both covariances [d, d]."""

    means: Tensor
    mean: Tensor
    within: Tensor
    total: Tensor


def _gaussians(train: TrainingRows) -> _Gaussians:
    rows, classes = train.features.double(), train.labels.unique(return_inverse=True)[1]
    means = torch.stack([rows[classes == label].mean(0) for label in range(int(classes.max()) + 1)])
    residuals, offsets = rows - means[classes], rows - rows.mean(0)
    within, total = (each.T @ each / len(rows) for each in (residuals, offsets))
    return _Gaussians(means, rows.mean(0), within, total)


def _root_of_inverse(covariance: Tensor) -> Tensor:
    """V with V Vᵀ the pseudo-inverse."""
    values, vectors = torch.linalg.eigh((covariance + covariance.T) / 2)
    is_kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
    root: Tensor = vectors * torch.where(is_kept, values, torch.inf).rsqrt()
    return root


def _squares(rows: Tensor, centres: Tensor) -> Tensor:
    return torch.cdist(rows, centres, compute_mode="donot_use_mm_for_euclid_dist").square()


def _classifier(train: TrainingRows) -> tuple[Tensor, Tensor]:
    """W [d, K] and b of the last layer by least squares over the training rows: exact where it is linear."""
    features, logits = train.features.double(), train.logits.double()
    centre = features.mean(0)
    centred = features - centre
    inverse = torch.linalg.pinv(centred.T @ centred, hermitian=True)  # features may be constant or copies
    weight = inverse @ (centred.T @ (logits - logits.mean(0)))
    return weight, logits.mean(0) - centre @ weight


def _jittered_cholesky(covariance: Tensor) -> Tensor:
    """The factor of the covariance with the smallest multiple of I that makes it positive definite."""
    eye = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    for jitter in (*JITTERS, 10 * float(covariance.diagonal().max())):
        factor, failed = torch.linalg.cholesky_ex(covariance + jitter * eye)
        if not failed and factor.diagonal().min() > 0:
            break
    result: Tensor = factor
    return result
