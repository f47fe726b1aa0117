"""The site builds without a warning and offline; the gallery runs; every name and command has its place."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from doctest import NORMALIZE_WHITESPACE, DocTestFinder, DocTestRunner
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import FunctionType
from typing import TYPE_CHECKING, Any

import griffe
import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

import totalcal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
GALLERY = sorted((ROOT / "docs" / "gallery").glob("*.py"))
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))
MKDOCS = "import gc; gc.disable(); from mkdocs.__main__ import cli; cli()"  # a tenth of its time
SIDEWAYS = """() => {
    const wide = [...document.querySelectorAll('.md-content *')].filter(each =>
        each.scrollWidth > each.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(each).overflowX));
    return wide.map(each => each.textContent.trim().slice(0, 80));
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once for all workers, with warnings as errors: a missing link, anchor or page fails it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, outcome = shared / "site", shared / "site.txt"
    with FileLock(shared / "site.lock"):
        if not outcome.exists():
            built = subprocess.run(
                [sys.executable, "-c", MKDOCS, "build", "--strict", "--quiet", "--site-dir", str(folder)],
                cwd=ROOT,
                env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            failed = built.returncode != 0
            outcome.write_text(
                f"{built.stdout}{built.stderr}" or "failed" if failed else "", encoding="utf-8"
            )
    complaints = outcome.read_text(encoding="utf-8")
    assert not complaints, complaints
    return folder


def pages(site: Path) -> list[Path]:
    return [page for page in site.rglob("*.html") if page.name != "404.html"]


def test_the_examples_in_the_code_of_the_site_run() -> None:
    functions = [
        each for each in SITE.values() if isinstance(each, FunctionType) and ">>>" in str(each.__doc__)
    ]
    for function in functions:
        for example in DocTestFinder().find(function, globs=SITE):
            assert DocTestRunner(optionflags=NORMALIZE_WHITESPACE).run(example).failed == 0, example.name


def test_every_folder_of_the_site_opens_and_none_holds_compiled_code(site: Path) -> None:
    folders = {page.parent for page in pages(site)}
    assert [str(folder) for folder in folders if not (folder / "index.html").exists()] == []
    assert list(site.rglob("__pycache__")) == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(
        r"""<(?:script|img|iframe)[^>]*\bsrc=["'](?:https?:)?//|<link[^>]*stylesheet[^>]*href=["']http"""
    )
    assert [page.name for page in pages(site) if fetched.search(page.read_text(encoding="utf-8"))] == []


def test_every_public_name_has_its_place_in_the_reference(site: Path) -> None:
    """One line in the index, which leads to an entry on the page of its room."""
    homes = SITE["public_names"]()
    assert set(totalcal.__all__) == homes.keys() | {"__version__"}
    index = (site / "reference" / "index.html").read_text(encoding="utf-8")
    listed = re.findall(r'<a href="(\w+\.html)#([\w.]+)"><code[^>]*>(\w+)</code></a></td>\s*<td>\S', index)
    assert {name: home for _, home, name in listed}.items() >= homes.items()
    pages = {page: (site / "reference" / page).read_text(encoding="utf-8") for page, _, _ in listed}
    assert [home for page, home, _ in listed if f'id="{home}"' not in pages[page]] == []


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site as a web server on this machine serves it."""
    yield from served(partial(QuietHandler, directory=str(site)))


@pytest.fixture(scope="module")
def quick_address(site: Path) -> Iterator[str]:
    """The same with one entry in the index of the search, which every page fetches and prepares anew."""
    yield from served(partial(SmallIndexHandler, directory=str(site)))


def served(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


class SmallIndexHandler(QuietHandler):
    def do_GET(self) -> None:
        if self.path != "/search/search_index.json":
            return super().do_GET()
        index = json.loads((Path(self.directory) / self.path[1:]).read_text(encoding="utf-8"))
        content = json.dumps(index | {"docs": index["docs"][:1]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        self.wfile.write(content)
        return None


def watched(browser: "Browser", address: str, complaints: list[str], **options: Any) -> "Page":
    """A page of the browser that notes every error, and every request to another host."""
    page = browser.new_page(reduced_motion="reduce", **options)
    page.set_default_timeout(120_000)
    page.on("console", lambda message: complaints.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("requestfailed", lambda asked: is_given_up(asked) or complaints.append(f"failed: {asked.url}"))
    page.on(
        "request",
        lambda asked: asked.url.startswith((address, "data:", "blob:")) or complaints.append(asked.url),
    )
    return page


def is_given_up(request: Any) -> bool:
    """What a page still asked for when the next one was opened, as the index of the search."""
    return request.failure == "net::ERR_ABORTED"


DOCSTRINGS = tuple(f"reference/{name}.html" for name in ("index", "commands", "models", "core", "parts"))
"""Of the pages that are made of docstrings these stand for all."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "scheme", "all_pages"),
    [
        (1300, "light", False),
        *(
            pytest.param(*each, True, marks=pytest.mark.exhaustive)
            for each in ((1300, "light"), (1300, "dark"), (400, "light"), (400, "dark"))
        ),
    ],
)
def test_every_page_opens_without_a_complaint_and_nothing_scrolls_sideways(
    site: Path, quick_address: str, browser: "Browser", width: int, scheme: Any, all_pages: bool
) -> None:
    """A wide block of code may scroll within itself on a phone; no page does, and at 1,300 pixels nothing."""
    complaints: list[str] = []
    screen = {"width": width, "height": 900}
    page = watched(browser, quick_address, complaints, viewport=screen, color_scheme=scheme)
    names = sorted(str(each.relative_to(site)) for each in pages(site))
    for name in [
        name for name in names if all_pages or name in DOCSTRINGS or not name.startswith("reference/")
    ]:
        page.goto(quick_address + name)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            complaints.append(f"{name} is wider than the screen")
        if width > 1000:
            complaints += [f"{name} scrolls sideways: {text}" for text in page.evaluate(SIDEWAYS)]
    page.close()
    assert not complaints, "\n".join(complaints)


