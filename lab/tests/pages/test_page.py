"""The page and the files beside it, from run folders made by hand; and the page in a real browser."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from totalcal.errors import InputError
from totalcal_lab.pages import write_figures, write_report
from totalcal_lab.pages.boards import boards
from totalcal_lab.pages.plots import first_seeds_in_words
from totalcal_lab.pages.sections.provenance import commands
from totalcal_lab.pages.sections.scores import over_seeds
from totalcal_lab.records.folders import RunFolder

if TYPE_CHECKING:
    from playwright.sync_api import Page


HEADINGS = (
    "The verdict",
    "All scores",
    "OOD detection, set by set",
    "Is it right as often as it is sure?",
    "Does it notice OOD inputs?",
    "Does its memory know the domain?",
    "Where does the uncertainty lie?",
    "What if it may abstain?",
    "How does it behave under corruption?",
    "What does it cost?",
    "What is it least sure of?",
    "What does the memory hold?",
    "Where the numbers come from",
)


def page(runs: Path) -> str:
    return write_report(runs, runs.parent / "report.html").read_text(encoding="utf-8")


def headings(html: str) -> list[str]:
    return re.findall("<h3>(.*?)</h3>", html)


@pytest.fixture
def html(report: Path) -> str:
    return report.read_text(encoding="utf-8")


def test_every_section_stands_in_reading_order(html: str) -> None:
    assert headings(html) == list(HEADINGS)


def test_a_section_appears_only_when_its_data_exist(make_run: Callable[..., object], tmp_path: Path) -> None:
    make_run("softmax", 0)
    found = headings(page(tmp_path / "runs"))
    assert found == [
        "The verdict",
        "All scores",
        "OOD detection, set by set",
        "What does it cost?",
        HEADINGS[-1],
    ]


def test_the_same_records_give_the_same_bytes(runs: Path, html: str, tmp_path: Path) -> None:
    assert write_report(runs, tmp_path / "again.html").read_text(encoding="utf-8") == html


def test_the_verdict_names_the_model_that_nobody_beats(html: str) -> None:
    assert "etp is not beaten on any of model fit (nll)" in html


def test_familiarity_stands_beside_entropy_and_baselines_the_worst_set_first(html: str) -> None:
    section = html.partition("<h3>Does its memory know the domain?")[2].partition("<h3>")[0]
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", section))
    assert "worst noise letters" in text  # the worst of all first, then far before near
    rows = {
        name: text.partition(f"{name} ")[2].split()[0]
        for name in ("familiarity", "entropy", "50th neighbour")
    }
    assert rows == {"familiarity": "99.0", "entropy": "70.0", "50th neighbour": "90.0"}


def test_the_page_refers_to_nothing_outside_of_itself(html: str) -> None:
    references = re.findall(r'(?:src|href|action)="([^"]*)"|url\(([^)]*)\)', html)
    targets = {first or second for first, second in references}
    assert {target.split(",")[0].split("#")[0] for target in targets} == {"", "data:image/png;base64"}


def test_every_anchor_of_the_contents_exists_once(html: str) -> None:
    names = re.findall(r' id="([^"]+)"', html)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(names)


def test_strings_of_the_user_are_escaped(make_run: Callable[..., object], tmp_path: Path) -> None:
    hostile = '<script>alert("1")</script>$x_1$'
    make_run("etp", 0, task=hostile, note=hostile)
    html = page(tmp_path / "runs")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_hostile_class_names_stay_text_inside_of_figures(
    make_run: Callable[..., object], artefacts: Callable[..., dict], tmp_path: Path
) -> None:
    names = ["<b>zero</b>", "$\\frac$", "two & three", "id='x'"]
    make_run("etp", 0, artefacts={**artefacts(0, memory=True), "class_names": names})
    html = page(tmp_path / "runs")
    assert "<b>zero" not in html
    assert "$\\frac$" in html


def test_the_papers_figures_stand_beside_ours(make_run: Callable[..., object], tmp_path: Path) -> None:
    make_run("etp", 0, task="fashion", preset="paper")
    assert "paper 7.9 ± 0.2" in page(tmp_path / "runs")


@pytest.mark.parametrize("reduced", [True, False])
def test_a_reduced_preset_is_marked(reduced: bool, make_run: Callable[..., object], tmp_path: Path) -> None:
    make_run("etp", 0, reduced=reduced)
    (badge,) = re.findall('<span class="badge">(.*?)</span>', page(tmp_path / "runs"))
    assert ("reduced" in badge) == reduced


def test_tasks_are_chapters(make_run: Callable[..., object], tmp_path: Path) -> None:
    make_run("etp", 0)
    make_run("etp", 0, task="iris")
    assert re.findall("<h2>(.*?) <span", page(tmp_path / "runs")) == ["digits", "iris"]


def test_a_folder_without_finished_runs_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="totalcal-lab status"):
        write_report(tmp_path, tmp_path / "report.html")


def test_figures_are_pdfs_and_tables_are_latex_the_same_each_time(
    make_run: Callable[..., object], artefacts: Callable[..., dict], tmp_path: Path
) -> None:
    make_run("etp", 0, artefacts=artefacts(0, memory=True))
    once, again = (
        {path.name: path.read_bytes() for path in write_figures(tmp_path / "runs", tmp_path / name)}
        for name in ("one", "two")
    )
    assert once == again
    assert once["digits-laptop-reliability.pdf"].startswith(b"%PDF")
    assert once["digits-laptop-memory-etp.pdf"].startswith(b"%PDF")
    assert rb"\begin{tabular}" in once["digits-laptop-results.tex"]


def test_a_report_is_written_without_torch(make_run: Callable[..., object], tmp_path: Path) -> None:
    make_run("etp", 0)
    code = (
        "import sys; from pathlib import Path; from totalcal_lab.pages import write_report;"
        f"write_report(Path({str(tmp_path / 'runs')!r}), Path({str(tmp_path / 'page.html')!r}));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_commands_name_all_that_differs_from_the_preset(runs: Path) -> None:
    (board,) = boards(runs)
    first, *reading = commands(board).splitlines()
    assert first == (
        "totalcal-lab run digits --models softmax,etp --seeds 2 --preset laptop "
        "--corruptions --corruption-types fog,snow --severities 1,2,3,4,5 --out runs"
    )
    assert reading == ["totalcal-lab table runs", "totalcal-lab report runs -o report.html"]


def test_models_with_other_seeds_get_commands_and_captions_of_their_own(
    make_run: Callable[..., object], tmp_path: Path
) -> None:
    for seed in (0, 1, 4):
        make_run("softmax", seed)
    make_run("etp", 1)
    make_run("ensemble", 0, settings={"members": 2})
    make_run("ensemble", 1, settings={"members": 4})
    (board,) = boards(tmp_path / "runs")
    assert [command.partition(" --preset")[0] for command in commands(board).splitlines()[:-2]] == [
        "totalcal-lab run digits --models softmax,ensemble --seeds 2",
        "totalcal-lab run digits --models softmax --seeds 1 --first-seed 4",
        "totalcal-lab run digits --models etp --seeds 1 --first-seed 1",
        "totalcal-lab run digits --models ensemble --seeds 4 --first-seed 1",
    ]
    fewer = "etp 1, ensemble (members=2) 1, ensemble (members=4) 1"
    assert over_seeds(board) == f"Mean ± standard deviation over 3 seeds ({fewer})."
    assert first_seeds_in_words(board) == (
        "Curves of each model's first seed: "
        "0 of softmax, ensemble (members=2); 1 of etp, ensemble (members=4)."
    )


def test_of_very_many_settings_a_page_draws_what_a_person_can_look_at_and_folds_the_rest(
    make_run: Callable[..., object], artefacts: Callable[..., dict], tmp_path: Path
) -> None:
    """100 settings took 198 s and 7.5 MB when each was drawn."""
    for number in range(70):
        settings = {"weight_kl_scale": number / 100}
        kept = artefacts(0, memory=True) if number in (3, 69) else None
        make_run("etp", 0, settings=settings, nll=1 - number / 100, artefacts=kept)
    html = page(tmp_path / "runs")
    assert html.count("<svg") == 3 + 2 + 2 + 1  # of the 70th, the best by NLL; the 4th is not drawn
    assert "The best 60 of 70 rows by NLL" in html
    assert "All 70 rows" in html
    assert "Drawn are 10 of 70 rows" in html


def test_a_thousand_records_are_a_page_of_seconds_and_of_megabytes(
    make_run: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for number in range(1_000):
        make_run("etp", 0, settings={"num_cells": number}, nll=1 - number / 1000)
    start = time.process_time()
    html = page(tmp_path / "runs")
    assert time.process_time() - start < 10
    assert len(html.encode()) < 3_000_000
    assert "All 1000 rows" in html


def test_a_run_that_is_not_what_it_wrote_is_left_out_and_named(
    make_run: Callable[..., RunFolder], tmp_path: Path
) -> None:
    make_run("etp", 0)
    damaged = make_run("bnn", 0)
    damaged.records_file.write_text(damaged.records_file.read_text().replace("0.05", "0.01"))
    html = page(tmp_path / "runs")
    assert f"{damaged.name} is left out: records.jsonl is not what the run wrote" in html
    assert "bnn" not in headings(html)
    assert '<th scope="row">bnn' not in html


def test_a_comparison_that_no_test_can_decide_says_so(
    make_run: Callable[..., object], tmp_path: Path
) -> None:
    for seed in (0, 1):
        make_run("etp", seed)
        make_run("bnn", seed, nll=0.3 + 0.01 * seed)
    assert "too few seeds to tell" in page(tmp_path / "runs")


def test_figures_that_a_page_of_many_tasks_has_no_room_for_are_named(
    make_run: Callable[..., object], artefacts: Callable[..., dict], tmp_path: Path
) -> None:
    for number in range(12):
        make_run("etp", 0, task=f"task{number:02}", artefacts=artefacts(0, memory=True))
    html = page(tmp_path / "runs")
    assert html.count("<svg") == 12 * 4  # of 8 each
    assert html.count("Left out of so large a page") == 12 * 3  # the terms, risk and coverage, the memory


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows(page: "Page", width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_dark_mode_turns_paper_and_ink(page: "Page") -> None:
    def brightness() -> list[int]:
        style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        return [sum(map(int, colour[4:-1].split(","))) for colour in page.evaluate(f"() => {{ {style} }}")]

    page.emulate_media(color_scheme="light")
    paper, ink = brightness()
    assert paper > ink
    page.emulate_media(color_scheme="dark")
    paper, ink = brightness()
    assert paper < ink


def test_a_click_on_a_head_sorts_the_table_and_a_second_one_turns_it(page: "Page") -> None:
    table = page.locator("section[id$=results] table").first
    head = table.get_by_role("button", name="Error")
    models = table.locator("tbody th")
    head.click()
    assert models.all_inner_texts() == ["etp", "softmax"]
    head.click()
    assert models.all_inner_texts() == ["softmax", "etp"]
    assert head.locator("..").get_attribute("aria-sort") == "descending"


def test_every_entry_of_the_contents_leads_to_its_section(page: "Page") -> None:
    for link in page.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        assert page.url.endswith(target)
        assert page.locator(target).is_visible()
        assert link.inner_text().partition(",")[0] in page.locator(target).inner_text()


def test_every_picture_has_an_alternative_text(page: "Page") -> None:
    assert page.locator("img:not([alt]), img[alt='']").count() == 0
    assert page.locator("svg").count() == page.locator(".plot[role=img][aria-label] svg").count() > 0
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")


def test_it_prints(page: "Page") -> None:
    assert page.pdf(format="A4").startswith(b"%PDF")
