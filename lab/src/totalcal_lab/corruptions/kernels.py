"""What corruptions are made of: blocks of images with their random numbers, smoothing and correlation.

Images are [batch, side, side, 3], planes [batch, 3, side, side]. Randomness belongs to an image's place in
its data set, not to the batch it comes in.

Every blur that treats all images alike is Σₖ Rₖ X Cₖᵀ. A small symmetric kernel is added up ring by ring,
exact enough for float32 to tell a level from just below it. Where the last bit decides, SciPy's order is
kept.
"""

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from math import ceil
from typing import Final, NamedTuple

import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

BLOCK: Final = 128
"""Images that share one generator. Part of the definition: another number gives other corruptions."""


def stable_seed(*key: object) -> int:
    """A seed from the words of `key`, the same on every machine and in every process.

    >>> stable_seed("cifar10", "fog", 3, 0) == stable_seed("cifar10", "fog", 3, 0)
    True
    """
    digest = blake2b("\x1f".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class BlockDraws:
    """The random numbers of some rows of one block.

    A draw is always made for the whole block on the CPU, then cut to the rows: so a row's numbers depend
    neither on which rows come with it nor on the device. Shapes are those of one image.
    """

    def __init__(self, seed: int, rows: slice = slice(0, BLOCK), device: torch.device | str = "cpu") -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._rows, self._device = rows, device

    def normal(self, *shape: int, mean: float = 0.0, sd: float = 1.0) -> Tensor:
        values = torch.empty(BLOCK, *shape).normal_(mean, sd, generator=self._generator)
        return self._cut(values)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return self._cut(torch.empty(BLOCK, *shape).uniform_(low, high, generator=self._generator))

    def coins(self, *shape: int) -> Tensor:
        """True or False, evenly."""
        return self._cut(torch.empty(BLOCK, *shape, dtype=torch.bool).random_(generator=self._generator))

    def words(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Integers, uniform over all that `dtype` can hold; several come out of one 64-bit draw."""
        values = BLOCK * torch.Size(shape).numel()  # BLOCK is a multiple of the words in 64 bits
        wide = torch.empty(values * dtype.itemsize // 8, dtype=torch.int64)
        wide.random_(-(2**63), None, generator=self._generator)
        return self._cut(wide.view(dtype).view(BLOCK, *shape))

    def _cut(self, values: Tensor) -> Tensor:
        return values[self._rows].to(self._device)


SLACK: Final = 4e-5
"""In float32 a whole level may come out just below itself; more would lift levels that truly lie below."""


def to_planes(images: Tensor) -> Tensor:
    """Levels 0 … 255, one plane per channel."""
    return images.permute(0, 3, 1, 2).contiguous().float()


def from_planes(planes: Tensor) -> Tensor:
    """Planes [batch, 3, side, side] as images of bytes, [batch, side, side, 3]."""
    return truncate(planes).permute(0, 2, 3, 1).contiguous()


def truncate(levels: Tensor) -> Tensor:
    """⌊level⌋ as bytes, clipped: the benchmark cuts off, it never rounds. Uses `levels` up.

    By way of int16: clipping is cheaper there, and so is the way from float to bytes.

    >>> truncate(torch.tensor([-3.0, 7.9, 300.0]))
    tensor([  0,   7, 255], dtype=torch.uint8)
    """
    return levels.add_(SLACK).to(torch.int16).clamp_(0, 255).to(torch.uint8)


def from_grey(images: Tensor) -> Tensor:
    """Grey images as three equal channels."""
    return images.unsqueeze(-1).expand(*images.shape, 3).contiguous()


def to_grey(images: Tensor) -> Tensor:
    """BT.601 luma in integers, ⌊(19595 R + 38470 G + 7471 B + 2¹⁵) / 2¹⁶⌋: exact where R = G = B."""
    red, green, blue = images.int().unbind(-1)
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).to(torch.uint8)


Border = Callable[[Tensor, int], Tensor]


def nearest(index: Tensor, size: int) -> Tensor:
    """a a | a b c d | d d"""
    return index.clamp(0, size - 1)


def reflect(index: Tensor, size: int) -> Tensor:
    """b a | a b c d | d c"""
    index = index % (2 * size)
    return torch.minimum(index, 2 * size - 1 - index)


def apply(planes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Σₖ Rₖ X Cₖᵀ for every plane X, R and C [terms, side, side].

    Two products whatever the number of terms: X C₁ᵀ … X Cₖᵀ lie in memory just as the second one reads them.
    """
    terms, side, _ = rows.shape
    right = columns.permute(2, 0, 1).reshape(side, terms * side).to(planes)
    left = rows.permute(1, 2, 0).reshape(side, side * terms).to(planes)
    across = planes.reshape(-1, side) @ right  # [planes · side, terms · side]
    return (left @ across.view(-1, side * terms, side)).view_as(planes)


def band(taps: Tensor, size: int, border: Border) -> Tensor:
    """The matrix that correlates a line of `size` pixels with an odd number of centred taps."""
    radius = len(taps) // 2
    source = torch.arange(size)[:, None] + torch.arange(-radius, radius + 1)  # [size, taps]
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, border(source, size), taps.double().expand(size, -1))


def gaussian_taps(sigma: float, radius: int) -> Tensor:
    """The 2 · radius + 1 weights of a Gaussian kernel, which sum to 1."""
    taps = torch.exp(-0.5 * (torch.arange(-radius, radius + 1, dtype=torch.float64) / sigma) ** 2)
    return taps / taps.sum()


@lru_cache(maxsize=32)
def gaussian(size: int, sigma: float, border: Border = nearest, truncate: float = 4.0) -> Tensor:
    """Smoothing with a Gaussian cut at `truncate` standard deviations, [1, size, size]."""
    return band(gaussian_taps(sigma, int(truncate * sigma + 0.5)), size, border).unsqueeze(0)


def smooth(planes: Tensor, sigma: float, border: Border = nearest, truncate: float = 4.0) -> Tensor:
    """Planes after `gaussian`, along both axes."""
    matrix = gaussian(planes.shape[-1], sigma, border, truncate)
    return apply(planes, matrix, matrix)


def zoom_geometry(size: int, factor: float) -> tuple[int, int]:
    """Pixels that are seen, and the pixels they are stretched to, for a zoom into the middle."""
    seen = ceil(size / factor)
    return seen, round(seen * factor)


@lru_cache(maxsize=32)
def zoom(size: int, seen: int, stretched: int) -> Tensor:
    """Bilinear resize of the middle `seen` pixels to `stretched`, corners on corners, then cut to `size`."""
    first, trim = (size - seen) // 2, (stretched - size) // 2
    steps = torch.arange(size, dtype=torch.float64) + trim
    position = first + steps * (seen - 1) / (stretched - 1)
    below = position.floor().long().clamp(max=size - 2)
    share = (position - below).unsqueeze(1)
    eye = torch.eye(size, dtype=torch.float64)
    return (1 - share) * eye[below] + share * eye[below + 1]


Offset = tuple[int, int]

_SLACK: Final = 1e-7  # a change by a whole level may come out just below itself


class Ring(NamedTuple):
    """Neighbours of one weight, (rows down, columns right)."""

    weight: float
    offsets: list[Offset]


def rings(kernel: Tensor, lightest: float = 1e-9) -> list[Ring]:
    """The weights of a kernel around its centre, each with the places it stands at.

    >>> rings(torch.tensor([[0.0, 0.25, 0.0], [0.0, 0.5, 0.0], [0.0, 0.25, 0.0]]))
    [Ring(weight=0.25, offsets=[(-1, 0), (1, 0)])]
    """
    middle = len(kernel) // 2
    places: dict[float, list[Offset]] = {}
    for row, weights in enumerate(kernel.tolist()):
        for column, weight in enumerate(weights):
            if weight > lightest and (row, column) != (middle, middle):
                places.setdefault(round(weight, 12), []).append((row - middle, column - middle))
    return [Ring(*ring) for ring in places.items()]


def correlate(images: Tensor, around: list[Ring]) -> Tensor:
    """⌊Σ w x⌋ as x + ⌊Σ w Σ (neighbour − x)⌋ for weights of sum one, borders mirrored: c b | a b c d | c b

    The differences are whole numbers, so nothing is lost before they are weighed: flat regions stay flat,
    and a weight of 10⁻⁶ tips what would else be a whole level.
    """
    side = images.shape[1]
    margin = max(abs(step) for _, offsets in around for offset in offsets for step in offset)
    padded = _mirror_edges(images, margin).flatten(2)  # [batch, side + 2 margin, (side + 2 margin) · 3]
    centre = images.flatten(2).to(torch.int16)
    change = torch.full(centre.shape, _SLACK, device=images.device)
    for weight, offsets in around:
        corners = ((margin + down, 3 * (margin + right)) for down, right in offsets)
        windows = [padded[:, row : row + side, column : column + 3 * side] for row, column in corners]
        difference = torch.mul(centre, -len(windows))
        for window in windows:
            difference.add_(window)
        change.add_(difference.float(), alpha=weight)
    return centre.add_(change.floor_().to(torch.int16)).to(torch.uint8).view_as(images)


def _mirror_edges(images: Tensor, margin: int) -> Tensor:
    """In int16, with `margin` more pixels on every side."""
    batch, side, _, channels = images.shape
    wide = side + 2 * margin
    padded = images.new_empty(batch, wide, wide, channels, dtype=torch.int16)
    rows = padded[:, margin:-margin]
    rows[:, :, margin:-margin] = images
    for line in (rows.transpose(1, 2), padded):
        for step in range(1, margin + 1):
            line[:, margin - step] = line[:, margin + step]
            line[:, -margin - 1 + step] = line[:, -margin - 1 - step]
    return padded


def smooth_as_scipy(images: Tensor, sigma: float) -> Tensor:
    """A Gaussian cut at 4σ of x/255, edges repeated, cut to bytes: SciPy's own, in float64.

    In flat regions a result is a whole level or just below it, by rounding alone: only the same sums in the
    same order fall on the same side.
    """
    levels = images.cpu().double().div_(255).numpy()
    smoothed = gaussian_filter(levels, (0, sigma, sigma, 0), mode="nearest")
    return torch.from_numpy(smoothed).mul_(255).to(torch.uint8).to(images.device)
