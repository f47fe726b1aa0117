"""Data: sets by name as arrays, wherever they come from; batches; the tasks of the paper.

>>> from totalcal.data import load
>>> images, labels = load("digits", "test")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from totalcal.data.batches import ArrayData, Scaling
    from totalcal.data.catalogue import CATALOGUE
    from totalcal.data.description import Arrays
    from totalcal.data.domain import Task, TaskData, TaskOptions
    from totalcal.data.loading import load
    from totalcal.data.own import from_arrays, from_dataset, from_image_folder, from_npz, from_table
    from totalcal.data.synthetic import GaussianTask
    from totalcal.data.tasks import TASKS, task

_HOMES = {
    "CATALOGUE": "catalogue",
    "TASKS": "tasks",
    "ArrayData": "batches",
    "Arrays": "description",
    "GaussianTask": "synthetic",
    "Scaling": "batches",
    "Task": "domain",
    "TaskData": "domain",
    "TaskOptions": "domain",
    "from_arrays": "own",
    "from_dataset": "own",
    "from_image_folder": "own",
    "from_npz": "own",
    "from_table": "own",
    "load": "loading",
    "task": "tasks",
}

__all__ = [
    "CATALOGUE",
    "TASKS",
    "ArrayData",
    "Arrays",
    "GaussianTask",
    "Scaling",
    "Task",
    "TaskData",
    "TaskOptions",
    "from_arrays",
    "from_dataset",
    "from_image_folder",
    "from_npz",
    "from_table",
    "load",
    "task",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
