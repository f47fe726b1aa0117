import importlib
import sys
from importlib.metadata import version

import pytest

from totalcal.training.options import _known_by_its_version


@pytest.fixture
def pip_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "pip", raising=False)


@pytest.mark.usefixtures("pip_is_not_imported")
def test_a_package_may_be_known_by_its_version_without_being_imported():
    with _known_by_its_version("pip"):
        assert importlib.import_module("pip").__version__ == version("pip")
        assert not hasattr(importlib.import_module("pip"), "main")
    assert "pip" not in sys.modules


def test_an_imported_package_stays_what_it_is():
    with _known_by_its_version("pytest"):
        assert importlib.import_module("pytest") is pytest
    assert sys.modules["pytest"] is pytest


def test_a_package_that_is_not_installed_stays_unknown():
    with _known_by_its_version("no_such_package"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package")
