"""What a model is given: a tensor, or a mapping or tuple of tensors whose first axis is the batch.

This file alone knows how the rows of such inputs are counted, moved, taken, cut, joined and handed to a
module. Everything else passes them on unseen, so that a picture, a pair (token ids, mask) and a tokenizer's
output take the same way.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.errors import InputError, LabelError, NotFiniteError, ShapeError

Inputs: TypeAlias = Tensor | Mapping[str, Tensor] | tuple[Tensor, ...]

LABEL_KEYS = ("labels", "label")
"""Where a batch that is a mapping keeps its labels, by the conventions of the field."""


class Labelled(NamedTuple):
    """Inputs, and their labels where there are any."""

    inputs: Inputs
    labels: Tensor | None


def as_inputs(value: Any) -> Inputs:
    """Arrays, lists and tokenizers' outputs as tensors; the kind of container is kept.

    Args:
        value: A tensor or an array, or a mapping or tuple of them. A list is an array. A structured array is
            a mapping of its fields, or a tuple where these are called 0, 1, ….

    Returns:
        A tensor, a dictionary of tensors, or a (named) tuple of tensors, all with as many rows.

    Raises:
        InputError: If there is nothing in it, or something that is no array.
        ShapeError: If the tensors have different numbers of rows.

    >>> as_inputs({"ids": [[0, 0, 0], [0, 0, 0]], "mask": torch.ones(2, 3)})["ids"].shape
    torch.Size([2, 3])
    """
    if isinstance(value, Tensor):
        return _tensor(value, "inputs")
    fields = getattr(getattr(value, "dtype", None), "names", None)
    if fields:  # torch refuses the strides of a field, even of one row
        parts = [value[name].copy() for name in fields]
        is_numbered = list(fields) == [str(place) for place in range(len(fields))]
        value = tuple(parts) if is_numbered else dict(zip(fields, parts, strict=True))
    if isinstance(value, Mapping):
        inputs: Inputs = {str(name): _tensor(part, f"inputs[{name!r}]") for name, part in value.items()}
    elif isinstance(value, tuple):
        inputs = _like(value, [_tensor(part, f"inputs[{i}]") for i, part in enumerate(value)])
    else:
        inputs = _tensor(value, "inputs")
    rows = [tensor.shape[0] for tensor in tensors(inputs)]
    if not rows:
        raise InputError("there are no tensors in the inputs: at least one is needed.")
    if any(each != rows[0] for each in rows[1:]):
        raise ShapeError(
            f"all tensors of the inputs need as many rows, but they have {', '.join(map(str, rows))}. "
            "The first axis of each is the batch. Of a graph, rows are the numbers of its nodes: "
            "totalcal.nets.OfNodes(net, x, edge_index=edges)."
        )
    return inputs


def labelled(batch: Any, like: Inputs | None = None) -> Labelled:
    """A batch as inputs and labels: a pair, a mapping with the key `labels` or `label`, or inputs alone.

    Args:
        batch: What a loader gives. A batch of one element, as `TensorDataset(x)` gives, has no labels.
        like: Inputs whose kind is known. A tuple of as many tensors as a tuple or mapping `like` has then is
            inputs without labels: the mask of (ids, mask) is not taken for labels.

    Returns:
        The inputs, and the labels or None.

    >>> labelled({"ids": torch.zeros(2, 3), "labels": torch.tensor([0, 1])}).labels
    tensor([0, 1])
    >>> pair = torch.zeros(2, 3), torch.ones(2, 3)
    >>> labelled(pair, like=pair).labels is None
    True
    """
    if isinstance(batch, Mapping):
        key = next((name for name in LABEL_KEYS if name in batch), None)
        rest = {name: part for name, part in batch.items() if name != key}
        return _checked(rest, None if key is None else batch[key])
    if isinstance(batch, tuple) or _is_collated(batch):
        parts = tuple(tuple(part) if _is_collated(part) else part for part in batch)
        if isinstance(like, tuple | Mapping) and not isinstance(parts[0], tuple | Mapping):
            last = _tensor(parts[-1], "labels")
            if len(parts) != len(like) and last.dim() == 1 and not last.is_floating_point():
                return _checked(parts[:-1], last)
            return _checked(batch if isinstance(batch, tuple) else parts, None)
        if len(parts) == 1:
            return _checked(parts[0], None)
        if len(parts) == 2:
            return _checked(*parts)
        return _checked(parts[:-1], parts[-1]) if like is None else _checked(parts, None)
    return _checked(batch, None)


def count(inputs: Inputs) -> int:
    """How many rows there are."""
    first = inputs if isinstance(inputs, Tensor) else next(tensors(inputs))
    return first.shape[0]  # not `len`, which an export would take for a constant


def tensors(inputs: Inputs) -> Iterator[Tensor]:
    """The tensors, in order."""
    if isinstance(inputs, Tensor):
        return iter((inputs,))
    return iter(inputs.values() if isinstance(inputs, Mapping) else inputs)


def device_of(module: nn.Module) -> torch.device:
    """Where a module's parameters are; the CPU where it has none."""
    return next((weight.device for weight in module.parameters()), torch.device("cpu"))


