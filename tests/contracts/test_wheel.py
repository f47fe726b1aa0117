"""What a user installs is whole: the wheel, in an empty environment, on top of the dependencies alone."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import totalcal

ROOT = Path(__file__).parents[2]


WITHOUT_EXTRAS = """
import importlib.util

missing = ("pandas", "PIL", "totalcal_lab")
assert [name for name in missing if importlib.util.find_spec(name) is not None] == []

import torch
import totalcal
from totalcal.nets import mlp

rows, labels = torch.randn(200, 4), torch.randint(3, (200,))
model = totalcal.etp(mlp(4, 3), 3)
totalcal.train(model, rows, labels, epochs=1)
totalcal.remember(model, (rows, labels), (torch.randn(100, 4), torch.randint(3, (100,))), progress=False)
assert model.predict(rows).familiarity.shape == (200,)
assert totalcal.evaluate(model, (rows, labels), ood={"far": rows + 9}).nll > 0
totalcal.save(model, "model.totalcal")
assert totalcal.load("model.totalcal").predict(rows.numpy()).probabilities.shape == (200, 3)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    return next(folder.glob("totalcal-*.whl"))


def link_dependencies(site: Path) -> None:
    """What totalcal needs without any extra, and what that needs, and nothing else that is installed here."""
    wanted, seen = ["totalcal"], {"totalcal"}
    while wanted:
        for line in metadata.requires(wanted.pop()) or ():
            needed = Requirement(line)
            is_for_us = needed.marker is None or needed.marker.evaluate({"extra": ""})
            if is_for_us and canonicalize_name(needed.name) not in seen:
                seen.add(canonicalize_name(needed.name))
                wanted.append(needed.name)
    for name in seen - {"totalcal"}:
        for top in {file.parts[0] for file in metadata.files(name) or () if file.parts[0] != ".."}:
            place = site / top
            if not place.exists() and top != "__pycache__":
                place.symlink_to(Path(sysconfig.get_path("purelib")) / top)


def test_the_wheel_holds_the_source_the_licence_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name and ".egg-info" not in name}
    found = {name.partition(".dist-info/")[2] or name for name in zipfile.ZipFile(wheel).namelist()}
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert found == expected | about
    assert "totalcal/py.typed" in found


def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    link_dependencies(site)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        str(wheel),
    ]
    subprocess.run(pip, check=True)
    command = tmp_path / "empty" / "bin" / "totalcal"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path, env=alone
    )
    assert run.stdout.strip() == f"totalcal {totalcal.__version__}"
    where = subprocess.run(
        [python, "-c", "import totalcal; print(totalcal.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=alone,
    )
    assert Path(where.stdout.strip()).is_relative_to(site)
    subprocess.run([python, "-W", "ignore", "-c", WITHOUT_EXTRAS], check=True, cwd=tmp_path, env=alone)
