"""What things are called in tables: scores and their units, models and their order, rows, columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from totalcal.errors import UnknownNameError
from totalcal.registry import ORDER


class Score(NamedTuple):
    """One score; values are kept as fractions, `percent` says how it is printed."""

    title: str
    lower_is_better: bool
    percent: bool


SCORES = {
    "error": Score("Error", lower_is_better=True, percent=True),
    "nll": Score("NLL", lower_is_better=True, percent=False),
    "brier": Score("Brier", lower_is_better=True, percent=False),
    "ece": Score("ECE (15 bins)", lower_is_better=True, percent=True),
    "ece_100": Score("ECE (100 bins)", lower_is_better=True, percent=True),
    "ece_debiased": Score("L2 calibration error, debiased", lower_is_better=True, percent=True),
    "ece_smooth": Score("Smooth ECE", lower_is_better=True, percent=True),
    "ece_classwise": Score("Class-wise ECE", lower_is_better=True, percent=True),
    "auroc": Score("OOD AUROC", lower_is_better=False, percent=True),
    "auroc_mean": Score("OOD AUROC, mean of the panel", lower_is_better=False, percent=True),
    "auroc_worst": Score("OOD AUROC, worst of the panel", lower_is_better=False, percent=True),
    "aupr_out": Score("OOD AUPR, OOD positive", lower_is_better=False, percent=True),
    "aupr_in": Score("OOD AUPR, in-distribution positive", lower_is_better=False, percent=True),
    "fpr95": Score("OOD FPR at 95 % TPR", lower_is_better=True, percent=True),
    "aurc": Score("AURC", lower_is_better=True, percent=True),
    "excess_aurc": Score("Excess AURC", lower_is_better=True, percent=True),
    "augrc": Score("AUGRC", lower_is_better=True, percent=True),
    "joint_nll": Score("Joint NLL", lower_is_better=True, percent=False),
    "kl": Score("KL to the truth", lower_is_better=True, percent=False),
    "risk_correlation": Score("Rank correlation with the Bayes risk", lower_is_better=False, percent=False),
}
"""The scores by their keys; `auroc/mnist` in a record is the score `auroc` on the OOD set `mnist`."""

ASPECTS = {"model fit": "nll", "class overlap": "ece", "domain mismatch": "auroc"}
"""The three aspects of total calibration, section 2, and the score that stands for each."""

Column = tuple[str, str]  # task, preset
Record = Mapping[str, Any]
"""One run: what ran and how it scored, by the keys that docs/grid.md lists."""


def is_score(key: str) -> bool:
    """Whether a key is a score: one of SCORES, or one of them on a named OOD set, `auroc/mnist`."""
    return key.partition("/")[0] in SCORES


def describe(key: str) -> Score:
    """The score behind a key.

    >>> describe("auroc/kmnist").title
    'OOD AUROC, kmnist'
    """
    name, _, panel = key.partition("/")
    if name not in SCORES:
        raise UnknownNameError("score", key, SCORES)
    score = SCORES[name]
    return score._replace(title=f"{score.title}, {panel}") if panel else score


def better(key: str, left: float, right: float) -> bool:
    """Whether `left` is the better value of the two.

    >>> better("auroc", 0.9, 0.8), better("nll", 0.9, 0.8)
    (True, False)
    """
    return left < right if describe(key).lower_is_better else left > right


def by_column(records: Iterable[Record]) -> dict[Column, list[Record]]:
    """The records of each task and preset, tasks by name."""
    columns: dict[Column, list[Record]] = {}
    for record in records:
        columns.setdefault((record.get("task", ""), record.get("preset", "")), []).append(record)
    return dict(sorted(columns.items()))


def column_title(task: str, preset: str, settings: Mapping[str, Any]) -> str:
    """What a column is called in full: with the settings that all of its records share.

    >>> column_title("fashion", "paper", {"epochs": 10})
    'fashion (paper, epochs=10)'
    """
    return f"{task} ({', '.join(filter(None, [preset, settings_in_words(settings)]))})"


def common_settings(records: Sequence[Record]) -> dict[str, Any]:
    """The settings that all records share: they belong to the column, not to its rows.

    >>> common_settings([{"settings": {"epochs": 2, "weight_kl_scale": 0}}, {"settings": {"epochs": 2}}])
    {'epochs': 2}
    """
    if not records:
        return {}
    first, *others = (record.get("settings", {}) for record in records)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def with_row_labels(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The records of one column with the row's label for `model`, which has their settings in it.

    >>> runs = [{"model": "etp", "settings": {"weight_kl_scale": 0}}, {"model": "etp", "settings": {}}]
    >>> [record["model"] for record in with_row_labels(runs)]
    ['etp (weight_kl_scale=0)', 'etp']
    """
    common = common_settings(records)
    return [{**record, "model": _label(record, common), "settings": {}} for record in records]


def in_order(labels: Iterable[str]) -> list[str]:
    """Each label once: the plain net, the family as it grows, the baselines, what else there is."""
    return sorted(set(labels), key=place)


def place(label: str) -> tuple[int, str]:
    """Where a row or a model stands in a table: a key to sort by."""
    model = label.partition(" ")[0]
    return (ORDER.index(model) if model in ORDER else len(ORDER), label)


def settings_in_words(settings: Mapping[str, Any]) -> str:
    """Settings as a table shows them.

    >>> settings_in_words({"weight_kl_scale": 0, "epochs": 2})
    'weight_kl_scale=0, epochs=2'
    """
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def seeds_in_words(counts: Mapping[str, int]) -> str:
    """How many seeds there are, and which rows have fewer.

    >>> seeds_in_words({"etp": 5, "anp": 2})
    '5 seeds (anp 2)'
    """
    most = max(counts.values())
    fewer = [f"{label} {count}" for label, count in counts.items() if count < most]
    return f"{most} seed{'s' * (most > 1)}" + (f" ({listed(fewer)})" if fewer else "")


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names as a person reads them: all, or the first and how many more.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _label(record: Record, common: Mapping[str, Any]) -> str:
    own = {key: value for key, value in record.get("settings", {}).items() if key not in common}
    return f"{record['model']} ({settings_in_words(own)})" if own else str(record["model"])
