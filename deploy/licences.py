"""What totalcal installs, from the metadata of what is installed: licences as stated, and exact versions.

python deploy/licences.py            # writes licences.csv and pinned.txt beside this file
"""

import csv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
_LONGEST = 80


def needed(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The packages that one asks for on this system, with the extras it wants of them."""
    for line in distribution(name).requires or []:
        wish = Requirement(line)
        wanted = wish.marker is None or any(
            wish.marker.evaluate({"extra": extra}) for extra in extras or {""}
        )
        if wanted:
            yield canonicalize_name(wish.name), frozenset(wish.extras)


def everything(*asked_for: tuple[str, frozenset[str]]) -> dict[str, Distribution]:
    """The packages that come with those asked for, and with these, by name; without those asked for."""
    found: dict[str, Distribution] = {}
    waiting, seen = list(asked_for), set()
    while waiting:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        try:
            found[asked[0]] = distribution(asked[0])
        except PackageNotFoundError:
            raise SystemExit(f"{asked[0]} is not installed: make .venv/test.done") from None
        waiting += needed(*asked)
    own = {name for name, _ in asked_for}
    return {name: found[name] for name in sorted(found.keys() - own)}


def licence(package: Distribution) -> str:
    """The licence in a line: its expression, its classifiers, or the first words of its text."""
    metadata = package.metadata
    classes = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    stated = (
        metadata.get("License-Expression") or ", ".join(classes) or metadata.get("License") or "not stated"
    )
    line = " ".join(stated.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def version(package: Distribution) -> str:
    return package.version.partition("+")[0]  # the builds of torch differ by system


def main() -> None:
    packages = everything(("totalcal", frozenset({"all"})), ("totalcal-lab", frozenset()))
    with (HERE / "licences.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["package", "version", "licence"])
        table.writerows((name, version(package), licence(package)) for name, package in packages.items())
    pins = [f"{name}=={version(package)}" for name, package in packages.items()]
    (HERE / "pinned.txt").write_text("\n".join(pins) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