def mapped(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """The function of every tensor, in a container of the same kind."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    if isinstance(inputs, Mapping):
        return {name: function(part) for name, part in inputs.items()}
    return _like(inputs, [function(part) for part in inputs])


def moved(inputs: Inputs, where: torch.device) -> Inputs:
    """On a device; images in channels_last, which halves the time of a convolution on a CPU."""

    def move(tensor: Tensor) -> Tensor:
        layout = torch.channels_last if tensor.dim() == 4 else torch.preserve_format
        return tensor.to(where, memory_format=layout, non_blocking=True)

    return mapped(move, inputs)


_FEW_CHANNELS = 8


def layout_for(net: nn.Module) -> torch.memory_format:
    """How images are laid out while a net is trained: channels_last, but where that ruins its gradients.

    With fewer than eight channels, the gradient of a 1 × 1 convolution with a stride is wrong in that layout,
    hangs, or ends the process (torch 2.13 on a CPU).

    >>> layout_for(nn.Conv2d(3, 8, 1)), layout_for(nn.Conv2d(3, 8, 1, stride=2))
    (torch.channels_last, torch.contiguous_format)
    """
    for layer in net.modules():
        stride = getattr(layer, "stride", None)
        if isinstance(stride, tuple) and max(stride) > 1:
            for weight in layer.parameters(recurse=False):
                if weight.dim() == 4 and weight.shape[2:] == (1, 1) and weight.shape[1] < _FEW_CHANNELS:
                    return torch.contiguous_format
    return torch.channels_last


def laid_out(inputs: Inputs, layout: torch.memory_format) -> Inputs:
    """Images in a layout; all else as it is."""
    return mapped(lambda part: part.contiguous(memory_format=layout) if part.dim() == 4 else part, inputs)


def in_precision_of(module: nn.Module, inputs: Inputs) -> Inputs:
    """Floating tensors in the module's precision, where nothing in it is in theirs: NumPy's are float64."""
    if not any(map(torch.is_floating_point, tensors(inputs))):
        return inputs
    kept = [*module.parameters(), *module.buffers()]
    known = list(dict.fromkeys(tensor.dtype for tensor in kept if tensor.is_floating_point()))

    def change(tensor: Tensor) -> Tensor:
        is_strange = known and tensor.is_floating_point() and tensor.dtype not in known
        return tensor.to(known[0]) if is_strange else tensor

    return mapped(change, inputs)


def parts_of(*modules: nn.Module) -> list[nn.Module]:
    """The modules and all within, each once: `modules()` in another order, and in a third of its time."""
    found: dict[nn.Module, None] = {}
    waiting: list[nn.Module | None] = [*modules]
    while waiting:
        part = waiting.pop()
        if part is not None and part not in found:
            found[part] = None
            waiting += part._modules.values()
    return list(found)


def received_by(module: nn.Module, inputs: Inputs) -> Inputs:
    """Inputs on the module's device, and in its precision: the one rule for rows that come from elsewhere."""
    first = _first_weight(module)
    if first is None or all(
        part.device == first.device and (part.dtype == first.dtype or not part.is_floating_point())
        for part in tensors(inputs)
    ):
        return inputs
    return mapped(lambda part: part.to(first.device), in_precision_of(module, inputs))


def _first_weight(module: nn.Module) -> Tensor | None:
    """That of `parameters()`, which would take half of the time of a small layer to name it."""
    for weight in module._parameters.values():
        if weight is not None:
            return weight
    for child in module._modules.values():
        found = None if child is None else _first_weight(child)
        if found is not None:
            return found
    return None


def in_types_of(like: Inputs, inputs: Inputs) -> Inputs:
    """Rows of the same kind as `like` in its types, so that both can be joined."""
    types = iter([tensor.dtype for tensor in tensors(like)])
    return mapped(lambda tensor: tensor.to(next(types)), inputs)


def taken(inputs: Inputs, rows: Tensor | slice) -> Inputs:
    """Some of the rows, by number or slice."""
    return mapped(lambda tensor: tensor[rows], inputs)


def blocks(inputs: Inputs, size: int) -> Iterator[Inputs]:
    """The rows in blocks of `size`; the last may be shorter."""
    for start in range(0, count(inputs), size):
        yield taken(inputs, slice(start, start + size))


def joined(parts: Sequence[Inputs]) -> Inputs:
    """The rows of several inputs of one kind, in order.

    >>> joined([(torch.zeros(1, 2), torch.ones(1)), (torch.zeros(3, 2), torch.ones(3))])[0].shape
    torch.Size([4, 2])
    """
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat([cast(Tensor, part) for part in parts])
    if isinstance(first, Mapping):
        return {name: torch.cat([cast(Mapping[str, Tensor], p)[name] for p in parts]) for name in first}
    columns = zip(*cast(Sequence[tuple[Tensor, ...]], parts), strict=True)
    return _like(first, [torch.cat(column) for column in columns])


def named(inputs: Inputs, name: str) -> dict[str, Tensor]:
    """The tensors by names that `from_named` reads, for a file: `name` itself, or `name/key` for each."""
    if isinstance(inputs, Tensor):
        return {name: inputs}
    members = inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs)
    return {f"{name}/{key}": part for key, part in members}


