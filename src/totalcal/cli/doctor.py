"""`totalcal doctor`: what is installed, what is missing for which command, what a run can use.

Read from the packages' metadata, which costs no import of them.
"""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from totalcal import __version__
from totalcal.cli.app import Example, ExitCode, app

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PURPOSES = {
    "data": "totalcal data fetch, TinyImageNet",
    "corruptions": "totalcal corrupt, run --corruptions",
    "report": "totalcal report, figures, toy, truth, demo",
    "tables": "tables of uncertainties as pandas frames",
    "tensorboard": "curves for TensorBoard",
    "serve": "totalcal serve",
    "export": "totalcal export --to onnx, predict with an .onnx",
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


def requirements(extra: str = "") -> "Iterator[Requirement]":
    """What totalcal needs always, or for an extra alone, as its own metadata say."""
    from importlib import metadata

    from packaging.requirements import Requirement

    for needed in map(Requirement, metadata.requires("totalcal") or ()):
        if _applies(needed, extra) and _applies(needed, "") != bool(extra):
            yield needed


def _applies(needed: "Requirement", extra: str) -> bool:
    return needed.marker is None or needed.marker.evaluate({"extra": extra})


def examine(needed: "Requirement") -> Package:
    """The version of a package, and what is wrong with it."""
    from importlib import metadata

    try:
        version = metadata.version(needed.name)
    except Exception:  # whatever a damaged installation raises
        return Package(needed.name, str(needed.specifier), None, "not installed")
    return Package(needed.name, str(needed.specifier), version, _problem(needed, version))


def _problem(needed: "Requirement", version: str | None) -> str | None:
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


@app.command(rich_help_panel="Learn", epilog=Example("totalcal doctor --json"))
def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print JSON for other programs."),
) -> None:
    """Say what is installed, what is missing for which command, and what a run can use."""
    found = look()
    if as_json:
        typer.echo(json.dumps(_as_dict(found), indent=2))
    else:
        typer.echo("\n".join(_lines(found)))
    raise typer.Exit(ExitCode.DONE if found.whole else ExitCode.FAILED)


def _as_dict(found: "Installation") -> dict[str, Any]:
    return {
        "totalcal": __version__,
        **found._asdict(),
        "core": [package._asdict() for package in found.core],
        "extras": {extra.name: _extra_as_dict(extra) for extra in found.extras},
        "machine": found.machine._asdict(),
        "whole": found.whole,
    }


def _extra_as_dict(extra: "Extra") -> dict[str, Any]:
    packages = [package._asdict() for package in extra.packages]
    return {"purpose": extra.purpose, "missing": extra.missing, "packages": packages}


def _lines(found: "Installation") -> list[str]:
    machine = found.machine
    return [
        f"totalcal {__version__}, Python {found.python}, {found.system}",
        *(_package_line(package) for package in found.core),
        "",
        *(_extra_line(extra) for extra in found.extras),
        "",
        f"devices     {', '.join(machine.devices) or machine.problem}",
        f"threads     {machine.threads or 'unknown'} of {machine.processors} processors (OMP_NUM_THREADS)",
        *(f"{name:11} {place}" for name, place in found.folders.items()),
        f"browser     {found.browser or 'none found; a report opens in any'}",
        "",
        "The core is whole." if found.whole else "The core is not whole. Run: pip install --upgrade totalcal",
    ]


def _package_line(package: "Package") -> str:
    mark = "✗" if package.problem else "✓"
    return f"{mark} {package.name} {package.version or ''} {package.problem or ''}".rstrip()


def _extra_line(extra: "Extra") -> str:
    if not extra.missing:
        return f"✓ [{extra.name}] {extra.purpose}"
    wrong = ", ".join(f"{package.name}: {package.problem}" for package in extra.packages if package.problem)
    return f"✗ [{extra.name}] {extra.purpose} · {wrong}. Run: pip install 'totalcal[{extra.name}]'"
