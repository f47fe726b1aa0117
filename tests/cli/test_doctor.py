"""The doctor tells what is there, and survives what is not."""

import json
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from totalcal import __version__
from totalcal.cli import doctor
from totalcal.cli.app import app


def run(*options: str):
    return CliRunner().invoke(app, ["doctor", *options], catch_exceptions=False)


def test_a_whole_core_is_told_with_versions():
    result = run("--json")
    found = json.loads(result.stdout)
    versions = {package["name"]: package["version"] for package in found["core"]}
    assert result.exit_code == 0
    assert found["whole"] is True
    assert found["totalcal"] == __version__
    assert versions["torch"] == metadata.version("torch")
    assert "cpu" in found["machine"]["devices"]
    assert found["machine"]["threads"] >= 1
    assert "cache" in found["folders"]


def test_text_names_every_extra_and_says_that_the_core_is_whole():
    lines = run().stdout
    assert all(f"[{extra}]" in lines for extra in doctor.PURPOSES)
    assert "The core is whole." in lines


def test_every_extra_a_user_can_want_has_a_purpose():
    declared = set(metadata.metadata("totalcal").get_all("Provides-Extra"))
    assert declared - {"all", "docs", "lint", "test"} == set(doctor.PURPOSES)


@pytest.fixture
def without(monkeypatch):
    """Make a package look as if it had never been installed."""
    real = metadata.version

    def hide(*names: str) -> None:
        def version(name: str) -> str:
            if name in names:
                raise metadata.PackageNotFoundError(name)
            return real(name)

        monkeypatch.setattr(metadata, "version", version)

    return hide


def test_a_missing_extra_is_told_with_its_command_and_does_not_fail(without):
    without("matplotlib")
    result = run()
    assert result.exit_code == 0
    assert "✗ [report]" in result.stdout
    assert "pip install 'totalcal[report]'" in result.stdout


def test_a_missing_package_of_the_core_fails(without):
    without("scipy")
    result = run("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["whole"] is False


def test_a_torch_that_does_not_import_is_told_and_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ImportError
    result = run("--json")
    assert result.exit_code == 1
    assert "torch does not import" in json.loads(result.stdout)["machine"]["problem"]


def test_a_package_too_old_or_without_its_files_has_a_problem(monkeypatch):
    assert doctor.examine(Requirement("numpy>=1.0")).problem is None
    assert doctor.examine(Requirement("numpy>=999")).problem == ">=999 is needed"
    monkeypatch.setattr(doctor, "find_spec", lambda module: None)
    assert "install it anew" in doctor.examine(Requirement("numpy")).problem
