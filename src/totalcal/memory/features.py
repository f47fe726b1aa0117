"""Where a net's features are read: which layers, and how, during a pass that takes place anyway.

A hook on each tapped layer hands what it sees to the collector of the running context, if there is one. The
hook keeps nothing, and contexts are apart by thread and task, so that predictions may run side by side.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from inspect import Signature, signature
from threading import get_ident
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal.inputs import Inputs, count, tensors
from totalcal.memory.distances import pooled_map

FeatureKind = Literal["vector", "map", "tokens"]
INPUTS = "inputs"
_BEFORE = " (input)"
_LONGEST_RUN = 4
_ONE_ROW = "A single row is given as a batch of one, row[None]."
_WEIGHTLESS = ("Norm", "Pool", "Dropout", "Flatten", "Identity")
_ALONG_THE_LAST_AXIS = ("Conv1d", "Pool1d", "BatchNorm1d", "InstanceNorm1d")


@dataclass(frozen=True)
class Tap:
    """A layer that is read: by name as in `named_modules`, with " (input)" for what goes into it.

    `kind` says what is there: a vector per row; a map of channels × positions, known by the means and
    deviations of its channels; or a sequence, whose tokens count one by one, but for those of `padding`:
    where the input `padded` (its name or place; else the first of whole numbers) has this value. A `grid` is
    a sequence whose tokens lie in rows and columns, channels last, as a Swin transformer's do.
    """

    name: str
    kind: FeatureKind
    width: int
    batch_first: bool = True
    padding: int | None = None
    grid: bool = False
    padded: str | None = None

    @property
    def module_name(self) -> str:
        return self.name.removesuffix(_BEFORE)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.width})"


class Features(NamedTuple):
    """Features [n, width], and for tokens whose row each of them is."""

    values: Tensor
    rows: Tensor | None = None


def map_features(maps: Tensor) -> Features:
    """What a map [n, channels, …] is known by: one row each, of its channels' means and deviations."""
    return Features(pooled_map(maps))


@dataclass
class Collector:
    """What the taps have seen in one pass; of a layer that runs several times, the last."""

    taps: Sequence[Tap]
    inputs: Inputs
    skipped: int = 0
    features: dict[str, Features] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tap in self.taps:
            if tap.name == INPUTS:
                self.take(tap, next(tensors(self.inputs)))

    def take(self, tap: Tap, output: Any) -> None:
        """Keep what is needed of an output, at once: a layer behind may write over it."""
        values = _at_nodes(_main_tensor(output))
        if values is None or _kind(values) is None:
            raise ShapeError(
                f"the layer {tap.name} gives no features that can be read: {_shape(output)}. {_ONE_ROW}"
            )
        if not tap.batch_first:
            values = values.transpose(0, 1)
        values = values.detach()[self.skipped :]
        if tap.kind == "map":
            found = map_features(values)
        elif tap.kind == "tokens":
            values = values.flatten(1, -2) if tap.grid else values
            valid = _packed_tokens(output)
            if valid is None:
                valid = _valid_tokens(self.inputs, tap, values.shape[1])
            found = _tokens(values, None if valid is None else valid[self.skipped :])
        else:
            found = Features(values.flatten(1).clone())
        if found.values.shape[-1] != tap.width:
            raise ShapeError(
                f"the layer {tap.name} gives features of width {found.values.shape[-1]}, but the memory was "
                f"made with {tap.width}. Inputs must have the shape they had when it was made. {_ONE_ROW}"
            )
        self.features[tap.name] = found


_NODES: ContextVar[tuple[Tensor, int] | None] = ContextVar("nodes", default=None)
_COLLECTOR: ContextVar[Collector | None] = ContextVar("collector", default=None)
_Calls = list[tuple[str, nn.Module, Any, Any]]


def tap(backbone: nn.Module, taps: Sequence[Tap]) -> None:
    """Give each tapped layer of a backbone its hook, once. A tap that nobody asks is silent."""
    modules = dict(backbone.named_modules())
    for each in taps:
        if each.name == INPUTS:
            continue
        if each.module_name not in modules:
            raise UnknownNameError("layer", each.module_name, modules)
        module = modules[each.module_name]
        if not any(
            isinstance(hook, _Tapping) and hook.tap == each for hook in module._forward_hooks.values()
        ):
            module.register_forward_hook(_Tapping(each))


