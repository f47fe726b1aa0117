"""Ranks of a data-parallel run: what they sum and share. Alone, a process is the only rank."""

from typing import Any

from torch import Tensor, distributed


def is_distributed() -> bool:
    """Whether there may be other ranks."""
    return distributed.is_available() and distributed.is_initialized()


def summed(*tensors: Tensor) -> None:
    """Replace tensors by their sums over the ranks."""
    if is_distributed():
        for tensor in tensors:
            distributed.all_reduce(tensor)


def gathered(mine: Any) -> list[Any]:
    """What each rank has, in the order of the ranks."""
    if not is_distributed():
        return [mine]
    everybody = [None] * distributed.get_world_size()
    distributed.all_gather_object(everybody, mine)
    return everybody


def share() -> slice:
    """The batches of an epoch that are this rank's: every so many-th."""
    return (
        slice(distributed.get_rank(), None, distributed.get_world_size()) if is_distributed() else slice(None)
    )
