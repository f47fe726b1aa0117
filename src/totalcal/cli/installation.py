"""What is installed here, and what that allows: read from the packages' metadata, which costs no import."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

from packaging.requirements import Requirement

PURPOSES = {
    "data": "totalcal data fetch, TinyImageNet",
    "corruptions": "totalcal corrupt, run --corruptions",
    "report": "totalcal report, figures, toy, truth, demo",
    "tables": "tables of uncertainties as pandas frames",
    "tensorboard": "curves for TensorBoard",
    "cluster": "totalcal run on dask or ray",
}
_IMPORT_NAMES = {"scikit-learn": "sklearn", "pillow": "PIL", "opencv-python-headless": "cv2"}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")


class Package(NamedTuple):
    """A package that is needed, and the version found."""

    name: str
    needed: str
    version: str | None
    problem: str | None


class Extra(NamedTuple):
    """A group of optional packages."""

    name: str
    purpose: str
    packages: tuple[Package, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(package.name for package in self.packages if package.problem)


class Machine(NamedTuple):
    """What a run can use; `problem` says why torch cannot tell."""

    processors: int
    threads: int | None
    devices: tuple[str, ...]
    problem: str | None


class Installation(NamedTuple):
    python: str
    system: str
    core: tuple[Package, ...]
    extras: tuple[Extra, ...]
    machine: Machine
    folders: dict[str, str]
    browser: str | None

    @property
    def whole(self) -> bool:
        """Whether all that does not need an extra works."""
        return self.machine.problem is None and not any(package.problem for package in self.core)


def look() -> Installation:
    """Look around; whatever is missing or broken is a line of the answer, never an error."""
    return Installation(
        python=platform.python_version(),
        system=platform.platform(),
        core=tuple(examine(needed) for needed in requirements()),
        extras=tuple(_extra(name) for name in PURPOSES),
        machine=_machine(),
        folders=_folders(),
        browser=next(filter(None, map(shutil.which, _BROWSERS)), None),
    )


def requirements(extra: str = "") -> Iterator[Requirement]:
    """What totalcal needs always, or for an extra alone, as its own metadata say."""
    for needed in map(Requirement, metadata.requires("totalcal") or ()):
        if _applies(needed, extra) and _applies(needed, "") != bool(extra):
            yield needed


def _applies(needed: Requirement, extra: str) -> bool:
    return needed.marker is None or needed.marker.evaluate({"extra": extra})


def examine(needed: Requirement) -> Package:
    """The version of a package, and what is wrong with it."""
    try:
        version = metadata.version(needed.name)
    except Exception:  # whatever a damaged installation raises
        return Package(needed.name, str(needed.specifier), None, "not installed")
    return Package(needed.name, str(needed.specifier), version, _problem(needed, version))


def _problem(needed: Requirement, version: str | None) -> str | None:
    if not version:
        return "its metadata name no version"
    if not needed.specifier.contains(version, prereleases=True):
        return f"{needed.specifier} is needed"
    if not _importable(_IMPORT_NAMES.get(needed.name, needed.name.replace("-", "_"))):
        return "its files are gone: install it anew"
    return None


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _extra(name: str) -> Extra:
    return Extra(name, PURPOSES[name], tuple(examine(needed) for needed in requirements(name)))


def _machine() -> Machine:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        import torch

        cuda = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
        mps = ["mps"] if torch.backends.mps.is_available() else []
        return Machine(processors, torch.get_num_threads(), ("cpu", *cuda, *mps), None)
    except Exception as error:  # a damaged torch raises what it likes
        return Machine(processors, None, (), f"torch does not import: {error}")


def _folders() -> dict[str, str]:
    """Where data and runs are kept, by what decides it."""
    folders = {"runs": os.environ.get("TOTALCAL_RUNS", "runs")}
    if given := os.environ.get("TOTALCAL_DATA"):
        folders["data"] = given
    try:
        from totalcal.data.cache import cache_folder
    except ImportError as error:
        return {**folders, "cache": f"unknown: {error}"}
    return {**folders, "cache": str(cache_folder())}
