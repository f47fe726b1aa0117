"""The domain benchmark from records: scores as OOD detectors, and what corruption does."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from totalcal.errors import InputError
from totalcal.report import Entry, Group, Record, Summary, Table, show, summarise
from totalcal_lab.records.folders import RunFolder, finished_runs
from totalcal_lab.records.labels import by_column, column_title, common_settings, in_order, with_row_labels
from totalcal_lab.records.store import read_records

CORRUPTION = "corruption/"
NO_OOD = "none"

SCORES: Mapping[str, str] = MappingProxyType(
    {
        "unfamiliarity": "familiarity",
        "far_from_domain": "unlike the domain",
        "far_from_classes": "unlike any class",
        "entropy": "entropy",
        "mutual_information": "mutual information",
        "max_softmax": "max softmax",
        "max_logit": "max logit",
        "energy": "energy",
        "gen": "GEN",
        "knn": "50th neighbour",
        "mahalanobis": "Mahalanobis",
        "relative_mahalanobis": "relative Mahalanobis",
        "mahalanobis++": "Mahalanobis++",
        "relative_mahalanobis++": "relative Mahalanobis++",
        "fdbd": "fDBD",
        "scale": "SCALE",
        "vim": "ViM",
        "ddu": "Gaussian per class (DDU)",
    }
)
OPENOOD: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cifar10": {"near": ("cifar-100", "tiny-imagenet-mean"), "far": ("mnist", "svhn")},
        "cifar100": {"near": ("cifar-10", "tiny-imagenet-mean"), "far": ("mnist", "svhn")},
    }
)
"""Of OpenOOD's sets those that are here: its far ones have Textures and Places365 as well."""

_NOTE = "AUROC, %, OOD positive; mean ± standard deviation over seeds; bold: within half a point of the best."


def domain_lines(runs: Iterable[RunFolder]) -> list[Record]:
    """The lines of these runs."""
    files = [run.domain_file for run in runs if run.domain_file.exists()]
    return [line for file in files for line in read_records(file)]


def domain_records(root: Path) -> list[Record]:
    """Those of every finished run beneath a folder."""
    found = domain_lines(finished_runs(root))
    if not found:
        raise InputError(f"no run in {root} has remembered its domain. Run: totalcal-lab run TASK --domain")
    return found


def panel_table(records: Sequence[Record]) -> Table:
    """One group per model, one row per score, one column per OOD set: the worst first, far before near."""
    labelled = with_row_labels(records)
    names = _panel([line for line in labelled if not _is_special(line)])
    groups = []
    for title, part in _by_task(labelled):
        for model in in_order({line["model"] for line in part}):
            mine = [line for line in part if line["model"] == model]
            rows = _score_rows([line for line in mine if not _is_special(line)], names)
            groups.append(Group(f"{title}: {model}{_alarms(mine)}", rows))
    return Table(["", "worst", *names], groups, [_NOTE])


def summary_table(records: Sequence[Record]) -> Table:
    """One row per score; of each model the worst of the far OOD sets, and the worst of the near ones."""
    columns: dict[str, dict[str, Summary]] = {}
    for title, lines in _by_model(records):
        for nearness in ("far", "near"):
            mine = [line for line in lines if line["nearness"] == nearness]
            if mine:
                columns[f"{title}: worst {nearness}"] = _worst(mine)
    return _by_score(columns)


def openood_table(records: Sequence[Record]) -> Table:
    """OpenOOD's columns: one row per score; of each model the means over its near and over its far sets."""
    columns: dict[str, dict[str, Summary]] = {}
    for title, lines in _by_model(records):
        for nearness, names in OPENOOD.get(lines[0]["task"], {}).items():
            mine = [line for line in lines if line["ood"] in names]
            if {line["ood"] for line in mine} != set(names):
                raise InputError(f"{title} has no lines of all of {', '.join(names)}. Run it with --domain.")
            columns[f"{title}: {nearness}"] = _mean(mine)
    return _by_score(columns)


