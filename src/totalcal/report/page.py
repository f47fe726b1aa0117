"""The page: one HTML file that needs nothing else, neither network nor script from elsewhere."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Chapter, Plot
from totalcal.report.drawing import svg

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def page(chapters: Sequence[Chapter]) -> str:
    """The whole report as HTML; every string that comes from a user is escaped."""
    script = _template("sort.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            chapters=chapters,
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
    environment.filters["svg"] = _markup
    return environment


def _markup(plot: Plot) -> "Markup":
    """The plot as markup: matplotlib has escaped the strings inside."""
    from markupsafe import Markup

    return Markup(svg(plot))


def _template(name: str) -> "Markup":
    from markupsafe import Markup

    return Markup(files("totalcal.report").joinpath("templates", name).read_text(encoding="utf-8"))


def _content_hash(script: str) -> str:
    """What the page's content policy knows its one script by, so that no other can run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