def from_named(parts: Mapping[str, Tensor], name: str) -> Inputs:
    """The inputs that `named` gave the names; a named tuple comes back without its names.

    >>> from_named(named((torch.zeros(2), torch.ones(2)), "inputs"), "inputs")
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if name in parts:
        return parts[name]
    found = {key.removeprefix(f"{name}/"): part for key, part in parts.items() if key.startswith(f"{name}/")}
    return tuple(found[str(place)] for place in range(len(found))) if "0" in found else found


class TensorForm(NamedTuple):
    """One tensor of a net's inputs: its name, the name of its type, and how many axes a row of it has."""

    name: str
    dtype: str
    axes: int


def forms_of(inputs: Inputs) -> tuple[TensorForm, ...]:
    """The tensors of some inputs, without their lengths, which texts have of their own.

    >>> forms_of({"ids": torch.zeros(2, 7, dtype=torch.long), "scale": torch.ones(2)})
    (TensorForm(name='ids', dtype='int64', axes=1), TensorForm(name='scale', dtype='float32', axes=0))
    """
    return tuple(
        TensorForm(name.removeprefix("inputs/"), str(part.dtype).removeprefix("torch."), part.dim() - 1)
        for name, part in named(inputs, "inputs").items()
    )


def can_be_joined(one: Inputs, other: Inputs) -> bool:
    """Whether rows of both fit one batch: batches of texts are often padded to lengths of their own."""
    one, other = named(one, "inputs"), named(other, "inputs")
    return one.keys() == other.keys() and all(one[name].shape[1:] == other[name].shape[1:] for name in one)


@contextmanager
def types_in_words(inputs: Inputs) -> Iterator[None]:
    """A net's complaint about whole numbers, as tokens are and pixels should no longer be, in our words."""
    try:
        yield
    except RuntimeError as error:
        whole = {part.dtype for part in tensors(inputs) if not part.is_floating_point()}
        if not whole or not any(words in str(error) for words in _OF_TYPES):
            raise
        raise InputError(
            f"the net does not take {' and '.join(sorted(map(str, whole)))} ({error}). "
            "Give it floating numbers, scaled as in training: inputs.float()."
        ) from error


