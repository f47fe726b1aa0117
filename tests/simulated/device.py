"""A device that is not there: it refuses what CUDA refuses, and computes on the CPU.

Its tensors hold tensors of the CPU. An operation on them is refused where CUDA would refuse it: tensors of
two devices (numbers without axes excepted), a generator of the CPU for numbers of the device, an index of the
device into a tensor of the CPU, NumPy's look at a tensor of the device, least squares by LAPACK's drivers.

What this proves: that our code moves what has to be moved. What it cannot: that kernels of a real device
exist and give the same numbers, that they are fast, or that memory and streams are handled well.

Setting it up changes torch for good: only a process of its own may do so (`contracts/test_devices.py`).
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

NAME = "simulated"
_COPIES = ("aten::_to_copy", "aten::copy_", "aten::_copy_from", "aten::_copy_from_and_resize")
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


class DeviceError(RuntimeError):
    """What a real device would say, more or less."""


class Simulated(Tensor):
    """A tensor of the device; `held` is the one of the CPU that it stands for."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "Simulated":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(operation, *args, **(kwargs or {}))

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy: copy it to the host first.")
        return self.detach().cpu().numpy()

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __format__(self, form: str) -> str:
        return format(self.detach().cpu(), form)


def set_up() -> torch.device:
    """Make the device known to torch, in this process, for good."""
    _setup_privateuseone_for_python_backend(rename=NAME, backend_module=_Module())
    torch.__future__.set_swap_module_params_on_conversion(True)  # `.data = …` would leave `held` behind
    library = torch.library.Library("_", "IMPL")
    library.fallback(_computed, "PrivateUse1")  # tensors that are made on the device out of nothing
    _KEPT.append(library)
    return torch.device(NAME, 0)


class _Module(_DummyBackendModule):  # type: ignore[misc]
    """What torch asks of a backend by name."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


_KEPT: list[object] = []  # a library that is collected takes its kernels along


def _computed(operation: Any, *args: Any, **kwargs: Any) -> Any:
    name = operation._schema.name
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    _check(name, args, kwargs, given)
    if name.startswith("aten::_copy_from"):
        _held(args[1]).copy_(_held(args[0]))
        return args[1]
    plain = {
        key: torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value
        for key, value in kwargs.items()
    }
    found = operation(*tree_map(_held, args), **tree_map(_held, plain))
    target = kwargs.get("device")
    if name == "aten::_to_copy" and target is not None and target.type != NAME:
        return found
    known = {id(each.held): each for each in given if isinstance(each, Simulated)}

    def on_device(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return known[id(leaf)] if id(leaf) in known else Simulated(leaf)

    return tree_map(on_device, found)


def _check(name: str, args: Any, kwargs: Any, given: list[Tensor]) -> None:
    if any(isinstance(each, torch.Generator) for each in [*args, *kwargs.values()]):
        raise DeviceError(f"{name}: expected a generator of {NAME}, but found one of the cpu.")
    if name == "aten::linalg_lstsq" and "gels" not in (*args, kwargs.get("driver", "gels")):
        raise DeviceError("linalg_lstsq: only the driver gels is there.")
    if name in _COPIES:
        return
    if name in _INDEXING:  # indices may be those of the CPU, unless the tensor is, too
        given = [args[0], *([args[2]] if len(args) > 2 else [])]
        if not isinstance(args[0], Simulated):
            raise DeviceError(f"{name}: indices should be on the cpu, as the indexed tensor is.")
    places = {isinstance(each, Simulated) for each in given if each.dim()}
    if len(places) > 1:
        raise DeviceError(f"{name}: expected all tensors on one device, but found {NAME} and cpu.")


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, Simulated) else leaf
