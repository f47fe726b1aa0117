"""Colours that colour-blind people can tell apart (Okabe and Ito), each with a line style and a marker."""

from typing import NamedTuple

INK = "#010203"
RULE = "#a0b0c0"

BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
ORANGE, SKY, PURPLE = "#e69f00", "#56b4e9", "#cc79a7"

ON_THE_PAGE = {
    INK: "currentColor",
    RULE: "var(--rule)",
    BLUE: "var(--blue)",
    VERMILLION: "var(--vermillion)",
    GREEN: "var(--green)",
    ORANGE: "var(--orange)",
    SKY: "var(--sky)",
    PURPLE: "var(--purple)",
}
"""What the page puts in the place of each, so that a figure follows its dark mode."""

TERMS = {"reducible": BLUE, "irreducible": ORANGE, "data": GREEN}
IN_DOMAIN, FOREIGN = BLUE, (VERMILLION, PURPLE, ORANGE, SKY, GREEN)


class Line(NamedTuple):
    """How the line of a model looks; three signs, so that no reader depends on one."""

    color: str
    linestyle: str | tuple[int, tuple[int, ...]]
    marker: str


KNOWN = {
    "softmax": Line(INK, "-", "o"),
    "bnn": Line(BLUE, "-", "s"),
    "edl": Line(GREEN, "-", "^"),
    "np": Line(SKY, "-", "v"),
    "enp": Line(PURPLE, "-", "D"),
    "anp": Line(ORANGE, "-", "P"),
    "etp": Line(VERMILLION, "-", "*"),
}

_OTHERS = tuple(
    Line(color, dashes, marker)
    for dashes in ((0, (4, 2)), (0, (1, 1)))
    for color, marker in zip((INK, BLUE, GREEN, PURPLE, ORANGE, SKY), "X<>hdp", strict=True)
)


def line(model: str, models: list[str]) -> Line:
    """The line of a model among `models`; those we do not know share the dashed ones, in order.

    >>> line("etp", ["etp"]).color == VERMILLION
    True
    """
    if model in KNOWN:
        return KNOWN[model]
    return _OTHERS[[name for name in models if name not in KNOWN].index(model) % len(_OTHERS)]