_OF_TYPES = ("same dtype", "scalar type", "Input type", "not implemented for '")


def call(module: nn.Module, inputs: Inputs) -> Tensor:
    """The module's logits for inputs of any kind; an output with `logits` in it gives those.

    A mapping is handed over by name and a tuple by position, as PyTorch's own modules take them.

    Raises:
        InputError: If the module's `forward` takes other arguments, or the inputs are of a type that it does
            not take.
    """
    positional: tuple[Tensor, ...] = ()
    by_name: Mapping[str, Tensor] = {}
    if isinstance(inputs, Mapping):
        by_name = inputs
    else:
        positional = (inputs,) if isinstance(inputs, Tensor) else inputs
    with types_in_words(inputs):
        try:
            return logits(module(*positional, **by_name))
        except TypeError as failure:
            form = signature(module.forward)
            try:
                form.bind(*positional, **by_name)
            except TypeError as reason:
                many = "one tensor" if len(positional) == 1 else f"{len(positional)} tensors"
                given = ", ".join(by_name) or many
                raise InputError(
                    f"the net takes {', '.join(form.parameters)}, but got {given} ({reason}). "
                    "A mapping is handed over by name, a tuple by position."
                ) from failure
            raise  # it takes such inputs, and fails for reasons of its own


def logits(output: Any) -> Tensor:
    """A tensor, or the `logits` of an object or mapping, as Hugging Face's classifiers give.

    >>> logits({"logits": torch.zeros(2, 3), "hidden_states": None}).shape
    torch.Size([2, 3])
    """
    if isinstance(output, Tensor):
        return output
    is_mapping = isinstance(output, Mapping)
    found = output.get("logits") if is_mapping else getattr(output, "logits", output)
    if not isinstance(found, Tensor):
        raise ShapeError(
            f"the net must give a tensor of one row per input, or something with `logits`, but gives a "
            f"{type(output).__name__}. Wrap it in a module that returns the logits."
        )
    return found


def by_class(output: Tensor) -> Tensor:
    """A column of logits for each class; of one logit per row, as binary cross-entropy takes it, for both.

    Half of it for the second class and minus half for the first: the softmax of the two is its sigmoid.

    >>> by_class(torch.tensor([[2.0]]))
    tensor([[-1.,  1.]])
    """
    if output.dim() > 2 or (output.dim() == 2 and output.shape[-1] != 1):
        return output
    half = output.reshape(-1, 1) / 2  # a net that squeezes its output leaves no axis of one row
    return torch.cat([-half, half], -1)


def broken_rows(inputs: Inputs) -> Tensor:
    """The numbers of the rows that hold NaN or infinity; empty for sound inputs."""
    flags = [~torch.isfinite(part).flatten(1).all(1) for part in tensors(inputs) if _looks_broken(part)]
    return torch.stack(flags).any(0).nonzero().flatten() if flags else torch.zeros(0, dtype=torch.int64)


def _looks_broken(tensor: Tensor) -> bool:
    """NaN and infinity survive a sum: one cheap pass clears all batches but a rare huge one.

    An exported or compiled program has no place for errors that depend on its inputs.
    """
    if not tensor.is_floating_point() or torch.compiler.is_compiling():
        return False
    return not math.isfinite(tensor.sum().item())


def _like(original: tuple[Any, ...], parts: list[Tensor]) -> tuple[Tensor, ...]:
    """A tuple of the same type: named ones keep their names."""
    return type(original)(*parts) if hasattr(original, "_fields") else tuple(parts)


def _is_collated(batch: Any) -> bool:
    """Whether a list is what torch's loaders make of a tuple, rather than rows of numbers."""
    return isinstance(batch, list) and any(
        isinstance(part, Mapping | tuple) or (isinstance(part, Tensor) and part.dim() > 0) for part in batch
    )


