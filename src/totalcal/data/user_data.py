"""Data of one's own as `ArrayData`: an image folder, an `.npz`, a table, any torch `Dataset` or `DataLoader`.

`like` is the training set whose scaling (and classes, for a folder) a test or OOD set must follow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal.data.arrays import ArrayData, Scaling, statistics
from totalcal.data.preprocessing import PictureSteps, Preprocessing, is_hidden, pictures_below
from totalcal.errors import DataError, InputError, LabelError, MissingExtraError, ShapeError
from totalcal.files.reading import check_arrow, npz_names, read_npz, unreadable
from totalcal.types import Batch

if TYPE_CHECKING:
    import pandas as pd

_NO_CLASS = -1


@dataclass(frozen=True)
class ImageFolder:
    """What a folder of pictures gives.

    Attributes:
        data: The pictures and their labels.
        classes: The names of the classes in the order of the labels.
        steps: What was done to every picture.
        skipped: Pictures that could not be read, with the reason.
    """

    data: ArrayData
    classes: tuple[str, ...]
    steps: PictureSteps
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.data)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """The pictures and labels as tensors, so that `fit` and `evaluate` take a folder as it is."""
        return self.data.batches(batch_size, generator)

    @property
    def preprocessing(self) -> Preprocessing:
        """For `save(model, path, preprocessing=…)`: `totalcal predict` then treats new pictures alike."""
        scaling = self.data.scaling
        assert scaling is not None  # pictures have one
        mean, std = torch.tensor(scaling.mean), torch.tensor([value or 1.0 for value in scaling.std])
        return Preprocessing(
            self.steps.shape, mean.double()[:, None, None], std.double()[:, None, None], pictures=self.steps
        )


def from_arrays(inputs: NDArray[Any], labels: NDArray[Any], like: ArrayData | None = None) -> ArrayData:
    """NumPy arrays, scaled by their own mean and deviation or by those of `like`.

    Args:
        inputs: uint8 images [n, h, w] or [n, h, w, c], integer tokens [n, length], a float table.
        labels: One whole number per row; −1 for rows of no class.
        like: The training set whose scaling is taken over.

    Returns:
        The data, as `fit` and `evaluate` take them.

    Raises:
        InputError: If there are no rows, or inputs or labels are no numbers, or not finite.
        ShapeError: If there is not one label per row.

    Example:
        >>> data = from_arrays(np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([0, 1]))
        >>> data.whole().inputs.tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    numbers = _as_inputs(inputs)
    known = statistics(numbers)
    own = Scaling(*known) if known.mean else None
    return ArrayData.from_arrays(numbers, _as_labels(labels), like.scaling if like is not None else own)


