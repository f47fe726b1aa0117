"""What totalcal installs, from the metadata of what is installed: licences as stated, and exact versions.

    python deploy/licences.py

Writes beside this file licences.csv; serve.txt, the versions that a service needs, with the hashes of their
wheels for this machine and for Linux; and pinned.txt, which adds all others.
"""

import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
_LONGEST = 80
_SERVE = """\
# torch is the build for CPUs (Linux, x86_64) that the tests ran with, so pip needs an index that has it: the
# registry's own wheel wants CUDA's packages, which are not listed. For another build put its hash here."""


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


def wheels(pins: Iterable[str], *options: str) -> Iterator[tuple[str, str]]:
    """Name and hash of each file that pip would install; nothing is installed."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--quiet",
    ]
    said = subprocess.check_output([*command, "--report", "-", *options, *pins], text=True)
    for each in json.loads(said)["install"]:
        yield canonicalize_name(each["metadata"]["name"]), each["download_info"]["archive_info"]["hash"]


def pins_of(packages: Mapping[str, Distribution]) -> dict[str, str]:
    """A requirement for each, with the hashes of its wheels for this machine and for Linux.

    A build that has a name, such as torch+cpu, has its own hash only: else pip may take one that wants CUDA.
    """
    versions = {name: version(package) for name, package in packages.items()}
    found = list(wheels(f"{name}=={number}" for name, number in versions.items()))
    exact = [f"{name}==={number}" for name, number in versions.items() if number == packages[name].version]
    for machine in ("x86_64", "aarch64"):
        tags = [f"manylinux2014_{machine}", *(f"manylinux_2_{minor}_{machine}" for minor in range(17, 37))]
        options = [f"--platform={tag}" for tag in tags]
        found += wheels(exact, "--only-binary=:all:", "--target=.", "--python-version=3.11", *options)
    digests: dict[str, set[str]] = {name: set() for name in packages}
    for name, digest in found:
        digests[name].add(digest.replace("=", ":"))
    return {
        name: " \\\n    --hash=".join([f"{name}=={number}", *sorted(digests[name])])
        for name, number in versions.items()
    }


def main() -> None:
    packages = everything(("totalcal", frozenset({"all"})), ("totalcal-lab", frozenset()))
    with (HERE / "licences.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["package", "version", "licence"])
        table.writerows((name, version(package), licence(package)) for name, package in packages.items())
    pins, served = pins_of(packages), everything(("totalcal", frozenset({"serve"})))
    serve = [_SERVE, *(pin for name, pin in pins.items() if name in served)]
    others = ["-r serve.txt", *(pin for name, pin in pins.items() if name not in served)]
    for name, lines in (("serve.txt", serve), ("pinned.txt", others)):
        (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
