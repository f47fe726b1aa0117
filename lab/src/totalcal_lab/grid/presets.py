"""How each task is trained: as in the paper, as well as we know, or reduced to half an hour or to minutes.

Of a preset `paper`, backbone, optimiser, learning rate, epochs, augmentation and scaling are those of the
paper (appendix B). Where it is silent, the authors' programs say: batches of 128, Fashion-MNIST's cosine
schedule, and for CIFAR-100 the stem and the whole optimisation, epochs included; what is held out and, for
IMDB, the constant schedule are ours. Every other preset is ours.

What the authors' program does otherwise than the paper says is a preset of its own. It runs without the
weights' KL, uses κ² = 0.1 as a standard deviation, reads the memory before it writes, holds nothing out,
scales inputs by (x − 0.5) / 0.5, and tests with mean weights and one draw of Z per batch. The program of the
preprint has dropout of 0.25 in every net that is not mean-field, and ranks OOD inputs of EDL by mutual
information.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from totalcal.errors import UnknownNameError
from totalcal.training import NO_AUGMENTATION, Augmentation, Optimisation
from totalcal_lab.data.domain import Task, TaskOptions

_LINEAR_EVIDENCE: Mapping[str, Any] = MappingProxyType({"evidence_map": "linear"})
_THEIR_OWN: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
"""All defaults of the models: ETP's evidence map begins as the net's logits."""

_ADAM, _WHOLE = Optimisation(), TaskOptions()

NAMES = ("paper", "best", "medium", "laptop")


@dataclass(frozen=True)
class Preset:
    """One task's backbone, optimisation and data; a `reduced` one trains less than the paper did.

    `model_options` are arguments of models, by name, in the place of their defaults. Unless a preset has its
    own, ETP's evidence map begins at random, as in the authors' program.
    """

    task: str
    backbone: str
    backbone_options: Mapping[str, Any] = field(default_factory=dict)
    optimisation: Optimisation = _ADAM
    epochs: int = 50
    batch_size: int = 128
    options: TaskOptions = _WHOLE
    reduced: bool = False
    model_options: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"etp": _LINEAR_EVIDENCE})
    augmentation: Augmentation = NO_AUGMENTATION


def preset(task: str, name: str = "paper") -> Preset:
    """A preset by task and name. `digits`, `iris` and `gaussians` have one, whichever name is asked for.

    >>> preset("fashion", "paper").epochs
    50
    """
    if name not in NAMES:
        raise UnknownNameError("preset", name, NAMES)
    if task not in PRESETS:
        raise UnknownNameError("task", task, PRESETS)
    return PRESETS[task].get(name) or PRESETS[task]["paper"]


_IMAGE = {"image": (3, 32, 32)}
_CROPPED = TaskOptions(augmentation="crop-and-flip")
_FEW = TaskOptions(test_limit=5_000, ood_limit=5_000)
_STEEP = Optimisation("sgd", learning_rate=0.05, momentum=0.9, weight_decay=5e-4)

FASHION = Preset(
    "fashion",
    "lenet5",
    # of 0.01, 0.1 and 1 on held-out rows: docs/results
    model_options={"etp": {**_LINEAR_EVIDENCE, "weight_kl_scale": 1.0}},
)
FASHION_LAPTOP = Preset("fashion", "lenet5", epochs=4, options=TaskOptions(ood_limit=5_000), reduced=True)
# The paper's net with point weights, trained as well as we know. Own scale and dropout were chosen
# on held-out training images (docs/results); the other values are those of first trials.
FASHION_BEST = Preset(
    "fashion",
    "lenet5",
    {"dropout": 0.1, "per_image_scaling": True},
    Optimisation("adamw", learning_rate=2e-3, weight_decay=0.01, schedule="one_cycle", average=0.999),
    epochs=60,
    model_options={"etp": {"layers": "none"}},
    augmentation=Augmentation(shifts=2, flips=True),
)

CIFAR10 = Preset("cifar10", "lenet5", _IMAGE, Optimisation(learning_rate=1e-4), 100, options=_CROPPED)
CIFAR10_LAPTOP = Preset(
    "cifar10", "lenet5", {**_IMAGE, "widths": (32, 64, 256)}, epochs=6, options=_FEW, reduced=True
)
# A ResNet-18 of three eighths of the width: good enough to judge OOD detection by. Models as they come.
CIFAR10_MEDIUM = Preset(
    "cifar10",
    "resnet18",
    {"stem": "authors", "width": 24},
    _STEEP,
    16,
    options=_CROPPED,
    reduced=True,
    model_options=_THEIR_OWN,
)
# The recipe of Fashion-MNIST as it stands, on the medium nets and for as many epochs as theirs, so that the
# two can be compared; a mirrored digit is no digit.
CIFAR10_BEST = replace(
    FASHION_BEST,
    task="cifar10",
    backbone="resnet18",
    backbone_options={**CIFAR10_MEDIUM.backbone_options, **FASHION_BEST.backbone_options},
    epochs=CIFAR10_MEDIUM.epochs,
    reduced=True,
)

SVHN = replace(CIFAR10, task="svhn", options=TaskOptions())
SVHN_LAPTOP = replace(CIFAR10_LAPTOP, task="svhn", epochs=5)
SVHN_MEDIUM = replace(CIFAR10_MEDIUM, task="svhn", epochs=8, options=TaskOptions())
SVHN_BEST = replace(CIFAR10_BEST, task="svhn", epochs=8, augmentation=Augmentation(shifts=2))

CIFAR100 = Preset("cifar100", "resnet18", {"stem": "authors"}, _STEEP, 200, options=_CROPPED)
CIFAR100_LAPTOP = replace(
    CIFAR100, backbone_options={"stem": "authors", "width": 16}, epochs=5, options=_FEW, reduced=True
)
CIFAR100_MEDIUM = replace(CIFAR10_MEDIUM, task="cifar100")

IMDB = Preset(
    "imdb",
    "lstm",
    optimisation=Optimisation("sgd", learning_rate=0.05, momentum=0.9, schedule="constant"),
    epochs=20,
)
IMDB_LAPTOP = Preset(
    "imdb",
    "lstm",
    {"hidden": 64},
    Optimisation(learning_rate=2e-3),
    4,
    options=replace(_FEW, max_length=100),  # seven reviews in eight are shorter
    reduced=True,
)
IMDB_MEDIUM = replace(
    IMDB_LAPTOP,
    backbone_options={"hidden": 128},
    epochs=6,
    options=TaskOptions(max_length=200),
    # A map that begins at random kept the training loss at chance for four of the six epochs: docs/results
    model_options=_THEIR_OWN,
)

# Of 0.001, 0.003 and 0.01 on held-out rows: the first leaves every model underfitted after 40 epochs.
_QUICK = Optimisation(learning_rate=3e-3)
DIGITS = Preset("digits", "small_convnet", {}, _QUICK, 40, 64, model_options=_THEIR_OWN)
_PLANE = {"num_inputs": 2, "hidden": (32, 32)}
IRIS = Preset("iris", "mlp", _PLANE, Optimisation(schedule="constant"), 400, model_options=_THEIR_OWN)
GAUSSIANS = Preset("gaussians", "mlp", _PLANE, epochs=100, model_options=_THEIR_OWN)

PRESETS: Mapping[str, Mapping[str, Preset]] = MappingProxyType(
    {
        "fashion": {"paper": FASHION, "best": FASHION_BEST, "laptop": FASHION_LAPTOP},
        "cifar10": {
            "paper": CIFAR10,
            "best": CIFAR10_BEST,
            "medium": CIFAR10_MEDIUM,
            "laptop": CIFAR10_LAPTOP,
        },
        "svhn": {"paper": SVHN, "best": SVHN_BEST, "medium": SVHN_MEDIUM, "laptop": SVHN_LAPTOP},
        "cifar100": {"paper": CIFAR100, "medium": CIFAR100_MEDIUM, "laptop": CIFAR100_LAPTOP},
        "imdb": {"paper": IMDB, "medium": IMDB_MEDIUM, "laptop": IMDB_LAPTOP},
        "digits": {"paper": DIGITS},
        "iris": {"paper": IRIS},
        "gaussians": {"paper": GAUSSIANS},
    }
)


AUTHORS = "authors"
_DROPOUT = 0.25
_MEAN_FIELD = ("bnn", "etp")


def base_preset(task: str, name: str) -> Preset:
    """The preset of that name; `authors` changes the paper's."""
    if name != AUTHORS:
        return preset(task, name)
    paper = preset(task)
    etp = {**_LINEAR_EVIDENCE, **paper.model_options.get("etp", {})}
    return replace(paper, model_options={**paper.model_options, "etp": etp})


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
        overrides["model.weight_kl_scale"] = 0.0
    else:
        overrides["backbone.dropout"] = _DROPOUT
    if net == "etp":
        overrides["model.cell_variance"] = 0.01
    if net == "edl":
        overrides["judging.uncertainty"] = "mutual_information"
    return overrides
