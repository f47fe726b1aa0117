"""`totalcal doctor`: what is installed, what is missing for which command, what a run can use."""

import json
from typing import TYPE_CHECKING, Any

import typer

from totalcal import __version__
from totalcal.cli.app import ExitCode, app

if TYPE_CHECKING:
    from totalcal.cli.installation import Extra, Installation, Package


@app.command(rich_help_panel="Learn", epilog="Example: totalcal doctor --json")
def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print JSON for other programs."),
) -> None:
    """Say what is installed, what is missing for which command, and what a run can use."""
    from totalcal.cli.installation import look

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
        "The core is whole." if found.whole else "The core is not whole. Do: pip install --upgrade totalcal",
    ]


def _package_line(package: "Package") -> str:
    mark = "✗" if package.problem else "✓"
    return f"{mark} {package.name} {package.version or ''} {package.problem or ''}".rstrip()


def _extra_line(extra: "Extra") -> str:
    if not extra.missing:
        return f"✓ [{extra.name}] {extra.purpose}"
    wrong = ", ".join(f"{package.name}: {package.problem}" for package in extra.packages if package.problem)
    return f"✗ [{extra.name}] {extra.purpose} · {wrong}. Do: pip install 'totalcal[{extra.name}]'"
