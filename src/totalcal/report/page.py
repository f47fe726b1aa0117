"""From chapters of blocks to one page, which needs nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Chapter
from totalcal.report.drawing import svg
from totalcal.report.table import as_html


def page(
    chapters: Sequence[Chapter],
    made_from: str = "the records of the runs",
    question: str = "Does it know what it does not know?",
    about: str = "fit, calibration and OOD detection, measured",
) -> str:
    """The whole report as HTML, under a question; every string that comes from a user is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError("jinja2", "report", "writing a report") from error
    environment = Environment(
        loader=PackageLoader("totalcal.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # matplotlib, and the table's writer, have escaped the strings inside
    environment.filters["svg"] = lambda plot: Markup(svg(plot))
    environment.filters["table"] = lambda table, label: Markup(as_html(table, label))
    style, script = (
        files("totalcal.report").joinpath("templates", name).read_text(encoding="utf-8")
        for name in ("style.css", "sort.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html").render(
        chapters=chapters,
        made_from=made_from,
        question=question,
        about=about,
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest}",  # by which the page's content policy knows its one script
        version=version("totalcal"),
    )