def from_image_folder(
    folder: str | Path,
    size: tuple[int, int],
    colour: bool = True,
    like: ImageFolder | None = None,
    *,
    crop: bool = False,
    strict: bool = True,
) -> ImageFolder:
    """A folder of pictures with one folder per class, `folder/CLASS/picture.png`, or deeper in it.

    Args:
        folder: The folder.
        size: Height and width that every picture is brought to.
        colour: Whether there are three channels, or one.
        like: The training folder, whose classes, scaling, colour and crop are taken over. Pictures of other
            classes have the label −1: they are of no class, and may be an OOD set.
        crop: Whether the middle of a picture is cut out in the form of `size`, instead of stretching it.
        strict: Whether a picture that cannot be read, and a class without pictures, is an error; if not, it
            is left out and named in `skipped`.

    Returns:
        The data, and the classes: the names of the folders, in alphabetical order. Hidden ones, such as
            `.ipynb_checkpoints`, are not classes. `preprocessing` is for `save`.

    Raises:
        DataError: If there are no pictures, or, with `strict`, one of them cannot be read.
        ShapeError: If the size is not that of `like`.
        MissingExtraError: Without Pillow.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat", "dog"):
        ...         (Path(folder) / name).mkdir()
        ...         Image.new("RGB", (40, 30)).save(Path(folder) / name / "1.png")
        ...     train = from_image_folder(folder, size=(32, 32))
        >>> train.classes, train.data.inputs.shape
        (('cat', 'dog'), torch.Size([2, 32, 32, 3]))
    """
    root = Path(folder)
    with unreadable(root, f"a folder: expected {root}/CLASS/NAME.png, .jpg, …", "Give another folder."):
        found = sorted(path.name for path in root.iterdir() if path.is_dir() and not is_hidden(path))
    steps = PictureSteps((size[0], size[1]), colour, crop) if like is None else like.steps
    if steps.size != tuple(size):
        raise ShapeError(f"`like` has pictures of {steps.size}, but size is {tuple(size)}: give the same.")
    files = {name: pictures_below(root / name) for name in found}
    skipped: list[str] = []
    for name in [name for name in found if like is None and not files[name]]:
        skipped.append(f"{root / name} holds no pictures, so it would be a class without rows.")
        found.remove(name)
        if strict and any(files.values()):
            raise DataError(f"{skipped[-1]} Remove it, or give strict=False to leave it out.")
    names = tuple(found) if like is None else like.classes
    places = {name: label for label, name in enumerate(names)}
    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for name in found:
        for file in files[name]:
            try:
                images.append(steps(root / name / file))
                labels.append(places.get(name, _NO_CLASS))
            except DataError as error:
                if strict:
                    raise DataError(f"{error} Or give strict=False, to leave such pictures out.") from error
                skipped.append(str(error))
    if not images:
        raise DataError(f"{root} holds no pictures: expected {root}/CLASS/NAME.png, .jpg, …")
    data = from_arrays(np.stack(images), np.array(labels), like.data if like is not None else None)
    return ImageFolder(data, names, steps, tuple(skipped))


def from_npz(
    path: str | Path, inputs: str = "inputs", labels: str = "labels", like: ArrayData | None = None
) -> ArrayData:
    """Two arrays of an `.npz` file, by their names in it.

    Args:
        path: The file, as `numpy.savez` writes it.
        inputs: The name of the inputs in it; for their form see `from_arrays`.
        labels: The name of the labels in it.
        like: The training set whose scaling is taken over.

    Returns:
        The data.

    Raises:
        DataError: If the file cannot be read, or lacks one of the arrays.
        InputError: If the arrays are not what `from_arrays` takes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/mine.npz", inputs=np.zeros((4, 28, 28), np.uint8), labels=np.arange(4))
        ...     len(from_npz(f"{folder}/mine.npz"))
        4
    """
    arrays = read_npz(path, (inputs, labels))
    missing = {inputs, labels} - set(arrays)
    if missing:
        raise DataError(
            f"{path} has no array {' or '.join(sorted(missing))}: it has {', '.join(npz_names(path))}."
        )
    return from_arrays(arrays[inputs], arrays[labels], like)


def from_table(
    frame: "pd.DataFrame | str | Path",
    label: str,
    like: ArrayData | None = None,
    classes: Sequence[Any] | None = None,
) -> ArrayData:
    """A pandas table of numbers with a column of classes, or a file of one.

    Args:
        frame: The table, or a path: .parquet, .feather, and .csv for all else. Every column but one is an
            input.
        label: The name of the column of classes.
        like: The training set whose scaling is taken over.
        classes: All classes in the order of their labels; those of the table, sorted, if it is None. Give
            them for a test set that may lack some.

    Returns:
        The data, float32.

    Raises:
        DataError: If there is no such column, or a column does not hold numbers.
        LabelError: If a row has no class, or one that is not among `classes`.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"width": [1.0, 3.0], "kind": ["wolf", "dog"]})
        >>> from_table(frame, label="kind").labels.tolist()
        [1, 0]
    """
    if isinstance(frame, str | Path):
        frame = _table_of(Path(frame))
    if label not in frame.columns:
        raise DataError(f"the table has no column {label!r}: it has {', '.join(map(str, frame.columns))}.")
    if frame[label].ndim != 1:
        raise DataError(f"the table has several columns {label!r}: give them different names.")
    column = frame[label]
    if column.isna().any():
        raise LabelError(f"{int(column.isna().sum())} rows have no {label}: fill or drop them first.")
    with unreadable(f"column {label!r}", "classes that can be sorted", "Give `classes`."):
        order = list(classes) if classes is not None else sorted(column.unique())
    places = {value: place for place, value in enumerate(order)}
    labels = column.map(places)
    if labels.isna().any():
        raise LabelError(f"{label} {column[labels.isna()].iloc[0]!r} is not one of the classes {order}.")
    with unreadable("the table", "numbers", "Leave out or encode the columns that hold none."):
        values = frame.drop(columns=label).to_numpy(dtype=np.float64)
    return from_arrays(values, labels.to_numpy(), like)


