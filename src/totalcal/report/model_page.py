"""The page of one model: before and after calibration, its domain, its decisions, its card."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from totalcal.errors import InputError
from totalcal.files.whole_files import write_whole
from totalcal.report.blocks import Block, Chapter, Gallery, Listing, Picture, Plot, Plots, Prose, Section
from totalcal.report.compare import Difference, bootstrap_difference
from totalcal.report.drawing import BLUE, IN_DISTRIBUTION, OOD, RULE, VERMILLION, address, legend_above
from totalcal.report.page import page
from totalcal.report.table import Entry, Table
from totalcal.uncertainties import FAMILIARITY

Floats = npt.NDArray[np.float64]
ACCEPT, ASK, NOT_MY_DOMAIN = "accept", "ask", "not my domain"
_BINS, _UNFAMILIAR = 15, 0.05
_MOST_CLASSES = 20
_REASONS = {
    FAMILIARITY: "unfamiliar",
    "unlike_domain": "not from here",
    "unlike_classes": "no class it knows",
}
_AUROC_OF = "OOD AUROC, "


@dataclass(frozen=True)
class Judged:
    """What was predicted for the test rows; `p_values` by name, none without a memory."""

    probabilities: Floats
    answers: npt.NDArray[np.int64]
    entropy: Floats
    p_values: Mapping[str, Floats]
    unfamiliarity: Floats | None
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class OODSet:
    """What was predicted for rows of another domain; `entropy` is that of the net as it was."""

    name: str
    entropy: Floats
    entropy_after: Floats
    p_values: Mapping[str, Floats]
    unfamiliarity: Floats | None
    verdicts: tuple[str, ...]


class Cover(NamedTuple):
    """What sets of classes did on the test rows: how many hold the true class, and how large they are."""

    promised: float
    held: float
    size: float
    single: float

    def __str__(self) -> str:
        return (
            f"sets at {self.promised:.0%} hold the true class of {self.held:.1%}, with {self.size:.2f} "
            f"classes on average; {self.single:.1%} are a single class"
        )


class ClassRates(NamedTuple):
    """What became of the test rows that were given a class as the answer, and of those that are of it.

    Attributes:
        name: The class.
        rows: How many rows it is the answer to.
        accepted: The share of these that is accepted; None of no rows, here and below.
        refused: The share of these that is "not my domain".
        asked: Of the others that it is right for, the share that is asked about.
        held: Of the rows that are of this class, the share whose set of classes holds it.
    """

    name: str
    rows: int
    accepted: float | None
    refused: float | None
    asked: float | None
    held: float | None


class RefusedRow(NamedTuple):
    """A row that was refused, and why."""

    where: str
    label: str
    confidence: float
    verdict: str
    why: str
    picture: Any


@dataclass(frozen=True)
class ModelReport:
    """What a model is worth on test rows: `save` writes a page (.html) or its model card (.md).

    Example:
        `model.report(test, ood={"letters": letters}).save("report.html")`
    """

    title: str
    classes: tuple[str, ...]
    labels: npt.NDArray[Any]
    before: Judged
    after: Judged
    domains: tuple[OODSet, ...] = ()
    covers: tuple[Cover, ...] = ()
    by_class: tuple[ClassRates, ...] = ()
    paid: str = ""
    examples: tuple[RefusedRow, ...] = ()
    story: str | None = None
    promise: str = ""
    costs: Mapping[str, str] = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, or the model card alone if the path ends in .md.

        Raises:
            InputError: If the path ends in neither .html nor .md.
        """
        writers: dict[str, Callable[[], str]] = {".html": self.to_html, ".md": self.to_markdown}
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise InputError(f"a report is written as .html or .md, but {path} ends in neither.")
        write_whole(Path(path), writers[suffix]())

    def to_html(self) -> str:
        """One page that needs nothing else."""
        sections = [
            Section(
                "verdict", "In short", "On test rows that nothing was chosen on.", [Prose(self.verdict, True)]
            ),
            Section("scores", "Before and after", _HOW_TO_READ, [self._scores()]),
            Section("calibration", "Does confidence mean what it says?", _RELIABILITY, [self._reliability()]),
            Section(
                "decisions",
                "What it accepts",
                _DECISIONS,
                [self._decisions(), *self._by_class(), self._risk(), *self._covers()],
            ),
        ]
        if self.domains:
            sections.append(Section("domain", "Does it know its domain?", _DOMAIN, self._domain()))
        if self.examples:
            sections.append(Section("refused", "What it refuses, and why", _REFUSED, self._refused()))
        sections.append(Section("card", "Model card", "To keep beside the model.", self._card()))
        chapter = Chapter("model", self.title, "one model", f"{len(self.labels)} test rows", sections)
        return page([chapter], made_from="the model and its test rows")

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        return self.to_markdown()

    @property
    def verdict(self) -> str:
        """What calibration changed, in a few sentences; a difference counts if 0 is not in its interval."""
        told = "; ".join(row.in_words for row in self._rows())
        domain = ""
        if self.domains and self.after.verdicts:
            accepted = (f"{_share(each.verdicts, ACCEPT):.1%} of {each.name}" for each in self.domains)
            inside = f"{_share(self.after.verdicts, ACCEPT):.1%} of the test rows"
            domain = f" It accepts {inside}, {', '.join(accepted)}."
        return f"Calibration: {told}.{domain}"

    @property
    def figures(self) -> dict[str, tuple[float, float]]:
        """Error, NLL, ECE and the AUROC of each OOD set, by name: as trained, and calibrated."""
        return {row.title: (row.before, row.after) for row in self._rows()}

    def to_markdown(self) -> str:
        """The model card: what it is, figures, promises, limits; the front matter is that of Hugging Face."""
        found = self._rows()
        rows = [
            f"| {row.title} | {row.show(row.before)} | {row.show(row.after)} | {row.interval} |"
            for row in found
        ]
        lines = [
            *self._front_matter(found),
            f"# Model card: {self.title}",
            "",
            f"Classes: {', '.join(self.classes[:50])}{', …' if len(self.classes) > 50 else ''}.",
            "",
            "## Figures",
            "",
            f"On {len(self.labels)} test rows; differences with intervals of 95 % over rows (bootstrap).",
            "",
            "| | as trained | calibrated | difference |",
            "|---|---:|---:|---:|",
            *rows,
            "",
        ]
        if self.covers:
            lines += ["## Sets of classes", "", *(f"- {cover}" for cover in self.covers), ""]
        if self.after.verdicts:
            lines += ["## Decisions", "", *self._decision_lines(), "", f"Promised: {self.promise}.", ""]
            lines += [f"Paid: {self.paid}.", ""] if self.paid else []
        if self.story is not None:
            lines += ["## How it was made", "", "```", self.story, "```", ""]
        lines += ["## Costs", "", *(f"- {name}: {value}" for name, value in self.costs.items()), ""]
        lines += ["## Limits", "", *(f"- {limit}" for limit in self._limits()), ""]
        return "\n".join(lines)

    def _front_matter(self, rows: "list[_Row]") -> list[str]:
        """YAML, in which the figures of the calibrated model are a `model-index`: a result for each set."""
        measures = {"error": ("accuracy", "Accuracy"), "NLL": ("nll", "NLL"), "ECE": ("ece", "ECE")}
        results: dict[str, list[tuple[str, str, float]]] = {}
        for row in rows:
            if row.title in measures:
                value = 1 - row.after if row.title == "error" else row.after
                results.setdefault("test rows", []).append((*measures[row.title], value))
            else:
                name = row.title.removeprefix(_AUROC_OF)
                results.setdefault(name, []).append(("roc_auc", "AUROC against the test rows", row.after))
        lines = ["---", "library_name: totalcal", "tags:", "- calibration", "- out-of-distribution-detection"]
        lines += ["model-index:", f"- name: {json.dumps(self.title)}", "  results:"]
        for place, (name, metrics) in enumerate(results.items()):
            task = "out-of-distribution-detection" if place else "classification"
            lines += ["  - task:", f"      type: {task}", "    dataset:", f"      name: {json.dumps(name)}"]
            lines += [f"      type: {'out-of-distribution' if place else 'test'}", "    metrics:"]
            for kind, words, value in metrics:
                lines += [f"    - type: {kind}", f"      name: {words}", f"      value: {value:.6g}"]
        return [*lines, "---", ""]

    def _limits(self) -> list[str]:
        limits = [
            "Promises hold on average over held-out sets, for inputs drawn as the held-out ones; after a "
            "shift of the data they have to be made anew.",
            "An input of another domain may look familiar: see the OOD sets above for how often.",
        ]
        if not self.after.p_values:
            limits.append(
                "There is no memory of a domain: nothing tells an input from elsewhere but its entropy."
            )
        if len(self.labels) < 500:
            limits.append(f"{len(self.labels)} test rows leave the figures wide intervals.")
        return limits

    def _decision_lines(self) -> list[str]:
        found = [("test", self.after.verdicts), *((each.name, each.verdicts) for each in self.domains)]
        return [
            f"- {name}: "
            + ", ".join(f"{_share(verdicts, word):.1%} {word}" for word in (ACCEPT, ASK, NOT_MY_DOMAIN))
            for name, verdicts in found
        ]

    def _rows(self) -> "list[_Row]":
        """Scores before and after, each with an interval of the difference over rows."""
        one, two, labels = self.before, self.after, self.labels
        rows = []
        for title, percent, score in (
            ("error", True, _error),
            ("NLL", False, _nll),
            ("ECE", True, plain_ece),
        ):
            sides = [one.probabilities, labels], [two.probabilities, labels]
            values = score(*sides[0]), score(*sides[1])
            rows.append(_Row(title, True, percent, *values, bootstrap_difference(score, [sides])))
        for each in self.domains:
            inside, outside = two.unfamiliarity, each.unfamiliarity
            if inside is None or outside is None:
                inside, outside = two.entropy, each.entropy_after
            sets = [([one.entropy], [inside]), ([each.entropy], [outside])]
            values = plain_auroc(one.entropy, each.entropy), plain_auroc(inside, outside)
            title = _AUROC_OF + each.name
            rows.append(_Row(title, False, True, *values, bootstrap_difference(plain_auroc, sets)))
        return rows

    def _scores(self) -> Table:
        rows = [
            (
                Entry(row.title),
                Entry(row.show(row.before), sort=row.before),
                Entry(row.show(row.after), sort=row.after, bold=row.is_better, note=row.interval),
            )
            for row in self._rows()
        ]
        caption = "After calibration OOD inputs are told apart by familiarity, before by the entropy."
        return Table.of_rows("scores", caption, ["", "as trained", "calibrated"], rows)

    def _reliability(self) -> Plots:
        plots = [
            Plot(
                name=name,
                title=title,
                alternative=f"Accuracy against confidence, {title}",
                draw=_reliability_of(judged.probabilities, self.labels),
                size=(3.2, 3.0),
            )
            for name, title, judged in (
                ("before", "as trained", self.before),
                ("after", "calibrated", self.after),
            )
        ]
        return Plots(
            "reliability", "Dots: bins of confidence, their area the rows in them. Bars: rows per bin.", plots
        )

    def _decisions(self) -> Block:
        if not self.after.verdicts:
            return Prose("This model has no decisions: it was not calibrated, or on too few rows.")
        right = self.after.answers == self.labels
        sets = [
            (
                "test, right",
                [v for v, good in zip(self.after.verdicts, right, strict=True) if good],
            ),
            (
                "test, wrong",
                [v for v, good in zip(self.after.verdicts, right, strict=True) if not good],
            ),
            *((each.name, list(each.verdicts)) for each in self.domains),
        ]
        rows = [
            (Entry(f"{name} ({len(verdicts)})"), *(_percent(_share(verdicts, word)) for word in _VERDICTS))
            for name, verdicts in sets
            if verdicts
        ]
        told = f"Promised: {self.promise}." + (f" Paid: {self.paid}." if self.paid else "")
        return Table.of_rows("decisions", told, ["", *_VERDICTS], rows)

    def _by_class(self) -> list[Block]:
        """The classes of which the smallest shares are accepted."""
        seen = sorted((each for each in self.by_class if each.rows), key=lambda each: each.accepted or 0.0)
        if len(seen) < 2:
            return []
        rows = [
            (Entry(f"{each.name} ({each.rows})"), *(_share_or_none(value) for value in each[2:]))
            for each in seen[:_MOST_CLASSES]
        ]
        caption = "Of test rows by the class that was answered; in the last column, of those that are of it."
        if len(seen) > _MOST_CLASSES:
            caption += f" The {_MOST_CLASSES} least accepted of {len(seen)} classes."
        headings = ["", ACCEPT, NOT_MY_DOMAIN, f"{ASK}, of the other right ones", "its set holds it"]
        return [Table.of_rows("by-class", caption, headings, rows)]

    def _risk(self) -> Plots:
        plot = Plot(
            name="risk",
            title="error among the answered",
            alternative="Error against the share of test rows answered, before and after",
            draw=self._draw_risk,
            size=(4.2, 2.6),
        )
        return Plots("risk", "The most confident are answered first.", [plot])

    def _covers(self) -> list[Block]:
        if not self.covers:
            return []
        rows = [
            (
                Entry(f"{cover.promised:.0%}"),
                _percent(cover.held),
                Entry(f"{cover.size:.2f}", sort=cover.size),
                _percent(cover.single),
            )
            for cover in self.covers
        ]
        headings = ["promised", "hold the true class", "classes in a set", "of a single class"]
        return [Table.of_rows("sets", "Sets of classes, on test rows.", headings, rows)]

    def _draw_risk(self, axes: Any) -> None:
        for judged, name, colour in ((self.before, "as trained", RULE), (self.after, "calibrated", BLUE)):
            order = np.argsort(judged.entropy, kind="stable")
            wrong = (judged.probabilities.argmax(1) != self.labels)[order]
            share = np.arange(1, len(wrong) + 1) / len(wrong)
            axes.plot(share, np.cumsum(wrong) / np.arange(1, len(wrong) + 1), color=colour, label=name)
        axes.set_xlabel("share answered")
        axes.set_ylabel("error")
        legend_above(axes)

    def _domain(self) -> list[Block]:
        if not self.after.p_values:
            return [Prose("There is no memory: inputs are told apart by their entropy alone.")]
        plots = [
            Plot(
                name=f"familiarity-{place}",
                title=each.name,
                alternative=f"Familiarity of test rows and of {each.name}",
                draw=_familiarities(self.after, each, OOD[place % len(OOD)]),
            )
            for place, each in enumerate(self.domains)
        ]
        rows = [
            (Entry(name), *(_percent(float((p <= _UNFAMILIAR).mean())) for p in p_values.values()))
            for name, p_values in [
                ("test", self.after.p_values),
                *((d.name, d.p_values) for d in self.domains),
            ]
        ]
        headings = ["", *(_REASONS[name] for name in self.after.p_values)]
        return [
            Plots("familiarity", "Of rows of the domain the familiarity is uniform.", plots),
            Table.of_rows(
                "unfamiliar",
                f"Share of rows with a p-value of {_UNFAMILIAR} or less, and why.",
                headings,
                rows,
            ),
        ]

    def _refused(self) -> list[Block]:
        shown = [each for each in self.examples if each.picture is not None]
        if shown:
            pictures = [
                Picture(
                    address(each.picture),
                    f"{each.verdict}, predicted {each.label}",
                    f"{each.where}: {each.verdict}",
                    f"{each.label}, {each.confidence:.2f}. {each.why}",
                )
                for each in shown
            ]
            return [Gallery("The clearest cases of each set", pictures)]
        rows = [
            (
                Entry(each.where),
                Entry(each.verdict),
                Entry(each.label),
                _percent(each.confidence),
                Entry(each.why),
            )
            for each in self.examples
        ]
        return [Table.of_rows("refused", "", ["set", "decision", "label", "confidence", "why"], rows)]

    def _card(self) -> list[Block]:
        costs = [(Entry(name), Entry(value)) for name, value in self.costs.items()]
        blocks: list[Block] = [Table.of_rows("costs", "", ["costs", ""], costs)]
        if self.story is not None:
            blocks.append(Listing("How it was made", self.story, folded=False))
        blocks.append(Listing("The card as Markdown", self.to_markdown()))
        return blocks