@contextmanager
def reading(nodes: Tensor, of: int) -> Iterator[None]:
    """Within this context layers that give a row for each of so many nodes are read at some of them."""
    token = _NODES.set((nodes, of))
    try:
        yield
    finally:
        _NODES.reset(token)


def _at_nodes(values: Tensor | None) -> Tensor | None:
    chosen = _NODES.get()
    if values is None or chosen is None or not values.dim() or values.shape[0] != chosen[1]:
        return values
    return values[chosen[0]]


@contextmanager
def collecting(collector: Collector | None) -> Iterator[None]:
    """Within this context the taps report to `collector`; None silences them."""
    token = _COLLECTOR.set(collector)
    try:
        yield
    finally:
        _COLLECTOR.reset(token)


class _Tapping:
    """The hook of one tap: hands over what passes, keeps nothing."""

    only_looks = True  # a model with such a hook is as its factory made it

    def __init__(self, tap: Tap) -> None:
        self.tap = tap

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        collector = _COLLECTOR.get()
        if collector is not None and self.tap in collector.taps:
            is_input = self.tap.name.endswith(_BEFORE)
            collector.take(self.tap, inputs[0] if is_input else output)


def found_taps(
    backbone: nn.Module, inputs: Inputs, run: Any, names: Sequence[str] | None = None
) -> list[Tap]:
    """The layers to read, in the order in which they run; the last is what the classifier decides by.

    Args:
        backbone: The net.
        inputs: A few rows.
        run: Passes those rows through the net, without arguments.
        names: Layers by name, `inputs` for the inputs; None finds what ends a stage: the last of the layers
            that leave the shape as it is, each with the normalisation, activation and pooling behind it. A
            table's inputs are a layer too.

    Raises:
        UnknownNameError: If there is no layer of a name.
        InputError: If a layer did not run, or nothing was found.
    """
    masks: list[Tensor] = []
    with _noting_masks(backbone, masks):
        calls = _recorded(backbone, run, None if names is None else _known(backbone, names))
    rows = count(inputs)
    padding = _padding_of(inputs, masks) or {"padding": _padding_index(backbone)}
    if names is not None:
        return [replace(_named(name, calls, inputs, rows), **padding) for name in names]
    last = _classifier(calls, backbone)
    stages = _stage_ends(_units(backbone, calls[:last]), rows)
    taps = [_inputs_tap(inputs)] if _is_table(inputs) else []
    taps += [tap for name, module, output in stages if (tap := _tap(name, module, output, rows))]
    decided_by = _main_tensor(calls[last][2]) if last < len(calls) else None
    if decided_by is not None and _kind(decided_by) == "vector" and len(decided_by) == rows:
        taps = _with_last(taps, stages, calls[last], decided_by)
    if not taps:
        raise InputError(
            "no layer was found whose features could be remembered. Name some: layers=[…], out of "
            f"{', '.join(name for name, *_ in calls[:20])}."
        )
    return [replace(tap, **padding) for tap in taps]


