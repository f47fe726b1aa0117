"""`totalcal results`: records that are kept, and pages that show them."""

from pathlib import Path
from typing import Annotated

import typer

from totalcal.cli.app import Example, ExitCode, app

results = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Records to keep, and pages made from them."
)
app.add_typer(results, name="results", rich_help_panel="Experiments")

Runs = Annotated[Path, typer.Argument(help="A folder of runs.")]
Target = Annotated[
    Path, typer.Argument(help="The file of records, name.jsonl; made if need be, else added to.")
]
Pages = Annotated[list[Path], typer.Argument(help="Markdown pages, or folders of them.")]


@results.command(epilog=Example("totalcal results gather runs records/fashion.jsonl"))
def gather(runs: Runs, target: Target) -> None:
    """Finished runs into one file."""
    from totalcal.records.gathering import gather as gathered

    count = gathered(runs, target)
    typer.echo(
        f"{target}: {count.records} runs, {count.corruptions} lines of corruptions, {count.domain} of domains"
    )


@results.command(epilog=Example("totalcal results write README.md docs/results"))
def write(
    pages: Pages,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a page is stale.")] = False,
) -> None:
    """Fill pages from their records."""
    from totalcal.report.markdown import fill, pages_beneath, stale_pages

    found = pages_beneath(pages)
    stale = stale_pages(found) if check else fill(found)
    for page in stale:
        typer.echo(f"{page}: {'is stale' if check else 'written'}")
    if check and stale:
        raise typer.Exit(ExitCode.FAILED)
    if not stale:
        typer.echo(f"{len(found)} pages say what their records say")
