"""Data that need no download: overlapping Gaussians, letters, OOD sets made from pictures of a task."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from totalcal.data import Arrays
from totalcal.errors import InputError, ShapeError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianTask:
    """y ~ Categorical(priors), x | y ~ N(means_y, covariances_y).

    means [classes, dimensions], covariances [classes, dimensions, dimensions], priors [classes] of sum 1.

    >>> task = GaussianTask.isotropic([[-1.0], [1.0]])
    >>> task.true_probabilities([[0.0]])
    array([[0.5, 0.5]])
    """

    means: tuple[tuple[float, ...], ...]
    covariances: tuple[tuple[tuple[float, ...], ...], ...]
    priors: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.means) == len(self.covariances) == len(self.priors):
            raise InputError("a Gaussian task needs a mean, a covariance and a prior for each class.")
        if min(self.priors) <= 0 or not np.isclose(sum(self.priors), 1.0):
            raise InputError(f"priors are positive and sum to 1, not {self.priors}.")

    @classmethod
    def isotropic(
        cls, means: ArrayLike, scales: float | ArrayLike = 1.0, priors: ArrayLike | None = None
    ) -> "GaussianTask":
        """Spheres: a standard deviation for all classes or one each; equal priors unless given."""
        centres = np.asarray(means, dtype=np.float64)
        classes, dimensions = centres.shape
        deviations = np.broadcast_to(np.asarray(scales, dtype=np.float64), (classes,))
        weights = np.full(classes, 1 / classes) if priors is None else np.asarray(priors, dtype=np.float64)
        covariances = deviations[:, None, None] ** 2 * np.eye(dimensions)
        return cls(_frozen(centres), _frozen(covariances), _frozen(weights))

    @classmethod
    def random(cls, num_classes: int, dimensions: int, seed: int, separation: float = 1.5) -> "GaussianTask":
        """Centres ~ N(0, separation² / dimensions · 2 I) and unequal priors ~ Dirichlet(5), by seed.

        Whatever the dimension, two centres lie 2·separation apart on (root mean square) average.
        """
        draw = np.random.default_rng(seed)
        centres = draw.normal(scale=separation * np.sqrt(2 / dimensions), size=(num_classes, dimensions))
        return cls.isotropic(centres, priors=draw.dirichlet(np.full(num_classes, 5.0)))

    @property
    def num_classes(self) -> int:
        return len(self.priors)

    @property
    def dimensions(self) -> int:
        return len(self.means[0])

    def sample(self, count: int, seed: int) -> Arrays:
        """`count` examples [count, dimensions] as float32, by seed."""
        draw = np.random.default_rng(seed)
        labels = draw.choice(self.num_classes, size=count, p=self.priors)
        roots = np.linalg.cholesky(np.array(self.covariances))  # [classes, dimensions, dimensions]
        noise = draw.standard_normal((count, self.dimensions))
        inputs = np.array(self.means)[labels] + np.einsum("nij,nj->ni", roots[labels], noise)
        return Arrays(inputs.astype(np.float32), labels.astype(np.int64))

    def log_joint(self, inputs: ArrayLike) -> Floats:
        """log p(x, y) for every class [n, classes]."""
        from scipy.stats import multivariate_normal

        points = np.asarray(inputs, dtype=np.float64).reshape(-1, self.dimensions)
        columns = [
            np.log(prior) + multivariate_normal(mean, covariance).logpdf(points).reshape(-1)
            for prior, mean, covariance in zip(self.priors, self.means, self.covariances, strict=True)
        ]
        return np.stack(columns, axis=1)

    def log_density(self, inputs: ArrayLike) -> Floats:
        """log p(x) = log Σ_y p(x, y), [n]."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.log_joint(inputs), axis=1))

    def true_probabilities(self, inputs: ArrayLike) -> Floats:
        """f(x) = p(y | x), [n, classes]."""
        from scipy.special import softmax

        return np.asarray(softmax(self.log_joint(inputs), axis=1))

    def bayes_risk(self, inputs: ArrayLike) -> Floats:
        """1 − max_y f(x): the error of the best classifier there is, point by point (the paper's Eq. 3)."""
        return np.asarray(1.0 - self.true_probabilities(inputs).max(axis=1))


def _frozen(values: NDArray[np.float64]) -> Any:
    """Nested tuples of floats, as a frozen dataclass holds them."""
    return float(values) if values.ndim == 0 else tuple(_frozen(row) for row in values)


DEFAULT = GaussianTask.isotropic(
    [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], scales=[1.0, 1.0, 0.7], priors=[0.5, 0.3, 0.2]
)


SEED = 0
Images = NDArray[Any]  # uint8 [n, height, width(, channels)]


class SyntheticOOD(NamedTuple):
    """How a set is made of in-distribution images, and how near it is to them."""

    nearness: Literal["near", "far"]
    make: Callable[[Images, np.random.Generator], Images]


def synthetic_ood(name: str, images: Images, seed: int = SEED) -> Images:
    """The OOD set `name`, with as many images as are given and of the same shape.

    Args:
        name: One of `SYNTHETIC_OOD`.
        images: In-distribution images, uint8 [n, height, width] or [n, height, width, channels].
        seed: Of what is drawn; each set has a stream of its own.

    Returns:
        uint8 images of the shape of `images`.

    Example:
        >>> synthetic_ood("inverted", np.array([[[0, 200]]], dtype=np.uint8)).tolist()
        [[[255, 55]]]
    """
    draw = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return np.ascontiguousarray(SYNTHETIC_OOD[name].make(images, draw))


def _uniform_noise(images: Images, draw: np.random.Generator) -> Images:
    """Every value uniform in 0 … 255."""
    return draw.integers(256, size=images.shape, dtype=np.uint8)


def _constant(images: Images, draw: np.random.Generator) -> Images:
    """One level per channel, uniform in 0 … 255, for all pixels of an image."""
    levels = draw.integers(256, size=(len(images), 1, 1, *images.shape[3:]), dtype=np.uint8)
    return np.broadcast_to(levels, images.shape)


def _inverted(images: Images, draw: np.random.Generator) -> Images:
    return 255 - images


def _shuffled_pixels(images: Images, draw: np.random.Generator) -> Images:
    """Each image with its pixels in an order of its own; the channels of a pixel stay together."""
    pixels = images.reshape(len(images), -1, *images.shape[3:])
    order = draw.random(pixels.shape[:2], dtype=np.float32).argsort(axis=1)
    return pixels[np.arange(len(images))[:, None], order].reshape(images.shape)


def _rotated_90(images: Images, draw: np.random.Generator) -> Images:
    """Anticlockwise."""
    if images.shape[1] != images.shape[2]:
        raise ShapeError(
            f"rotated-90 needs square images, not {images.shape[1:3]}: leave it out of the panel."
        )
    return np.rot90(images, axes=(1, 2))


def _upside_down(images: Images, draw: np.random.Generator) -> Images:
    return images[:, ::-1]


SYNTHETIC_OOD: Mapping[str, SyntheticOOD] = MappingProxyType(
    {
        "uniform-noise": SyntheticOOD("far", _uniform_noise),
        "constant": SyntheticOOD("far", _constant),
        "inverted": SyntheticOOD("far", _inverted),
        "shuffled-pixels": SyntheticOOD("far", _shuffled_pixels),
        "rotated-90": SyntheticOOD("near", _rotated_90),
        "upside-down": SyntheticOOD("near", _upside_down),
    }
)
