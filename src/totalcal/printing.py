"""Predictions as people read them: in five lines, and as a table."""

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from totalcal.types import Predictive

_SHOWN = 10
_UNFAMILIAR = 0.05


def in_five_lines(prediction: "Predictive") -> str:
    """How many rows and classes, how confident, how familiar, what was decided.

    >>> import torch
    >>> from totalcal.types import PointMass, Predictive
    >>> print(in_five_lines(Predictive(PointMass(torch.zeros(1, 4, 2)))))
    4 rows, 2 classes; 1 draw
    mean confidence 0.500, mean entropy 0.693
    """
    rows, classes = prediction.probabilities.shape
    drawn = f"{prediction.draws} draw{'s' * (prediction.draws != 1)}"
    lines = [
        f"{rows} rows, {classes} classes; {drawn}",
        f"mean confidence {float(prediction.confidence.mean()):.3f}, "
        f"mean entropy {float(prediction.entropy.mean()):.3f}",
    ]
    if prediction.domain is not None:
        unfamiliar = float((prediction.familiarity <= _UNFAMILIAR).double().mean())
        lines.append(f"{unfamiliar:.1%} with a familiarity of {_UNFAMILIAR} or less")
    if prediction.gate is not None:
        verdicts = prediction.decision
        counted = (f"{verdicts.count(word) / max(rows, 1):.1%} {word}" for word in sorted(set(verdicts)))
        lines.append(", ".join(counted))
    return "\n".join(lines)


def for_a_notebook(prediction: "Predictive") -> str:
    """The five lines, and a table of the first rows."""
    table = columns(prediction)
    head = "".join(f"<th>{escape(name)}</th>" for name in table)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_short(values[row]))}</td>" for values in table.values()) + "</tr>"
        for row in range(min(_SHOWN, len(prediction.probabilities)))
    )
    return f"<pre>{escape(in_five_lines(prediction))}</pre><table><tr>{head}</tr>{body}</table>"


def columns(prediction: "Predictive") -> dict[str, Any]:
    """A column for all that is known of each row."""
    found: dict[str, Any] = {
        "label": prediction.labels,
        "confidence": prediction.confidence.cpu().numpy(),
        "entropy": prediction.entropy.cpu().numpy(),
    }
    if prediction.domain is not None:
        found["familiarity"] = prediction.familiarity.cpu().numpy()
    if prediction.gate is not None:
        found["decision"], found["why"] = prediction.decision, prediction.why
    return found


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
