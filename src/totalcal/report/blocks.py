"""What a section of a page is made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from totalcal.report.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Plot:
    """One set of axes, drawn on demand as inline SVG."""

    name: str
    title: str
    alternative: str
    draw: Callable[["Axes"], None]
    size: tuple[float, float] = (3.2, 2.5)  # inches


@dataclass(frozen=True)
class Plots:
    """Plots side by side; on a narrow screen, beneath each other."""

    kind: ClassVar[str] = "plots"
    name: str
    caption: str
    plots: Sequence[Plot]

    @property
    def width(self) -> float:
        """How wide a plot wants to be at least, in the page's letters."""
        return 4.8 * max(plot.size[0] for plot in self.plots)


@dataclass(frozen=True)
class Picture:
    """A picture as a data address, with what there is to say about it."""

    address: str
    alternative: str
    title: str
    subtitle: str = ""


@dataclass(frozen=True)
class Gallery:
    """Pictures in a row that wraps."""

    kind: ClassVar[str] = "gallery"
    caption: str
    pictures: Sequence[Picture]
    folded: bool = False


@dataclass(frozen=True)
class Listing:
    """Text as it stands in a file."""

    kind: ClassVar[str] = "listing"
    title: str
    text: str
    folded: bool = True


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    kind: ClassVar[str] = "prose"
    text: str
    strong: bool = False


Block = Table | Plots | Gallery | Listing | Prose


@dataclass(frozen=True)
class Section:
    """A part of a chapter: a heading, one sentence on how to read it, blocks."""

    name: str
    title: str
    lead: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Chapter:
    """Everything about one task under one preset."""

    name: str
    title: str
    preset: str
    badge: str
    sections: Sequence[Section] = field(default_factory=tuple)
