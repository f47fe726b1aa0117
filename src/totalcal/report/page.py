"""From chapters of blocks to one page, which needs nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Block, Chapter, Plot, Plots, Prose
from totalcal.report.drawing import svg
from totalcal.report.table import Table, as_html

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


MOST_PLOTS, FEWEST_PLOTS = 48, 4  # of a page, and of a chapter
_LEFT_OUT = "Left out of so large a page. To see the figures: totalcal-lab figures RUNS -o figs"


def within_limits(chapters: Sequence[Chapter]) -> list[Chapter]:
    """Chapters whose figures fit a page that opens at once; the page says how to get the others."""
    share = max(FEWEST_PLOTS, MOST_PLOTS // len(chapters))
    return [_with_plots(part, share) for part in chapters]


def _with_plots(part: Chapter, most: int) -> Chapter:
    sections = []
    for section in part.sections:
        blocks: list[Block] = []
        for block in section.blocks:
            if isinstance(block, Plots) and len(block.plots) > most:
                blocks.append(Prose(_LEFT_OUT))
            else:
                most -= len(block.plots) if isinstance(block, Plots) else 0
                blocks.append(block)
        sections.append(replace(section, blocks=blocks))
    return replace(part, sections=sections)


def page(
    chapters: Sequence[Chapter],
    warnings: Sequence[str] = (),
    made_from: str = "the records of the runs",
    question: str = "Does it know what it does not know?",
    about: str = "fit, calibration and OOD detection, measured",
) -> str:
    """The whole report as HTML, under a question; every string that comes from a user is escaped."""
    script = _template("sort.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            chapters=chapters,
            warnings=warnings,
            made_from=made_from,
            question=question,
            about=about,
            style=_template("style.css"),
            script=script,
            script_hash=_content_hash(script),
            version=version("totalcal"),
        )
    )


def _environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("jinja2", "report", "writing a report") from error
    environment = Environment(
        loader=PackageLoader("totalcal.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = _drawn
    environment.filters["table"] = _tabulated
    return environment


def _drawn(plot: Plot) -> "Markup":
    """The plot as markup: matplotlib has escaped the strings inside."""
    from markupsafe import Markup

    return Markup(svg(plot))


def _tabulated(table: Table, label: str) -> "Markup":
    """The table as markup: its writer has escaped the strings inside."""
    from markupsafe import Markup

    return Markup(as_html(table, label))


def _template(name: str) -> "Markup":
    from markupsafe import Markup

    return Markup(files("totalcal.report").joinpath("templates", name).read_text(encoding="utf-8"))


def _content_hash(script: str) -> str:
    """What the page's content policy knows its one script by, so that no other can run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
