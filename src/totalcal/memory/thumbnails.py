"""Small pictures of training rows, kept in a model file: what an input looks familiar to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from totalcal.errors import InputError
from totalcal.inputs import Inputs
from totalcal.memory.domain import DomainMemory, LayerMemory
from totalcal.memory.features import Tap
from totalcal.models.process import TuringProcess

if TYPE_CHECKING:
    from totalcal.data.preprocessing import Preprocessing

LARGEST_SIDE = 32


@dataclass(frozen=True)
class Thumbnails:
    """The training picture that is nearest to each prototype of a domain memory.

    The prototypes are those of the last layer that gives a vector per row; nearness is that of directions, as
    in the memory itself.

    Attributes:
        pictures: Prototypes × channels × height × width, uint8; 32 pixels a side at the most.
        labels: Their classes, by number.

    Example:
        `save(model, "digits.totalcal", thumbnails=Thumbnails.of(model, (inputs, labels)))`
    """

    pictures: Tensor
    labels: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        model: TuringProcess,
        train: Any,
        preprocessing: "Preprocessing | None" = None,
        batch_size: int = 256,
    ) -> Self:
        """One pass over the training rows.

        Args:
            model: One that remembers its domain.
            train: What `remember` was given: rows as the model takes them, and labels.
            preprocessing: That of the model, which is undone; without it, the least entry becomes black and
                the largest white.
            batch_size: How many rows pass at once.

        Returns:
            As many thumbnails as there are prototypes.

        Raises:
            InputError: If the model does not remember its domain, or its inputs are not pictures.

        Example:
            >>> from totalcal import remember, softmax
            >>> images, labels = torch.rand(60, 1, 4, 4), torch.arange(60) % 2
            >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
            >>> model = softmax(net, num_classes=2)
            >>> memory = remember(model, (images[:40], labels[:40]), (images[40:], labels[40:]))
            >>> Thumbnails.of(model, (images[:40], labels[:40])).pictures.shape
            torch.Size([8, 1, 4, 4])
        """
        from totalcal.memory.remembering import labelled_batches
        from totalcal.training.sources import as_source

        tap, layer = _last_vector(model)
        nearest: _Nearest | None = None
        for inputs, labels in labelled_batches(as_source(train), batch_size, model.eval()):
            if not isinstance(inputs, Tensor) or inputs.dim() != 4 or inputs.shape[1] not in (1, 3):
                raise InputError("thumbnails are of pictures: channels (1 or 3) × height × width.")
            found = _nearest_rows(inputs, labels, _likeness(model, tap, layer, inputs))
            nearest = found if nearest is None else nearest.better(found)
        if nearest is None:
            raise InputError("thumbnails need training rows, but got none.")
        return cls(_small(nearest.pictures.cpu(), preprocessing), nearest.labels.cpu())

    @torch.no_grad()
    def nearest(self, model: TuringProcess, inputs: Inputs, count: int = 5) -> Tensor:
        """Rows × count: which thumbnails are nearest to each input, as the model takes it."""
        tap, layer = _last_vector(model)
        squares = torch.linalg.vecdot(layer.prototypes, layer.prototypes)
        distances = squares - 2 * _likeness(model.eval(), tap, layer, inputs)
        found: Tensor = distances.topk(min(count, len(self.labels)), largest=False).indices
        return found


@dataclass(frozen=True)
class _Nearest:
    """For each prototype so far: how alike the nearest row is, the row, its label."""

    likeness: Tensor
    pictures: Tensor
    labels: Tensor

    def better(self, other: "_Nearest") -> "_Nearest":
        is_nearer = other.likeness > self.likeness
        return _Nearest(
            torch.where(is_nearer, other.likeness, self.likeness),
            torch.where(is_nearer[:, None, None, None], other.pictures, self.pictures),
            torch.where(is_nearer, other.labels, self.labels),
        )


def _last_vector(model: TuringProcess) -> tuple[Tap, LayerMemory]:
    if not isinstance(model.domain, DomainMemory):
        raise InputError(
            "thumbnails belong to a memory of the domain: totalcal.remember(model, train, held_out) first."
        )
    pairs = zip(model.domain.taps, model.domain.layers, strict=True)
    vectors = [(tap, layer) for tap, layer in pairs if tap.kind == "vector"]
    if not vectors or not isinstance(vectors[-1][1], LayerMemory):
        raise InputError("thumbnails need a layer that gives a vector per row, and the memory reads none.")
    return vectors[-1][0], vectors[-1][1]


def _likeness(model: TuringProcess, tap: Tap, layer: LayerMemory, inputs: Inputs) -> Tensor:
    """Rows × prototypes: u · m, with u the direction of the features."""
    values = layer.projected(model.observe(inputs, [tap]).features[tap.name].values)
    return F.normalize(values, dim=-1) @ layer.prototypes.T


def _nearest_rows(inputs: Tensor, labels: Tensor, likeness: Tensor) -> _Nearest:
    best = likeness.max(0)
    return _Nearest(best.values, inputs[best.indices], labels[best.indices])


def _small(pictures: Tensor, preprocessing: "Preprocessing | None") -> Tensor:
    values = pictures.double()
    if preprocessing is None:
        least, largest = values.min(), values.max()
        values = (values - least) / (largest - least).clamp_min(1e-12)
    else:
        values = values * preprocessing.scale + preprocessing.mean
    side = max(values.shape[-2:])
    if side > LARGEST_SIDE:
        size = [max(1, round(length * LARGEST_SIDE / side)) for length in values.shape[-2:]]
        values = F.interpolate(values, size, mode="area")
    return (255 * values.clamp(0, 1)).round().to(torch.uint8)
