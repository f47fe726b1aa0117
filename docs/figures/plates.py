"""Draws the plate diagrams of the paper's Figures 1 and 2 anew, as SVG: python docs/figures/plates.py

Shaded circles are observed, empty ones latent, a diamond is computed. Solid arrows are the model, dashed
ones inference. The diagrams stand on a white card, so that they read on a dark page as well.
"""

import math
from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parent.parent / "images"
RADIUS = 22
INK, SHADE, PLATE = "#1f2430", "#cfd4dc", "#8a93a3"

Point = tuple[float, float]


def node(at: Point, label: str, kind: str = "latent") -> str:
    x, y = at
    outline = f'stroke="{INK}" stroke-width="1.6"'
    text = f'<text x="{x}" y="{y + 6}" text-anchor="middle" font-style="italic" font-size="22">{label}</text>'
    if kind == "computed":
        corners = f"{x},{y - 28} {x + 28},{y} {x},{y + 28} {x - 28},{y}"
        return f'<polygon points="{corners}" fill="white" {outline}/>{text}'
    fill = SHADE if kind == "observed" else "white"
    return f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{fill}" {outline}/>{text}'


def arrow(
    start: Point, end: Point, bend: float = 0, dashed: bool = False, label: str = "", gap: float = 6
) -> str:
    """From the rim of one node to that of another; `bend` pushes the middle to the left of the way."""
    (x0, y0), (x1, y1) = start, end
    length = math.dist(start, end)
    across = ((y1 - y0) / length, -(x1 - x0) / length)
    middle = ((x0 + x1) / 2 + bend * across[0], (y0 + y1) / 2 + bend * across[1])
    (ax, ay), (bx, by) = _towards(start, middle, RADIUS + 2), _towards(end, middle, RADIUS + gap)
    style = 'stroke-dasharray="5 4"' if dashed else ""
    path = f"M {ax:.1f} {ay:.1f} Q {middle[0]:.1f} {middle[1]:.1f} {bx:.1f} {by:.1f}"
    text = words((middle[0], middle[1] - 8), label, size=15)
    line = f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.6" {style} marker-end="url(#tip)"/>'
    return line + (text if label else "")


def plate(corner: Point, size: Point, label: str) -> str:
    (x, y), (width, height) = corner, size
    box = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="none" stroke="{PLATE}"/>'
    return box + words((x + width - 8, y + height - 9), label, size=18, anchor="end")


def words(at: Point, text: str, size: int = 14, anchor: str = "middle", font: str = "") -> str:
    face = f'font-family="{font}" xml:space="preserve"' if font else ""
    place = f'x="{at[0]}" y="{at[1]}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" {face}>{escape(text)}</text>'


def card(width: int, height: int, title: str, parts: list[str]) -> str:
    tip = f'''<marker id="tip" viewBox="0 0 10 10" refX="7" refY="5" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M 0 1 L 9 5 L 0 9 z" fill="{INK}"/></marker>'''
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(title)}</title>'
    ground = f'<defs>{tip}</defs><rect width="{width}" height="{height}" rx="12" fill="white"/>'
    group = f'<g font-family="Georgia, serif" fill="{INK}">'
    return "\n".join([head, ground, group, *parts, "</g></svg>", ""])


def bayesian_models() -> str:
    """Figure 1: parametric, evidential and complete Bayesian models."""
    return card(
        840,
        290,
        "Three kinds of Bayesian models: parametric, evidential, complete",
        [
            *_parametric(0),
            words((130, 268), "(a) θ, for all inputs", size=24),
            *_evidential(270),
            words((400, 268), "(b) π, for each", size=24),
            *_complete(540),
            words((685, 268), "(c) both", size=24),
        ],
    )


def evidential_turing_process() -> str:
    """Figure 2: the Evidential Turing Process and its training."""
    xc, yc, memory, z = (70, 90), (70, 200), (190, 90), (285, 90)
    pi, x, y, w = (400, 90), (495, 90), (400, 200), (285, 200)
    algorithm = [
        "until the model has converged:",
        "  for D_batch ⊂ D:",
        "    choose a context D_C ⊂ D_batch",
        "    M ← E[ r(Z, D_C) ],  Z ~ p_M",
        "    λ ← λ − ∇ F(λ)",
    ]
    return card(
        570,
        480,
        "The Evidential Turing Process: plate diagram and training",
        [
            plate((28, 45), (84, 208), "D_C"),
            plate((352, 45), (190, 208), "D_T"),
            arrow(xc, memory, gap=11),
            arrow(yc, memory),
            arrow(memory, z, dashed=True, label="r"),
            arrow(z, pi),
            arrow(w, pi),
            arrow(x, pi),
            arrow(x, pi, bend=-44, dashed=True),
            arrow(pi, y),
            *(node(at, label, "observed") for at, label in ((xc, "x′"), (yc, "y′"), (x, "x"), (y, "y"))),
            *(node(at, label) for at, label in ((z, "Z"), (pi, "π"), (w, "w"))),
            node(memory, "M", "computed"),
            words((285, 284), "M is written by r, and read at every x", size=19),
            *(words((70, 335 + 30 * i), line, 19, "start", "monospace") for i, line in enumerate(algorithm)),
        ],
    )


def _parametric(left: float) -> list[str]:
    theta, x, y = (left + 60, 170), (left + 175, 80), (left + 175, 170)
    return [
        plate((left + 125, 40), (110, 190), "x, y ∈ D"),
        arrow(theta, y),
        arrow(x, y),
        node(theta, "θ"),
        node(x, "x", "observed"),
        node(y, "y", "observed"),
    ]


def _evidential(left: float) -> list[str]:
    pi, x, y = (left + 80, 80), (left + 180, 80), (left + 80, 170)
    return [
        plate((left + 30, 30), (200, 200), "x, y ∈ D"),
        arrow(x, pi),
        arrow(x, pi, bend=-44, dashed=True),
        arrow(pi, y),
        node(pi, "π"),
        node(x, "x", "observed"),
        node(y, "y", "observed"),
    ]


def _complete(left: float) -> list[str]:
    theta, pi = (left + 45, 80), (left + 145, 80)
    return [*_evidential(left + 65), arrow(theta, pi), node(theta, "θ")]


def _towards(start: Point, end: Point, distance: float) -> Point:
    share = distance / math.dist(start, end)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


FIGURES = {
    "bayesian_models.svg": bayesian_models,
    "evidential_turing_process.svg": evidential_turing_process,
}

if __name__ == "__main__":
    for name, figure in FIGURES.items():
        (IMAGES / name).write_text(figure(), encoding="utf-8")
