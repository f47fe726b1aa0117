"""What a run kept for drawing (`artefacts.npz`), part by part; a part that is not there is None."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Reliability:
    """By bins of confidence: how many, how sure, how often right; NaN where a bin is empty."""

    edges: Array
    counts: Array
    confidence: Array
    accuracy: Array


@dataclass(frozen=True)
class Entropies:
    """Histograms of the predictive entropy on common edges."""

    edges: Array
    in_domain: Array
    foreign: Mapping[str, Array]


@dataclass(frozen=True)
class Roc:
    """Foreign inputs told by entropy; foreign is positive."""

    false_positive: Array
    true_positive: Array


@dataclass(frozen=True)
class RiskCoverage:
    """The error among the most confident share of the inputs."""

    coverage: Array
    risk: Array


@dataclass(frozen=True)
class Unsure:
    """The test inputs of highest entropy."""

    inputs: Array
    labels: Array
    predictions: Array
    terms: Array  # [inputs, 3]: reducible, irreducible, data


@dataclass(frozen=True)
class Memory:
    """The cells, how classes share attention over them, the training examples that attend to each most."""

    cells: Array  # [R, K]
    attention: Array  # [K, R]; NaN for a class that was not seen
    inputs: Array | None = None  # [R, examples, …]
    labels: Array | None = None  # [R, examples]


@dataclass(frozen=True)
class Artefacts:
    """All that was kept of a run."""

    classes: tuple[str, ...]
    reliability: Reliability | None
    entropies: Entropies | None
    rocs: Mapping[str, Roc]
    decomposition: Mapping[str, Array]  # right, wrong, each foreign set → three terms
    risk_coverage: RiskCoverage | None
    unsure: Unsure | None
    memory: Memory | None


def load(path: Path) -> Artefacts:
    """Read what is there."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return Artefacts(
        classes=tuple(map(str, arrays["class_names"])),
        reliability=_part(arrays, "reliability", Reliability),
        entropies=_entropies(arrays),
        rocs=_rocs(arrays),
        decomposition=_decomposition(arrays),
        risk_coverage=_part(arrays, "risk_coverage", RiskCoverage),
        unsure=_part(arrays, "unsure", Unsure),
        memory=_part(arrays, "memory", Memory),
    )


def _part(arrays: Mapping[str, Array], name: str, kind: Callable[..., Part]) -> Part | None:
    """The fields of a part from the keys `name/field`; None where there are none."""
    found = _beneath(arrays, f"{name}/")
    wanted = inspect.signature(kind).parameters.keys() & found.keys()
    return kind(**{field: found[field] for field in wanted}) if found else None


def _entropies(arrays: Mapping[str, Array]) -> Entropies | None:
    if "entropy/edges" not in arrays:
        return None
    foreign = _beneath(arrays, "entropy/ood/")
    return Entropies(arrays["entropy/edges"], arrays["entropy/in_domain"], foreign)


def _rocs(arrays: Mapping[str, Array]) -> dict[str, Roc]:
    ends = "/false_positive"
    members = [key.removesuffix(ends) for key in _beneath(arrays, "roc/") if key.endswith(ends)]
    return {
        member: Roc(arrays[f"roc/{member}{ends}"], arrays[f"roc/{member}/true_positive"])
        for member in members
    }


def _decomposition(arrays: Mapping[str, Array]) -> dict[str, Array]:
    found = _beneath(arrays, "decomposition/")
    return {key.removeprefix("ood/"): terms for key, terms in found.items()}


def _beneath(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {key.removeprefix(prefix): values for key, values in arrays.items() if key.startswith(prefix)}