def _tensor(value: Any, name: str) -> Tensor:
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(value).__name__
        remedy = " Stack rows to one tensor; several inputs are a tuple." if kind == "list" else ""
        remedy = " A net takes its numbers: rows.to_numpy('float32')." if hasattr(value, "iloc") else remedy
        raise InputError(
            f"{name} must be a tensor or an array of numbers, but is a {kind} ({error}).{remedy}"
        ) from error
    if tensor.dim() == 0:
        raise ShapeError(f"{name} needs a first axis of rows, but is a single number.")
    return tensor


def _checked(inputs: Any, labels: Any) -> Labelled:
    rows = as_inputs(inputs)
    known = None if labels is None else as_labels(labels)
    if known is not None and len(known) != count(rows):
        raise ShapeError(f"there are {count(rows)} inputs, but {len(known)} labels.")
    return Labelled(rows, known)


def checked_inputs(value: Any) -> Inputs:
    """What a user hands to a model as tensors: finite, one row or more, without the labels of a mapping."""
    if type(value) is Tensor and value.dim() and value.shape[0] and not _looks_broken(value):
        return value  # nearly always, and one row waits for each of the steps below
    inputs = as_inputs(value)
    if isinstance(inputs, Mapping) and len(inputs) > 1:
        inputs = {name: part for name, part in inputs.items() if name not in LABEL_KEYS}
    if count(inputs) == 0:
        raise InputError("at least one input is needed, but got none. The first axis is the batch.")
    if any(map(_looks_broken, tensors(inputs))) and len(bad := broken_rows(inputs)):
        raise NotFiniteError(
            f"inputs must be finite, but {len(bad)} of {count(inputs)} rows hold NaN or infinity, "
            f"the first is row {int(bad[0])}. Drop or impute them."
        )
    return inputs


def check_embedding(shape: Sequence[int], rows: int, num_classes: int) -> None:
    """A backbone gives a row of `num_classes` numbers for each input: an embedding of this shape."""
    if len(shape) != 2 or shape[0] != rows:
        is_dense = len(shape) > 2 and shape[0] == rows and math.prod(shape[2:]) > 1
        raise ShapeError(
            f"the backbone gives a tensor of shape {tuple(shape)} for {rows} inputs, but "
            f"({rows}, {num_classes}) is needed. " + (_DENSE if is_dense else "Flatten its output.")
        )
    if shape[1] != num_classes:
        raise ShapeError(
            f"the backbone gives {shape[1]} columns, but num_classes is {num_classes}.\n"
            f"  A process decides with the backbone's output: end it with a layer of {num_classes} outputs."
        )


def check_labels(labels: Tensor, rows: int, num_classes: int) -> None:
    """Labels are whole numbers from 0 to num_classes − 1, one per row."""
    reason = why_no_classes(labels)
    if reason is not None:
        raise LabelError(reason)
    if labels.shape != (rows,):
        raise ShapeError(f"{rows} rows need labels of shape ({rows},), but they have {tuple(labels.shape)}.")
    if torch.compiler.is_compiling():
        return  # an exported program has no place for errors that depend on values
    if rows and (int(labels.min()) < 0 or int(labels.max()) >= num_classes):
        raise LabelError(
            f"labels must lie in 0 … {num_classes - 1}, but range from "
            f"{int(labels.min())} to {int(labels.max())}. Number the classes from 0, or raise num_classes."
        )


def as_labels(value: Any) -> Tensor:
    """Labels as a user has them, as a tensor of class numbers where they can be read so.

    Raises:
        LabelError: If they are words: only what knows names of classes takes those.

    >>> as_labels([2, 0])
    tensor([2, 0])
    """
    try:
        return as_class_numbers(_tensor(value, "labels"))
    except InputError as error:
        if np.asarray(value).dtype.kind not in "OUS":
            raise
        raise LabelError(
            "labels are class numbers here, but these are words: number the classes from 0. A model that was "
            "calibrated with classes=[…] takes their names."
        ) from error


