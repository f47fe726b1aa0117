"""Groups of tensors as bytes, and from there into a model that has been checked to fit them."""

from collections.abc import Mapping

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from totalcal.errors import ModelFileError
from totalcal.files.recipe import Recipe
from totalcal.process import TuringProcess

_SEPARATOR = "/"
_HARMLESS = 10**6  # weights: so many are made without asking


def packed(groups: Mapping[str, Mapping[str, Tensor]]) -> bytes:
    """All tensors in the format of safetensors, under the names group/name."""
    named = {
        f"{group}{_SEPARATOR}{name}": tensor.detach().cpu().contiguous().clone()  # tied weights stay apart
        for group, members in groups.items()
        for name, tensor in members.items()
    }
    return bytes(safetensors.torch.save(named))


def unpacked(content: bytes) -> dict[str, dict[str, Tensor]]:
    """The groups, each with its tensors by name."""
    try:
        named = safetensors.torch.load(content)
    except SafetensorError as error:
        raise ModelFileError(f"the tensors are damaged ({error}). Copy or save the file again.") from error
    groups: dict[str, dict[str, Tensor]] = {}
    for full_name, tensor in named.items():
        group, _, name = full_name.partition(_SEPARATOR)
        groups.setdefault(group, {})[name] = tensor
    return groups


def filled(model: TuringProcess, state: Mapping[str, Tensor]) -> TuringProcess:
    """The given model with these weights, in their precision, if they are the weights of such a model."""
    _check_fit(model, state)
    precisions = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(precisions) == 1:  # a model of several was built by the user, in those
        model.to(dtype=precisions.pop())
    model.load_state_dict(state)
    return model.eval()


def built(recipe: Recipe, backbone: nn.Module | None, state: Mapping[str, Tensor]) -> TuringProcess:
    """The model of a recipe with these weights."""
    _check_appetite(recipe, sum(tensor.numel() for tensor in state.values()))
    with torch.random.fork_rng(devices=[]):  # the weights it starts from are overwritten at once
        return filled(recipe.build(backbone), state)


def _check_appetite(recipe: Recipe, available: int) -> None:
    """A hostile recipe cannot ask for much more memory than the file itself holds.

    The backbone is laid out without memory and counted; what else grows with an argument, cells and widths,
    grows with the number of classes too.
    """
    asked = 0
    if recipe.backbone is not None:
        with torch.device("meta"):
            asked = sum(parameter.numel() for parameter in recipe.build_backbone().parameters())
    sizes = [value for value in recipe.arguments.values() if isinstance(value, int)]
    grown = recipe.num_classes * max(sizes, default=0)
    if asked > available or grown > max(available, _HARMLESS):
        raise ModelFileError(
            f"its recipe asks for {max(asked, grown)} weights, more than the {available} in the file. "
            "totalcal did not write this file: do not use it."
        )


def _check_fit(model: TuringProcess, state: Mapping[str, Tensor]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise ModelFileError(
            f"its weights are not those of this model: {len(wrong)} differ, for example {name}, which should "
            f"have shape {expected.get(name, 'none')} and has {found.get(name, 'none')}. "
            "Build the model, or its backbone, exactly as it was when it was saved."
        )
