"""The same nineteen corruptions in the plain way: one image at a time, with the usual libraries.

What `corruptions.py` measures totalcal against. In the manner of the original program: float64, and frost
decoded from a file for every image (our textures at the size of its photographs).
"""

from collections.abc import Callable
from io import BytesIO
from math import ceil
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from skimage.color import hsv2rgb, rgb2hsv
from skimage.filters import gaussian
from skimage.util import random_noise

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

BY_PILLOW = {"pixelate", "jpeg_compression"}


class PerImage:
    """One method a corruption, from [side, side, 3] or, where Pillow does the work, its image, to bytes."""

    def __init__(self, rng: np.random.RandomState | np.random.Generator, frost_files: list[Path]) -> None:
        self.rng = rng
        self.integers = rng.randint if isinstance(rng, np.random.RandomState) else rng.integers
        self.frost_files = frost_files

    def on_array(self, type: str, picture: Bytes, parameters: tuple[float, ...]) -> Bytes:
        method: Callable[..., Bytes] = getattr(self, type)
        return method(Image.fromarray(picture) if type in BY_PILLOW else picture, *parameters)

    def on_pil(self, type: str, image: Image.Image, parameters: tuple[float, ...]) -> Bytes:
        method: Callable[..., Bytes] = getattr(self, type)
        return method(image if type in BY_PILLOW else np.asarray(image), *parameters)

    def gaussian_noise(self, picture: Bytes, sd: float) -> Bytes:
        x = picture / 255.0
        return to_bytes(x + self.rng.normal(size=x.shape, scale=sd))

    def speckle_noise(self, picture: Bytes, sd: float) -> Bytes:
        x = picture / 255.0
        return to_bytes(x + x * self.rng.normal(size=x.shape, scale=sd))

    def shot_noise(self, picture: Bytes, photons: float) -> Bytes:
        return to_bytes(self.rng.poisson(picture / 255.0 * photons) / photons)

    def impulse_noise(self, picture: Bytes, amount: float) -> Bytes:
        return to_bytes(random_noise(picture / 255.0, mode="s&p", amount=amount))

    def gaussian_blur(self, picture: Bytes, sigma: float) -> Bytes:
        return to_bytes(gaussian(picture / 255.0, sigma=sigma, channel_axis=-1))

    def defocus_blur(self, picture: Bytes, radius: float, softness: float) -> Bytes:
        x = picture / 255.0
        offsets = np.arange(-8, 9)
        across, down = np.meshgrid(offsets, offsets)
        disk = (across**2 + down**2 <= radius**2).astype(np.float32)
        kernel = cv2.GaussianBlur(disk / disk.sum(), (3, 3), sigmaX=softness)
        return to_bytes(np.stack([cv2.filter2D(x[..., channel], -1, kernel) for channel in range(3)], -1))

    def glass_blur(self, picture: Bytes, sigma: float, passes: float) -> Bytes:
        shards = to_bytes(gaussian(picture / 255.0, sigma=sigma, channel_axis=-1))
        for _ in range(int(passes)):
            for row in range(len(shards) - 1, 1, -1):
                for column in range(len(shards) - 1, 1, -1):
                    right, down = self.integers(-1, 1, size=2)
                    shards[row, column] = shards[row + down, column + right]
        return to_bytes(gaussian(shards / 255.0, sigma=sigma, channel_axis=-1))

    def motion_blur(self, picture: Bytes, radius: float, sigma: float) -> Bytes:
        return fallen(picture, self.rng.uniform(-45, 45), radius, sigma)

    def zoom_blur(self, picture: Bytes, factors: float) -> Bytes:
        x = (picture / 255.0).astype(np.float32)
        total = x.copy()
        for factor in np.arange(1, 2, 0.01)[: int(factors)]:
            total += clipped_zoom(x, factor)
        return to_bytes(total / (factors + 1))

    def snow(
        self,
        picture: Bytes,
        mean: float,
        sd: float,
        zoom: float,
        threshold: float,
        radius: float,
        sigma: float,
        kept: float,
    ) -> Bytes:
        x = (picture / 255.0).astype(np.float32)
        flakes = clipped_zoom(self.rng.normal(size=x.shape[:2], loc=mean, scale=sd)[..., None], zoom)
        flakes[flakes < threshold] = 0
        falling = fallen(to_bytes(flakes), self.rng.uniform(-135, -45), radius, sigma) / 255.0
        luma = cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)[..., None]
        x = kept * x + (1 - kept) * np.maximum(x, luma * 1.5 + 0.5)
        return to_bytes(x + falling + np.rot90(falling, k=2))

    def frost(self, picture: Bytes, image_weight: float, frost_weight: float) -> Bytes:
        texture = cv2.imread(str(self.frost_files[self.integers(len(self.frost_files))]))
        texture = cv2.resize(texture, (0, 0), fx=0.2, fy=0.2)[..., ::-1]
        side = len(picture)
        row, column = self.integers(0, np.array(texture.shape[:2]) - side)
        piece = texture[row : row + side, column : column + side]
        return to_bytes((image_weight * picture + frost_weight * piece) / 255.0)

    def fog(self, picture: Bytes, amount: float, decay: float) -> Bytes:
        x = picture / 255.0
        side = len(picture)
        cloud = self._plasma(1 << (side - 1).bit_length(), decay)[:side, :side, None]
        return to_bytes((x + amount * cloud) * x.max() / (x.max() + amount))

    def _plasma(self, side: int, decay: float) -> Floats:
        cloud = np.zeros((side, side))
        step, amplitude = side, 100.0
        while step >= 2:
            half = step // 2
            corners = cloud[::step, ::step]
            noise = self.rng.uniform(-amplitude, amplitude, size=(3, *corners.shape)) * amplitude
            squares = corners + np.roll(corners, -1, axis=0)
            centres = (squares + np.roll(squares, -1, axis=1)) / 4 + noise[0]
            tops = centres + np.roll(centres, 1, axis=0) + corners + np.roll(corners, -1, axis=1)
            lefts = centres + np.roll(centres, 1, axis=1) + corners + np.roll(corners, -1, axis=0)
            cloud[half::step, half::step] = centres
            cloud[::step, half::step] = tops / 4 + noise[1]
            cloud[half::step, ::step] = lefts / 4 + noise[2]
            step, amplitude = half, amplitude / decay
        cloud -= cloud.min()
        return cloud / cloud.max()

    def spatter(
        self,
        picture: Bytes,
        mean: float,
        sd: float,
        sigma: float,
        threshold: float,
        strength: float,
        muddy: float,
    ) -> Bytes:
        x = (picture / 255.0).astype(np.float32)
        liquid = gaussian(self.rng.normal(size=x.shape[:2], loc=mean, scale=sd), sigma=sigma)
        liquid[liquid < threshold] = 0
        return mud(x, liquid, threshold, strength) if muddy else water(x, liquid, strength)

    def brightness(self, picture: Bytes, added: float) -> Bytes:
        hsv = rgb2hsv(picture / 255.0)
        hsv[..., 2] = np.clip(hsv[..., 2] + added, 0, 1)
        return to_bytes(hsv2rgb(hsv))

    def saturate(self, picture: Bytes, factor: float, offset: float) -> Bytes:
        hsv = rgb2hsv(picture / 255.0)
        hsv[..., 1] = np.clip(hsv[..., 1] * factor + offset, 0, 1)
        return to_bytes(hsv2rgb(hsv))

    def contrast(self, picture: Bytes, factor: float) -> Bytes:
        x = picture / 255.0
        mean = x.mean(axis=(0, 1), keepdims=True)
        return to_bytes((x - mean) * factor + mean)

    def jpeg_compression(self, image: Image.Image, quality: float) -> Bytes:
        file = BytesIO()
        image.save(file, "JPEG", quality=int(quality))
        return np.asarray(Image.open(file))

    def pixelate(self, image: Image.Image, scale: float) -> Bytes:
        small = int(image.width * scale)
        shrunk = image.resize((small, small), Image.Resampling.BOX)
        return np.asarray(shrunk.resize(image.size, Image.Resampling.BOX))

    def elastic_transform(self, picture: Bytes, length: float, smoothness: float, jitter: float) -> Bytes:
        x = (picture / 255.0).astype(np.float32)
        side = len(x)
        pins = (side // 2 + side // 3 * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
        moved = pins + self.rng.uniform(-jitter * side, jitter * side, size=pins.shape).astype(np.float32)
        x = cv2.warpAffine(
            x, cv2.getAffineTransform(pins, moved), (side, side), borderMode=cv2.BORDER_REFLECT_101
        )
        if not length:
            return to_bytes(x)
        right, down = (
            ndimage.gaussian_filter(field, smoothness * side, mode="reflect", truncate=3) * length * side
            for field in self.rng.uniform(-1, 1, size=(2, side, side)).astype(np.float32)
        )
        rows, columns, channels = np.meshgrid(*map(np.arange, x.shape), indexing="ij")
        places = [rows + down[..., None], columns + right[..., None], channels]
        return to_bytes(ndimage.map_coordinates(x, places, order=1, mode="reflect"))


def to_bytes(x: Floats) -> Bytes:
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def clipped_zoom(x: Floats, factor: float) -> Floats:
    side = len(x)
    seen = ceil(side / factor)
    first = (side - seen) // 2
    middle = x[first : first + seen, first : first + seen]
    large = ndimage.zoom(middle, (factor, factor, 1), order=1)
    trim = (len(large) - side) // 2
    return large[trim : trim + side, trim : trim + side]


def fallen(picture: Bytes, angle: float, radius: float, sigma: float) -> Bytes:
    """Every tap of the one-sided kernel is a shifted copy with its edges repeated."""
    taps = np.arange(2 * ceil(radius) + 1)
    weights = np.exp(-(taps**2) / (2 * sigma**2))
    weights /= weights.sum()
    direction = np.deg2rad(angle)
    downs = np.ceil(taps * np.sin(direction) - 0.5).astype(int)
    rights = np.ceil(taps * np.cos(direction) - 0.5).astype(int)
    steps = np.arange(len(picture))
    total = np.zeros(picture.shape)
    for weight, down, right in zip(weights, downs, rights, strict=True):
        rows, columns = np.clip(steps + down, 0, steps[-1]), np.clip(steps + right, 0, steps[-1])
        total += weight * picture[rows[:, None], columns]
    return (np.floor(257 * total + 0.5) // 257).astype(np.uint8)


def mud(x: Floats, liquid: Floats, threshold: float, sigma: float) -> Bytes:
    mask = gaussian((liquid > threshold).astype(np.float32), sigma=sigma)
    mask[mask < 0.8] = 0
    mask = mask[..., None]
    return to_bytes(x * (1 - mask) + mask * np.array([63, 42, 20]) / 255.0)


def water(x: Floats, liquid: Floats, strength: float) -> Bytes:
    depth = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(depth, 50, 150), cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    distance = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(distance, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    shine = depth * cv2.blur(relief, (3, 3)).astype(np.float32)
    shine = strength * shine[..., None] / max(shine.max(), 1)
    return to_bytes(x + shine * np.array([175, 238, 238]) / 255.0)