def _table_of(path: Path) -> "pd.DataFrame":
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "tables", "reading tables") from error
    read = {".parquet": pd.read_parquet, ".feather": _feather}.get(path.suffix.lower(), pd.read_csv)
    with unreadable(path, "a table"):
        return read(path)


def _feather(path: Path) -> "pd.DataFrame":
    """What pandas reads, once its lengths are checked: words that end beyond their buffer are a segfault."""
    try:
        from pyarrow import feather
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables", "reading Feather files") from error
    check_arrow(path)
    table = feather.read_table(path)
    table.validate(full=True)
    return table.to_pandas()


def from_dataset(dataset: Iterable[Any]) -> ArrayData:
    """Any `Dataset` of (input, label) pairs or `DataLoader` of batches, read once; inputs stay unscaled.

    Args:
        dataset: Pictures have their channels first, as torch has them.

    Returns:
        The data, in memory.

    Raises:
        InputError: If it is empty, or does not give pairs.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> len(from_dataset(TensorDataset(torch.randn(10, 3, 8, 8), torch.arange(10))))
        10
    """
    inputs: list[Tensor] = []
    labels: list[Tensor] = []
    with unreadable("the data set", "pairs of inputs and labels that can be stacked", "See docs/data.md."):
        for example, label in dataset:
            single = torch.as_tensor(label).ndim == 0
            inputs.append(torch.as_tensor(example)[None] if single else torch.as_tensor(example))
            labels.append(torch.as_tensor(label).reshape(-1))
        if not labels:
            raise InputError("the data set is empty.")
        joined = torch.cat(inputs)
    if joined.ndim == 4:
        joined = joined.permute(0, 2, 3, 1)  # a torch picture has its channels first, ours last
    return ArrayData(joined, torch.cat(labels).long())


def _as_inputs(inputs: NDArray[Any]) -> NDArray[Any]:
    """uint8, int64 or float32, and finite."""
    if inputs.dtype.kind not in "iufb":
        raise InputError(f"inputs must be numbers, not {inputs.dtype}: bytes, whole numbers or floats.")
    if not 2 <= inputs.ndim <= 4 or 0 in inputs.shape:
        raise ShapeError(
            "inputs must be [n, height, width], [n, height, width, channels] or [n, columns], but have shape "
            f"{inputs.shape}."
        )
    if inputs.dtype.kind in "iu" and inputs.dtype != np.uint8:
        return inputs.astype(np.int64)
    with np.errstate(over="ignore"):
        numbers = inputs if inputs.dtype == np.uint8 else inputs.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InputError("the inputs hold values that are not finite in float32: fill or drop them first.")
    return numbers


def _as_labels(labels: NDArray[Any]) -> NDArray[np.int64]:
    if labels.ndim != 1 or labels.dtype.kind not in "iufb":
        raise LabelError(f"labels must be one whole number per row, not {labels.dtype} {labels.shape}.")
    with np.errstate(invalid="ignore"):
        whole = labels.astype(np.int64)
    if (whole != labels).any():
        raise LabelError("labels must be whole numbers: some of these are not.")
    return whole