_VERDICTS = (ACCEPT, ASK, NOT_MY_DOMAIN)
_HOW_TO_READ = (
    "Differences with their intervals of 95 % over test rows (bootstrap); bold: better beyond doubt."
)
_RELIABILITY = "On the diagonal, of the answers given with 80 % confidence 80 % are right."
_DECISIONS = "Of inputs like the held-out ones few are refused, by promise; of others as many as it can tell."
_DOMAIN = "Familiarity is a p-value: of inputs of the domain, 5 % have one of .05 or less."
_REFUSED = "The most unfamiliar inputs of each set, with what the net answers."


class _Row(NamedTuple):
    title: str
    lower_is_better: bool
    percent: bool
    before: float
    after: float
    difference: Difference

    def show(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.4f}"

    @property
    def interval(self) -> str:
        scale, digits = (100, 1) if self.percent else (1, 4)
        low, mean, high = (scale * getattr(self.difference, name) for name in ("low", "mean", "high"))
        return f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"

    @property
    def in_words(self) -> str:
        if self.before == self.after:
            return f"{self.title} unchanged ({self.show(self.after)})"
        change = f"{self.show(self.before)} → {self.show(self.after)}"
        if self.difference.low <= 0 <= self.difference.high:
            return f"{self.title} the same but for chance ({change})"
        return f"{self.title} {'better' if self.is_better else 'worse'} ({change})"

    @property
    def is_better(self) -> bool:
        difference = self.difference
        return difference.high < 0 if self.lower_is_better else difference.low > 0


