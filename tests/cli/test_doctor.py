"""The doctor tells what is there, and survives what is not."""

from importlib import metadata

import pytest
from typer.testing import CliRunner

from totalcal.cli.app import app
from totalcal.cli.doctor import PURPOSES


def run():
    return CliRunner().invoke(app, ["doctor"], catch_exceptions=False)


@pytest.fixture
def without(monkeypatch):
    """Make a package look as if it had never been installed, or as if it were old."""
    real = metadata.version

    def hide(name: str, found: str | None = None) -> None:
        def version(asked: str) -> str:
            if asked != name:
                return real(asked)
            if found is None:
                raise metadata.PackageNotFoundError(name)
            return found

        monkeypatch.setattr(metadata, "version", version)

    return hide


def test_a_whole_installation_has_no_problem():
    result = run()
    assert result.exit_code == 0
    assert "✗" not in result.stdout


def test_every_extra_a_user_can_want_has_a_purpose():
    declared = set(metadata.metadata("totalcal").get_all("Provides-Extra"))
    assert declared - {"all", "docs", "lint", "test"} == set(PURPOSES) - {""}


def test_a_missing_extra_is_told_with_its_command_and_does_not_fail(without):
    without("matplotlib")
    result = run()
    assert result.exit_code == 0
    assert "pip install 'totalcal[report]'" in result.stdout


def test_a_missing_or_old_package_of_the_core_fails(without):
    without("scipy")
    assert run().exit_code == 1
    without("scipy", "0.1")
    assert run().exit_code == 1
