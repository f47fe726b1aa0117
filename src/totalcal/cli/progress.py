"""How commands show a grid's progress: live on a terminal, once elsewhere."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

    from totalcal.records.folders import RunFolder
    from totalcal.records.progress import GridProgress

Look = Callable[[], "Sequence[RunFolder]"]


def look_at(folders: Look) -> "GridProgress":
    """The state of the folders at this moment."""
    from totalcal.records.progress import grid_progress

    return grid_progress(folders())


@contextmanager
def live_progress(folders: Look) -> Iterator[None]:
    """A table that looks again every second, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live

    from totalcal.records.progress import progress_view

    def view() -> "Group":
        return progress_view(look_at(folders))

    with Live(get_renderable=view, refresh_per_second=1, transient=True, console=Console(stderr=True)):
        yield


def print_progress(progress: "GridProgress", err: bool = False) -> None:
    from rich.console import Console

    from totalcal.records.progress import progress_view

    Console(stderr=err, highlight=False, soft_wrap=True).print(progress_view(progress))
