"""For the tests of both houses: their order, and one browser for all pages."""

import gc
import os
import random
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Some virtual processors announce AMX and do not grant it: oneDNN then dies of an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip


LONGEST = (
    "docs/test_tutorials.py", "docs/test_site.py", "exporting/test_program.py",
    "estimators/test_classifier.py", "grid/test_grid.py", "contracts/test_backbones.py",
    "soak/test_disasters.py", "report/test_page.py", "soak/test_mutations.py",
    "studies/test_toys.py", "docs/test_readme.py", "files/test_user_nets.py", "contracts/test_wheel.py",
    "training/test_checkpoint.py", "grid/test_domain.py", "test_process_compiling.py",
    "predicting/test_stream.py", "grid/test_jobs.py", "test_remembering.py", "serving/test_schema.py",
    "exporting/test_writing.py", "cli/test_app.py",
)  # fmt: skip
"""Files of ten seconds or more, the longest first, so that no worker waits for another at the end."""


# Looking for garbage among five thousand tests and all that they import took an eighth of the time.
gc.set_threshold(100_000, 20, 100)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(trylast=True)  # after pytest-randomly
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.path.as_posix()))


def _turn(file: str) -> int:
    return next((turn for turn, name in enumerate(LONGEST) if file.endswith(f"/{name}")), len(LONGEST))


def _seed(name: str) -> None:
    """The global generators begin where a name says: nothing that ran before has a say in what is drawn."""
    number = zlib.crc32(name.encode())
    random.seed(number)
    for module in ("numpy.random", "torch.random"):
        if (there := sys.modules.get(module)) is not None:
            (there.seed if module == "numpy.random" else there.manual_seed)(number)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    _seed(fixturedef.argname)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    _seed(pyfuncitem.name)


def missing(reason: str) -> None:
    """Skip, unless whoever runs the tests insists on a browser."""
    if os.environ.get("TOTALCAL_REQUIRE_BROWSER"):
        pytest.fail(f"TOTALCAL_REQUIRE_BROWSER is set, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """One for all tests of a process: Playwright cannot be started twice."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        missing("there is no chromium on the path: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Callable[[Path], "Page"]]:
    """Opens a file; whatever the browser complains of fails the test."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))

    def opened(file: Path) -> "Page":
        page.goto(file.as_uri())
        return page

    yield opened
    page.close()
    assert complaints == []
