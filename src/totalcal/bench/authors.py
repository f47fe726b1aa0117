"""What the authors' program does otherwise than the paper says, as overrides of the paper's preset.

It runs without the weights' KL, uses κ² = 0.1 as a standard deviation, reads the memory before it writes,
holds nothing out, scales inputs by (x − 0.5) / 0.5, and tests with mean weights and one draw of Z for each
batch. The program of the preprint has dropout of 0.25 in every net that is not mean-field, and ranks strange
inputs of EDL by mutual information.
"""

from typing import Any

from totalcal.bench.presets import Preset, preset
from totalcal.data.domain import Task

AUTHORS = "authors"
_DROPOUT = 0.25
_MEAN_FIELD = ("bnn", "etp")


def base_preset(task: str, name: str) -> Preset:
    """The preset of that name; `authors` changes the paper's."""
    return preset(task, "paper" if name == AUTHORS else name)


def authors_overrides(net: str, task: Task) -> dict[str, Any]:
    """Overrides for one model of the family on one task."""
    overrides: dict[str, Any] = {
        "contexts.write": "after",
        "data.held_out": 0,
        "judging.weights": "mean",
        "judging.draws": 1,
        "judging.batch_size": 128,
    }
    if task.kind == "image":
        half = [0.5] * task.input_shape[0]
        overrides["data.scaling"] = {"mean": half, "std": half}
    if net in _MEAN_FIELD:
        overrides["model.weight_kl"] = 0.0
    else:
        overrides["backbone.dropout"] = _DROPOUT
    if net == "etp":
        overrides["model.cell_variance"] = 0.01
    if net == "edl":
        overrides["judging.uncertainty"] = "mutual_information"
    return overrides