def as_class_numbers(labels: Tensor) -> Tensor:
    """Whole numbers of any type as int64, of one column as a vector; all else as it is, for `why_no_classes`.

    Floating zeros and ones are class numbers: binary cross-entropy takes them so.

    >>> as_class_numbers(torch.tensor([[0.0], [1.0]])), as_class_numbers(torch.tensor([0.5, 1.0]))
    (tensor([0, 1]), tensor([0.5000, 1.0000]))
    """
    flat = labels.squeeze(1) if labels.dim() == 2 and labels.shape[1] == 1 else labels
    if flat.dim() != 1 or flat.dtype == torch.int64:
        return flat
    is_binary = flat.is_floating_point() and bool(((flat == 0) | (flat == 1)).all())
    return flat.long() if is_binary or not flat.is_floating_point() else flat


def why_no_classes(labels: Tensor) -> str | None:
    """What labels are, if they are not one int64 class number per row, and what to do with them.

    >>> why_no_classes(torch.tensor([[0, 1, 0], [1, 0, 0]]))
    'one class number per row is needed, but labels of shape (2, 3) are one-hot: give labels.argmax(1).'
    """
    if labels.dim() == 1 and labels.dtype == torch.int64:
        return None
    if labels.dim() == 1 and labels.is_floating_point() and bool((labels != labels.floor()).any()):
        return (
            f"labels must be class numbers, but one is {float(labels[labels != labels.floor()][0]):.4g}, as "
            "in a regression, which totalcal does not do. Make classes of such targets, "
            "torch.bucketize(targets, edges); for intervals of numbers take MAPIE."
        )
    if labels.dim() == 1:
        return (
            f"labels must be int64, but are {labels.dtype}. If they are class numbers, give labels.long(); "
            "totalcal does no regression."
        )
    needed = f"one class number per row is needed, but labels of shape {tuple(labels.shape)}"
    if labels.dim() == 0:
        return f"{needed} are a single number."
    if labels.dim() > 2:
        return f"{needed} are many per row. {_DENSE}"
    sums = labels.sum(1)
    are_flags = bool(((labels == 0) | (labels == 1)).all())
    if are_flags and bool((sums == 1).all()):
        return f"{needed} are one-hot: give labels.argmax(1)."
    if are_flags:
        return (
            f"{needed} are multi-label: a row is in several classes, or none. Calibrate each by itself: "
            "totalcal.calibrate_probabilities(probabilities[:, k], labels[:, k])."
        )
    if labels.is_floating_point() and bool(((sums - 1).abs() < _ROUNDING).all()):
        return f"{needed} are probabilities: give labels.argmax(1)."
    return f"{needed} are several numbers per row: which column has the classes? {_DENSE}"


_ROUNDING = 1e-3
_DENSE = (
    "Classes of pixels or tokens are not classified here, but their probabilities can be calibrated as rows: "
    "totalcal.calibrate_probabilities(probabilities.movedim(1, -1).flatten(0, -2), labels.flatten())."
)


def check_predicted(probabilities: Tensor, inputs: Any, model: nn.Module) -> None:
    """Predictions, draws × rows × classes, are numbers: huge but finite inputs may overflow on the way.

    One sum: probabilities are at most 1, and NaN survives it. A compiled program has no place for it.
    """
    if torch.compiler.is_compiling() or not math.isnan(probabilities.sum().item()):
        return
    broken = not_finite(model)
    if broken is not None:
        raise InputError(
            f"{broken} is not finite, so that nothing can be predicted. Load or train the model again."
        )
    bad = probabilities.isnan().flatten(2).any(2).any(0).nonzero().flatten()
    largest = max(float(part[bad].abs().max()) for part in tensors(as_inputs(inputs)))
    precision = next((weight.dtype for weight in model.parameters()), torch.get_default_dtype())
    raise NotFiniteError(
        f"the predictions of {len(bad)} of {probabilities.shape[1]} rows are not finite, the first is row "
        f"{int(bad[0])}. Numbers up to {largest:.3g} are too large for this model in "
        f"{str(precision).removeprefix('torch.')}: scale the rows as in training, or drop them."
    )


def not_finite(model: nn.Module) -> str | None:
    """The first parameter that is not finite, or buffer with a NaN: a mask may hold −∞ and be right."""
    parameters = (name for name, weight in model.named_parameters() if not weight.isfinite().all())
    buffers = (name for name, value in model.named_buffers() if value.isnan().any())
    return next(parameters, None) or next(buffers, None)
