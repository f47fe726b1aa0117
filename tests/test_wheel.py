"""What a user installs is whole: the wheel, in an empty environment, on top of the dependencies alone."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import totalcal

ROOT = Path(__file__).parents[1]


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


def test_the_wheel_holds_every_file_of_the_source(wheel: Path) -> None:
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name and ".egg-info" not in name}
    assert expected <= set(zipfile.ZipFile(wheel).namelist())


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
    # The dependencies are seen, but not the editable install: a path file is read in its own folder only.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
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
    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.strip() == f"totalcal {totalcal.__version__}"
    where = subprocess.run(
        [python, "-c", "import totalcal; print(totalcal.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert Path(where.stdout.strip()).is_relative_to(site)