def _error(probabilities: Floats, labels: Any) -> float:
    return float((probabilities.argmax(1) != labels).mean())


def _nll(probabilities: Floats, labels: Any) -> float:
    return float(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-300)).mean())


def plain_ece(probabilities: Floats, labels: Any) -> float:
    """`totalcal.scores.ece` of plain arrays: this room never reaches torch, which the scores import."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(place, confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(labels))


def plain_auroc(inside: Floats, outside: Floats) -> float:
    """How often a row of the other domain has the higher score; ties count half."""
    ranked = np.sort(inside)
    below = np.searchsorted(ranked, outside, "left") + np.searchsorted(ranked, outside, "right")
    return float(below.mean() / (2 * len(inside)))


def _share(verdicts: Sequence[str], word: str) -> float:
    return Counter(verdicts)[word] / max(len(verdicts), 1)


def _percent(value: float) -> Entry:
    return Entry(f"{100 * value:.1f} %", sort=value)


def _share_or_none(value: float | None) -> Entry:
    return Entry("") if value is None else _percent(value)


def _reliability_of(probabilities: Floats, labels: Any) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
        edges = np.linspace(0, 1, _BINS + 1)
        place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
        counts = np.bincount(place, minlength=_BINS)
        full = counts > 0
        mean = np.bincount(place, confidence, minlength=_BINS)[full] / counts[full]
        accuracy = np.bincount(place, right, minlength=_BINS)[full] / counts[full]
        axes.bar(edges[:-1], 0.25 * counts / counts.max(), 1 / _BINS, align="edge", color=RULE)
        for left, number in zip(edges[:-1][full], counts[full], strict=True):
            height = 0.25 * number / counts.max()
            axes.text(left + 0.5 / _BINS, height + 0.01, str(number), ha="center", fontsize=5)
        axes.plot([0, 1], [0, 1], color=RULE, linewidth=0.8)
        axes.scatter(mean, accuracy, s=6 + 60 * counts[full] / counts.sum(), color=BLUE, zorder=3)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("confidence")
        axes.set_ylabel("accuracy")

    return draw


def _familiarities(test: Judged, other: OODSet, colour: str) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        edges = np.linspace(0, 1, 21)
        for judged, label, shade in ((test, "test", IN_DISTRIBUTION), (other, other.name, colour)):
            values = judged.p_values[FAMILIARITY]
            shares = np.full(len(values), 1 / len(values))
            axes.hist(values, edges, weights=shares, alpha=0.6, color=shade, label=label)
        axes.axvline(_UNFAMILIAR, color=VERMILLION, linewidth=0.8, linestyle="--")
        axes.set_xlabel("familiarity")
        axes.set_ylabel("share of rows")
        legend_above(axes, columns=2)

    return draw