def test_the_search_finds_a_public_name(address: str, browser: "Browser") -> None:
    complaints: list[str] = []
    page = watched(browser, address, complaints)
    page.goto(f"{address}index.html")
    page.get_by_placeholder("Search").click()
    page.keyboard.type("calibrate_probabilities")
    page.locator(".md-search-result__link").first.wait_for()
    assert "calibrate_probabilities" in page.locator(".md-search-result__list").inner_text()
    page.close()
    assert not complaints, "\n".join(complaints)


def test_every_page_has_an_entry_of_its_own_in_the_navigation(site: Path) -> None:
    html = (site / "404.html").read_text(encoding="utf-8")
    link = re.compile(
        r'<a href="/([^"#]+)" class="md-nav__link">\s*<span class="md-ellipsis">\s*([^<]+?)\s*<'
    )
    entries = dict(link.findall(html))
    assert [page for page in pages(site) if str(page.relative_to(site)) not in entries] == []
    sections = {"Start", "Gallery", "Guide", "Explanations", "Reference", "Laboratory", "Contribute"}
    assert [page for page, title in entries.items() if title in sections] == []


def test_what_a_package_takes_from_its_modules_is_documented_once(site: Path) -> None:
    html = (site / "reference" / "decisions.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h\d id="([\w.]+)" class="doc doc-heading">', html)
    assert "totalcal.decisions.gate.Gate" in headings
    assert "totalcal.decisions.Gate" not in headings
    assert 'href="#totalcal.decisions.gate.Gate"' in html


def test_every_command_shows_its_help(site: Path) -> None:
    html = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in ("totalcal predict", "totalcal serve", "totalcal-lab run", "totalcal-lab data fetch"):
        assert command in html


def test_every_example_of_the_gallery_has_its_figure() -> None:
    assert [script.name for script in GALLERY if not script.with_suffix(".png").exists()] == []


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_an_example_runs_and_draws(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(script))
    drawn, shown = (
        np.asarray(Image.open(folder / f"{script.stem}.png").convert("L"), float)
        for folder in (tmp_path, script.parent)
    )
    assert drawn.shape == shown.shape
    assert abs(drawn - shown).mean() < 3, "`make gallery` draws it again"  # rounding moves a curve by 1.2


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        (
            "[a](../src/totalcal/functional/cells.py)",
            "[a](reference/functional.md#totalcal.functional.cells)",
        ),
        ("[a](../src/totalcal/models/process.py)", "[a](reference/models.md#totalcal.models.process)"),
        ("[a](../tests/contracts)", "a"),
        ("[tests/contracts](../tests/contracts)", "`tests/contracts`"),
        ("[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("![a](images/truth.png)", "![a](images/truth.png)"),
        ("[a](#here)", "[a](#here)"),
        ("[docs/notation.md](notation.md)", "[Notation: from the paper to the code](notation.md)"),
        ("[deploy/Dockerfile](../deploy/Dockerfile)", "`deploy/Dockerfile`"),
    ],
)
def test_links_into_the_repository_are_brought_home(link: str, becomes: str) -> None:
    assert SITE["rewritten"](link, "memory.md") == becomes