def _by_model(records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    lines = [line for line in with_row_labels(records) if not _is_special(line)]
    for title, part in _by_task(lines):
        for model in in_order({line["model"] for line in part}):
            yield f"{title}, {model}", [line for line in part if line["model"] == model]


def _by_score(columns: Mapping[str, Mapping[str, Summary]]) -> Table:
    scores = [score for score in SCORES if any(score in found for found in columns.values())]
    best = {name: max(summary.mean for summary in found.values()) for name, found in columns.items()}
    rows = [
        [
            Entry(SCORES[score]),
            *(
                _entry(found[score], best[name]) if score in found else Entry("")
                for name, found in columns.items()
            ),
        ]
        for score in scores
    ]
    return Table(["", *columns], [Group("", rows)], [_NOTE])


def _worst(lines: Sequence[Record]) -> dict[str, Summary]:
    names = _panel(lines)
    found = {score: _by_set(lines, f"auroc_by_{score}", names).values() for score in SCORES}
    return {score: min(each, key=lambda summary: summary.mean) for score, each in found.items() if each}


def _mean(lines: Sequence[Record]) -> dict[str, Summary]:
    """Over the sets of each seed, and then over the seeds."""
    by_seed: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        for score in SCORES:
            if f"auroc_by_{score}" in line:
                by_seed[score][line["seed"]].append(line[f"auroc_by_{score}"])
    return {
        score: summarise(sum(each) / len(each) for each in seeds.values()) for score, seeds in by_seed.items()
    }


def severity_table(records: Sequence[Record]) -> Table:
    """Does familiarity fall as accuracy does, and which score predicts the errors?"""
    lines = [line for line in with_row_labels(records) if line["ood"].startswith(CORRUPTION)]
    keys: Mapping[str, str] = {
        "error": "error, %",
        "familiarity": "mean familiarity, %",
        "alarms/0.05": "familiarity ≤ 5 %, %",
        "wrong_by_entropy": "wrong answers by entropy",
        "wrong_by_unfamiliarity": "by familiarity",
        "wrong_by_both": "by both",
    }
    groups = []
    for title, part in _by_task(lines):
        for model in in_order({line["model"] for line in part}):
            mine = [line for line in part if line["model"] == model]
            severities = sorted({line["severity"] for line in mine})
            rows = [_severity_row(mine, severity, keys) for severity in severities]
            groups.append(Group(f"{title}: {model}", rows))
    note = "Means over the types of corruption and seeds; the last three are AUROCs, in %."
    return Table(["severity", *keys.values()], groups, [note])


def _is_special(line: Record) -> bool:
    name: str = line["ood"]
    return name == NO_OOD or name.startswith(CORRUPTION)


def _by_task(lines: Sequence[Record]) -> list[tuple[str, Sequence[Record]]]:
    columns = by_column(lines).items()
    return [(column_title(task, preset, common_settings(part)), part) for (task, preset), part in columns]


def _panel(lines: Sequence[Record]) -> list[str]:
    """Far before near, each in the order of the records; a set may be far from one task and near another."""
    far = {line["ood"] for line in lines if line["nearness"] == "far"}
    return sorted(dict.fromkeys(line["ood"] for line in lines), key=lambda name: name not in far)


def _score_rows(lines: Sequence[Record], names: Sequence[str]) -> list[list[Entry]]:
    scores = [score for score in SCORES if any(f"auroc_by_{score}" in line for line in lines)]
    found = {score: _by_set(lines, f"auroc_by_{score}", names) for score in scores}
    own = [name for name in names if any(name in summaries for summaries in found.values())]
    best = {name: max(found[score][name].mean for score in scores if name in found[score]) for name in own}
    worst = {
        score: min(summaries.values(), key=lambda summary: summary.mean) for score, summaries in found.items()
    }
    best_worst = max(summary.mean for summary in worst.values())
    return [
        [
            Entry(SCORES[score]),
            _entry(worst[score], best_worst),
            *(
                _entry(found[score][name], best[name]) if name in found[score] else Entry("")
                for name in names
            ),
        ]
        for score in scores
    ]


def _by_set(lines: Sequence[Record], key: str, names: Sequence[str]) -> dict[str, Summary]:
    values: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if key in line:
            values[line["ood"]].append(line[key])
    return {name: summarise(values[name]) for name in names if values[name]}


def _entry(summary: Summary, best: float) -> Entry:
    return Entry(show("auroc", summary), summary.mean >= best - 0.005, summary.mean)


def _alarms(lines: Sequence[Record]) -> str:
    own = [line for line in lines if line["ood"] == NO_OOD]
    if not own:
        return ""
    five, one = (summarise(line[f"false_alarms/{level}"] for line in own) for level in ("0.05", "0.01"))
    return f" (false alarms on the test set at 5 % and 1 %: {show('error', five)} and {show('error', one)})"


def _severity_row(lines: Sequence[Record], severity: int, keys: Iterable[str]) -> list[Entry]:
    mine = [line for line in lines if line["severity"] == severity]
    means = [summarise(line[key] for line in mine if key in line).mean for key in keys]
    return [Entry(str(severity)), *(Entry(f"{100 * mean:.1f}", sort=mean) for mean in means)]


TABLES: Mapping[str, Callable[[Sequence[Record]], Table]] = MappingProxyType(
    {"summary": summary_table, "openood": openood_table, "panel": panel_table, "severity": severity_table}
)
