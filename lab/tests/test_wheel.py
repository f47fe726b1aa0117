"""The laboratory is a distribution of its own, and brings the paper's tables."""

import subprocess
import sys
import zipfile
from pathlib import Path

import totalcal_lab

LABORATORY = Path(__file__).parents[1]


def test_the_wheel_holds_the_source_and_the_papers_tables(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, str(LABORATORY)], check=True)
    (wheel,) = tmp_path.glob("totalcal_lab-*.whl")
    assert wheel.name.split("-")[1] == totalcal_lab.__version__
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = LABORATORY / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert found == {name for name in files if "__pycache__" not in name}
    assert any(name.endswith("results.csv") for name in found)
    assert any(name.endswith("licenses/LICENSE") for name in zipfile.ZipFile(wheel).namelist())