@contextmanager
def _noting_masks(backbone: nn.Module, masks: list[Tensor]) -> Iterator[None]:
    """Which tokens attention leaves out, as torch's own layers are told: [rows, length], true for padding."""
    thread = get_ident()

    def hook_of(form: Signature) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], by_name: dict[str, Any]) -> None:
            given = form.bind(*args, **by_name).arguments
            found = [given[name] for name in given if name.endswith(_MASK) and given[name] is not None]
            if found and get_ident() == thread:
                masks.append(found[0] if found[0].dtype == torch.bool else found[0] == -math.inf)

        hook.only_looks = True  # type: ignore[attr-defined]
        return hook

    attending = {
        module: signature(module.forward) for module in backbone.modules() if isinstance(module, _ATTENTION)
    }
    handles = [
        module.register_forward_pre_hook(hook_of(form), with_kwargs=True)
        for module, form in attending.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


_MASK = "key_padding_mask"
_ATTENTION = (
    nn.MultiheadAttention,
    nn.TransformerEncoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoder,
    nn.TransformerDecoderLayer,
)


def _padding_of(inputs: Inputs, masks: Sequence[Tensor]) -> dict[str, Any]:
    """The input and the value in it that tell padding, as the first mask that attention was given has it."""
    members = dict(inputs.items() if isinstance(inputs, Mapping) else enumerate(tensors(inputs)))
    for mask in masks[:1]:
        alike = {str(name): part for name, part in members.items() if part.shape == mask.shape}
        for name, part in alike.items():
            if part.dtype == torch.bool and (torch.equal(part, mask) or torch.equal(~part, mask)):
                return {"padded": name, "padding": int(torch.equal(part, mask))}
        for name, part in alike.items():
            values = part[mask].unique()
            if len(values) == 1 and torch.equal(part == values, mask) and not part.is_floating_point():
                return {"padded": name, "padding": int(values)}
    return {}


def _padding_index(backbone: nn.Module) -> int | None:
    """The token that stands for nothing, if an embedding of the net says which."""
    found = [m.padding_idx for m in backbone.modules() if isinstance(m, nn.Embedding)]
    return next((index for index in found if index is not None), None)


def _with_last(taps: list[Tap], stages: Any, call: Any, decided_by: Tensor) -> list[Tap]:
    """The classifier's input closes the list: as the output of the layer before it where it is just that."""
    name, output = (stages[-1][0], _main_tensor(stages[-1][2])) if stages else ("", None)
    if output is not None and output.shape == decided_by.shape and torch.equal(output, decided_by):
        return taps
    if taps and taps[-1].name == INPUTS and not stages:
        return taps  # a linear model: what the classifier sees is the inputs
    return [*taps, Tap(call[0] + _BEFORE if call[0] else name, "vector", decided_by.shape[-1])]


def _recorded(backbone: nn.Module, run: Any, only: Mapping[str, nn.Module] | None) -> _Calls:
    """All calls of modules in one pass, in the order in which they ended: name, module, input, output.

    What computes a layer's weights, as weight and spectral normalisation do, is a part of that layer. A layer
    that runs at several places has no one output, unless it repeats itself: then the last counts.
    """
    calls: _Calls = []
    watched = dict(backbone.named_modules()) if only is None else dict(only)
    watched = {name: module for name, module in watched.items() if "parametrizations" not in name.split(".")}
    with _watching(watched, calls):
        run()
    if only is not None:
        return calls
    last = {name: place for place, (name, *_) in enumerate(calls)}
    shapes: dict[str, set[Any]] = {}
    for name, *_, output in calls:
        shapes.setdefault(name, set()).add(None if output is None else output.shape[1:])
    times = Counter(name for name, *_ in calls)
    return [
        call
        for place, call in enumerate(calls)
        if times[call[0]] == 1
        or (place == last[call[0]] and len(shapes[call[0]]) == 1 and not _is_weightless(call[1]))
    ]


@contextmanager
def _watching(modules: Mapping[str, nn.Module], calls: _Calls) -> Iterator[None]:
    thread = get_ident()  # another one may be predicting

    def hook_of(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if get_ident() == thread:
                calls.append((name, module, _copied(inputs[0] if inputs else None), _copied(output)))

        hook.only_looks = True  # type: ignore[attr-defined]
        return hook

    scripted = next(
        (module for module in modules.values() if isinstance(module, torch.jit.ScriptModule)), None
    )
    if scripted is not None:
        raise InputError(
            f"the layers of a {type(scripted).__name__} cannot be read, and so not remembered: give the "
            "module that it was made from; or calibrate what it predicts, totalcal.calibrate_probabilities."
        )
    handles = [module.register_forward_hook(hook_of(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _copied(value: Any) -> Tensor | None:
    tensor = _at_nodes(_main_tensor(value))
    return None if tensor is None else tensor.detach().clone()


def _main_tensor(output: Any) -> Tensor | None:
    """A tensor, or the first of a tuple or of what a transformer gives."""
    if isinstance(output, Tensor):
        return output
    if (packed := _packed(output)) is not None:
        return pad_packed_sequence(packed, batch_first=True)[0]
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple) else ()
    return next((part for part in parts if isinstance(part, Tensor)), None)


def _packed(output: Any) -> PackedSequence | None:
    """A packed sequence, or the first of what a recurrent layer gives."""
    if isinstance(output, PackedSequence):
        return output
    first = output[0] if isinstance(output, tuple) and output else None
    return first if isinstance(first, PackedSequence) else None


def _packed_tokens(output: Any) -> Tensor | None:
    """[rows, length] of truth values: where a packed sequence has tokens."""
    packed = _packed(output)
    if packed is None:
        return None
    values, lengths = pad_packed_sequence(packed, batch_first=True)
    return (torch.arange(values.shape[1]) < lengths[:, None]).to(values.device)


def _classifier(calls: _Calls, backbone: nn.Module) -> int:
    """Which call gives the logits: the last leaf with weights of its own."""
    modules = [module for _, module, *_ in calls]
    leaves = [place for place, each in enumerate(modules) if _is_leaf(each) and _has_weight(each)]
    return leaves[-1] if leaves else len(calls)


def _is_leaf(module: nn.Module) -> bool:
    """Without layers inside; what computes or holds its weights is none."""
    return all(name in ("parametrizations", "_packed_params") for name, _ in module.named_children())


def _has_weight(module: nn.Module) -> bool:
    """Whether a layer has a matrix of its own: plain, parametrised or quantised."""
    weight = getattr(module, "weight", None)
    if callable(weight) and not isinstance(weight, Tensor | nn.Module):
        return True  # of a quantised layer
    own = [weight, *module.parameters(recurse=False)]
    return any(isinstance(each, Tensor) and each.dim() > 1 for each in own)


def _units(backbone: nn.Module, calls: _Calls) -> list[tuple[str, nn.Module, Any]]:
    """The calls of the layers and blocks that the net is a chain of; what is inside of a block is not one."""
    names = {name for name, module in _spine("", backbone)}
    return [(name, module, output) for name, module, _, output in calls if name in names]


def _spine(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Descends into chains, and into modules that hold lists of blocks; stops at layers and blocks."""
    for child_name, child in module.named_children():
        full = f"{name}.{child_name}" if name else child_name
        if _is_chain(child) or _holds_blocks(child):
            yield from _spine(full, child)
        else:
            yield full, child


def _is_chain(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList) or (
        isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward
    )


def _holds_blocks(module: nn.Module) -> bool:
    """Whether there is, somewhere inside, a list of two or more blocks of one kind."""
    lists = [m for m in module.modules() if _is_chain(m)]
    return any(
        len(m) > 1 and len({type(block) for block in m.children()}) == 1 and any(m[0].children())
        for m in lists
        if isinstance(m, nn.Sequential | nn.ModuleList)
    )


def _stage_ends(units: list[tuple[str, nn.Module, Any]], rows: int) -> list[tuple[str, nn.Module, Any]]:
    """The last unit of each stage, which is a run of one kind and shape; of a run longer than four, four."""
    groups: list[list[tuple[str, nn.Module, Any]]] = []
    for unit in units:
        if not _is_weightless(unit[1]):
            groups.append([unit])
        elif groups:
            groups[-1].append(unit)
    runs: list[list[tuple[str, nn.Module, Any]]] = []
    before: object = None
    for group in groups:
        end = _end_of(group)
        key = type(end[1]), None if end[2] is None else tuple(end[2].shape[1:])
        runs.append([end]) if key != before else runs[-1].append(end)
        before = key
    return [end for run in runs for end in _thinned(run)]


def _thinned(run: list[Any]) -> list[Any]:
    if len(run) <= _LONGEST_RUN:
        return run[-1:]
    return [run[(part + 1) * len(run) // _LONGEST_RUN - 1] for part in range(_LONGEST_RUN)]


def _end_of(group: list[tuple[str, nn.Module, Any]]) -> tuple[str, nn.Module, Any]:
    """Of a layer and what stands behind it, the last that is still of the layer's kind and no single pixel.

    The module given is the layer, which says how the output is to be read.
    """
    kind = None if group[0][2] is None else group[0][2].dim()
    alike = [
        unit for unit in group if unit[2] is not None and unit[2].dim() == kind and not _is_pixel(unit[2])
    ]
    name, _, output = alike[-1] if alike else group[-1]
    return name, group[0][1], output


def _is_pixel(values: Tensor) -> bool:
    return values.dim() > 3 and values[0, 0].numel() == 1


def _is_weightless(module: nn.Module) -> bool:
    """Activations, pooling, dropout, reshaping; and normalisation, whose weights only scale."""
    named = any(word in type(module).__name__ for word in _WEIGHTLESS)
    return named or (next(module.parameters(), None) is None and not _has_weight(module))


def _tap(name: str, module: nn.Module, output: Tensor | None, rows: int) -> Tap | None:
    """How an output is read; None for what has no row for each input."""
    kind = None if output is None else _kind(output)
    if output is None or kind is None:
        return None
    batch_first = _is_batch_first(module, output, rows)
    if len(output if batch_first else output.transpose(0, 1)) != rows:
        return None
    if kind == "tokens" and _runs_along_the_last_axis(module):
        kind = "map"
    if kind == "map" and _has_channels_last(module, output):
        return Tap(name, "tokens", output.shape[-1], grid=True)
    return Tap(name, kind, _width(output, kind), batch_first)


def _has_channels_last(module: nn.Module, output: Tensor) -> bool:
    """Whether what looks like an image are tokens in rows and columns: its layers act on each alone."""
    parts = list(module.modules())
    if output.dim() != 4 or any("Conv2d" in type(part).__name__ for part in parts):
        return False
    shapes = [getattr(part, "normalized_shape", (getattr(part, "out_features", 0),)) for part in parts]
    return any(tuple(shape) == (output.shape[-1],) for shape in shapes)


def _kind(values: Tensor) -> FeatureKind | None:
    if not values.is_floating_point():
        return None
    if values.dim() == 3 and values.shape[-1] == 1:
        return "vector"  # of a pooling that keeps its axis
    return {2: "vector", 3: "tokens", 4: "map", 5: "map"}.get(values.dim())  # type: ignore[return-value]


def _width(values: Tensor, kind: FeatureKind) -> int:
    if kind == "vector":
        return values.flatten(1).shape[-1]
    return (map_features(values).values if kind == "map" else values).shape[-1]


def _is_batch_first(module: nn.Module, output: Tensor, rows: int) -> bool:
    """Recurrent layers and transformers say so, or have parts that do; all others have the batch first."""
    said = [part.batch_first for part in module.modules() if hasattr(part, "batch_first")]
    return output.dim() != 3 or (bool(said[0]) if said else len(output) == rows)


def _runs_along_the_last_axis(module: nn.Module) -> bool:
    kinds = [kind.__name__ for leaf in module.modules() if _is_leaf(leaf) for kind in type(leaf).__mro__]
    return any(word in kind for kind in kinds for word in _ALONG_THE_LAST_AXIS)


def _known(backbone: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    modules = dict(backbone.named_modules())
    wanted = [name.removesuffix(_BEFORE) for name in names if name != INPUTS]
    for name in wanted:
        if name not in modules:
            raise UnknownNameError("layer", name, [INPUTS, *filter(None, modules)])
    return {name: modules[name] for name in wanted}


def _named(name: str, calls: _Calls, inputs: Inputs, rows: int) -> Tap:
    if name == INPUTS:
        return _inputs_tap(inputs)
    ran = [call for call in calls if call[0] == name.removesuffix(_BEFORE)]
    if not ran:
        raise InputError(f"the layer {name} did not run when the net was called: it cannot be remembered.")
    _, module, given, output = ran[-1]
    tap = _tap(name, module, given if name.endswith(_BEFORE) else output, rows)
    if tap is None:
        raise InputError(
            f"the layer {name} gives {_shape(output)} for {rows} inputs; a row of features for each input is "
            "needed: a vector, a map or a sequence."
        )
    return tap


def _inputs_tap(inputs: Inputs) -> Tap:
    values = next(tensors(inputs))
    kind = _kind(values)
    if kind is None:
        raise InputError(
            f"inputs of shape {tuple(values.shape)} and {values.dtype} cannot serve as features."
        )
    return Tap(INPUTS, kind, _width(values, kind))


def _is_table(inputs: Inputs) -> bool:
    return isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs.dim() == 2


def _valid_tokens(inputs: Inputs, tap: Tap, length: int) -> Tensor | None:
    """[rows, length] of truth values, where a mask or the padding token says what is padding."""
    if isinstance(inputs, Mapping) and "attention_mask" in inputs:
        valid = inputs["attention_mask"] != 0
    else:
        members = dict(inputs.items() if isinstance(inputs, Mapping) else enumerate(tensors(inputs)))
        ids = next(
            (
                part
                for name, part in members.items()
                if tap.padded in (None, str(name)) and not part.is_floating_point() and part.dim() == 2
            ),
            None,
        )
        if ids is None or tap.padding is None:
            return None
        valid = ids != tap.padding
    if valid.shape[1:] != (length,):
        return None  # another sequence than that of the inputs, such as patches
    return valid | ~valid.any(1, keepdim=True)  # a row of padding alone counts as it is


def _tokens(values: Tensor, valid: Tensor | None) -> Features:
    if valid is None:
        rows = torch.arange(values.shape[0], device=values.device)
        return Features(values.flatten(0, 1).clone(), rows.repeat_interleave(values.shape[1]))
    rows, places = valid.nonzero().unbind(1)
    return Features(values[rows, places], rows)


def _shape(output: Any) -> str:
    tensor = _main_tensor(output)
    return f"a {type(output).__name__}" if tensor is None else f"a tensor of shape {tuple(tensor.shape)}"