def test_errors_and_pages_that_a_docstring_names_are_links() -> None:
    made = SITE["with_links"]('<td>\n<code class="whole">LabelError</code></td><p>(docs/toys.md)</p>')
    assert '<a href="core.html#totalcal.errors.LabelError">LabelError</a></code>' in made
    assert '(<a href="../toys.html">The two toys</a>)' in made


def test_a_long_word_of_code_breaks_between_its_parts() -> None:
    made = SITE["with_whole_words"]("<code>functional/decomposition.variance_over_draws</code>")
    assert made == "<code>functional/<wbr>decomposition.<wbr>variance_<wbr>over_<wbr>draws</code>"


def test_the_reference_shows_fields_of_named_tuples_and_types_of_options() -> None:
    source = """
from typing import Annotated, NamedTuple
class Pair(NamedTuple):
    first: int
    second: float = 0.5
def command(once: Annotated[bool, Option("--once", help="Not again.")] = False): ...
"""
    extensions = griffe.load_extensions(SITE["AsShown"])
    with griffe.temporary_visited_module(source, extensions=extensions) as module:
        fields = [(field.name, str(field.annotation), field.default) for field in module["Pair"].parameters]
        assert fields == [("first", "int", None), ("second", "float", "0.5")]
        assert str(module["command"].parameters["once"].annotation) == "bool"


@pytest.mark.parametrize(
    ("html", "becomes"),
    [
        ("<p>E_θ[p(y_i)] = p_{M′}</p>", "<p>E<sub>θ</sub>[p(y<sub>i</sub>)] = p<sub>M′</sub></p>"),
        ("<td>max_c f_true</td>", "<td>max<sub>c</sub> f<sub>true</sub></td>"),
        ("<p>k_rᵀ v</p>", "<p>k<sub>r</sub>ᵀ v</p>"),
        ("<p>uᵀm_r</p>", "<p>uᵀm<sub>r</sub></p>"),
        ("<p>m_j² + σ²_kj</p>", "<p>m<sub>j</sub>² + σ²<sub>kj</sub></p>"),
        ("<p>zoom_blur <code>p_j</code></p>", "<p>zoom_blur <code>p_j</code></p>"),
        ('<h2 id="p_j">p_j</h2>', '<h2 id="p_j">p_j</h2>'),
        ("<p>5 % of 28 × 28</p>", "<p>5&nbsp;% of 28&nbsp;×&nbsp;28</p>"),
    ],
)
def test_formulas_have_subscripts_and_numbers_keep_their_signs(html: str, becomes: str) -> None:
    assert SITE["with_formulas"](html) == becomes


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("tutorial_*.md")), ids=lambda page: page.stem)
def test_a_tutorial_is_a_notebook_too_with_the_same_code(page: Path) -> None:
    made = json.loads(SITE["notebook"](page))
    code = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert code == [block.strip() for block in blocks]
    assert made["nbformat"] == 4
