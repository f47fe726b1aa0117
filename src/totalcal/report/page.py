"""From chapters of blocks to one page, which needs nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Chapter, Plot
from totalcal.report.drawing import svg
from totalcal.report.table import Table, as_html

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def page(
    chapters: Sequence[Chapter],
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
