"""From the user's rows to the tensors that a model was trained on: a shift and a scale, nothing to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from totalcal.errors import ShapeError
from totalcal.pictures import PictureSteps


@dataclass(frozen=True)
class Preprocessing:
    """(x − mean) / scale for rows of one `shape`; mean and scale broadcast against it.

    Images are channels × height × width with values in [0, 1]; `pictures` says how a file becomes one, if it
    is known. A table may name its `columns`.
    """

    shape: tuple[int, ...]
    mean: Tensor
    scale: Tensor
    columns: tuple[str, ...] | None = None
    pictures: PictureSteps | None = None

    def __post_init__(self) -> None:
        if self.pictures is not None and self.pictures.shape != self.shape:
            raise ShapeError(f"pictures become {self.pictures.shape}, but the model takes {self.shape}.")

    @classmethod
    def fitted(cls, rows: npt.ArrayLike, columns: Sequence[str] | None = None) -> Self:
        """Mean 0 and variance 1 for every entry of a row; an entry that never varies is only shifted."""
        values = np.asarray(rows, dtype=np.float64)
        scale = values.std(axis=0)
        scale[scale <= 10 * np.finfo(np.float64).eps * np.abs(values).max(axis=0)] = 1.0
        names = None if columns is None else tuple(columns)
        return cls(values.shape[1:], torch.from_numpy(values.mean(axis=0)), torch.from_numpy(scale), names)

    def __call__(self, rows: npt.ArrayLike, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows as a model takes them; the arithmetic is in float64."""
        values = torch.from_numpy(np.asarray(rows, dtype=np.float64).copy())  # the rows may be read-only
        if values.shape[1:] != self.shape:
            raise ShapeError(
                f"the model takes rows of shape {self.shape}, but these have {tuple(values.shape[1:])}."
            )
        return ((values - self.mean) / self.scale).to(dtype)
