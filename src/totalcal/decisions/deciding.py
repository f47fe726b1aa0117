"""What `calibrate(decisions=…)` takes: promises per class, thresholds by hand, a rule, or costs.

Per class means per predicted class: given it, held-out rows and new ones are exchangeable, and each class
has a threshold of its own (Mondrian conformal prediction, Vovk, Gammerman and Shafer 2005). A class that is
expected to have too few held-out rows shares one group with all others of that kind, and the promise is then
over the group. What is expected is read from the fitting rows, on which no promise rests: grouped by the
rows of the promises themselves, a class would be rare because it happens to be, and the promise would not be
exact.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from totalcal.calibration.splitting import rows_for
from totalcal.decisions.costs import Costs, mean_with_interval
from totalcal.decisions.gate import ACCEPT, Bar, Gate, HeldOutRates
from totalcal.decisions.policy import ASK, NOT_MY_DOMAIN, most_unfamiliar, three_verdicts
from totalcal.decisions.rules import FalseRejection, Flags, Risk, Rule, check_share, conformal_quantile
from totalcal.errors import GateError, LabelError
from totalcal.scores.arrays import Floats, Integers, check_predictions, plain
from totalcal.types import Predictive
from totalcal.uncertainties import CONFIDENCE, EXPECTED_COST, FAMILIARITY, UNFAMILIARITY

_ALWAYS_ASK = -1.0  # below any entropy
_MOST_NAMES = 8


@dataclass(frozen=True)
class PerClass:
    """The promises of `calibrate` for each predicted class by itself, and sets that cover each true class.

    Attributes:
        rule: Of the verdict "ask", per class: false rejections at `beta` if not given; or `Risk`, `Coverage`.

    Example:
        `calibrate(net, train, held_out, decisions=PerClass())`
    """

    rule: Rule | None = None


@dataclass(frozen=True)
class Thresholds:
    """Thresholds by hand: a class is accepted from this confidence on.

    Attributes:
        by_class: The least confidence by the name of the class, or by its number where classes have no names.
        default: That of all others.

    Example:
        `calibrate(net, train, held_out, decisions=Thresholds({"malignant": 0.6}, default=0.95))`
    """

    by_class: Mapping[Any, float]
    default: float = 0.0


Choice = PerClass | Thresholds | Costs | Rule


class HeldOut(NamedTuple):
    """The rows that promises rest on, and of the fitting rows what says which classes are rare.

    Attributes:
        prediction: Of the rows of the promises.
        labels: Their classes.
        predicted_before: How often each class was predicted for the fitting rows.
        labelled_before: How many fitting rows are of each class.
        classes: Their names.
    """

    prediction: Predictive
    labels: Integers
    predicted_before: Integers
    labelled_before: Integers
    classes: Sequence[Any]

    def groups(self, counts: Integers, needed: int) -> tuple[int, ...]:
        return group_classes(counts * len(self.labels) / max(counts.sum(), 1), needed)


def group_classes(expected: Floats, needed: int) -> tuple[int, ...]:
    """The group of each class: one of its own where so many rows are expected, else that of the rare ones, 0.

    >>> group_classes(np.array([50, 3, 60, 7]), 39)
    (1, 0, 2, 0)
    """
    own = iter(range(1, len(expected) + 1))
    return tuple(next(own) if rows >= needed else 0 for rows in expected)


def decide(choice: Choice | None, held_out: HeldOut, alpha: float, beta: float) -> Gate:
    """The gate of a choice; its promise says what holds.

    Args:
        choice: What was given as `decisions`.
        held_out: The rows that promises rest on.
        alpha: Of the inputs of the domain, at most so many are called "not my domain".
        beta: Of the others that are answered correctly, at most so many are "ask", unless a rule says else.

    Raises:
        GateError: If nothing can be promised on these rows.
        LabelError: If thresholds are of classes that there are not.
    """
    if choice is None:
        return three_verdicts(held_out.prediction, held_out.labels, alpha, beta)
    check_share(alpha, "alpha")
    if isinstance(choice, Costs):
        return _of_costs(choice, held_out)
    if isinstance(choice, Thresholds):
        return _by_hand(choice, held_out, alpha)
    if isinstance(choice, PerClass):
        rule = choice.rule or FalseRejection(beta)
        needed = rule.fewest_rows if isinstance(rule, Risk) else rows_for(beta) * 10 // 9
        groups = held_out.groups(held_out.predicted_before, max(rows_for(alpha), needed))
        return _by_groups(rule, held_out, alpha, groups)
    return _by_groups(choice, held_out, alpha, (0,) * len(held_out.classes))


class _Groups(NamedTuple):
    """Rows by the group of the class predicted for them."""

    of_class: tuple[int, ...]
    predicted: Integers

    @property
    def is_one(self) -> bool:
        return len(set(self.of_class)) == 1

    @property
    def rows(self) -> list[Flags]:
        """Which rows belong to group 0, 1, …"""
        found = np.array(self.of_class)[self.predicted]
        return [np.asarray(found == group) for group in range(max(self.of_class) + 1)]

    def by_class(self, values: Sequence[float]) -> tuple[float, ...] | None:
        return None if self.is_one else tuple(values[group] for group in self.of_class)


def _by_groups(rule: Rule, held_out: HeldOut, alpha: float, of_class: tuple[int, ...]) -> Gate:
    """A bar by familiarity and one by entropy, both with a threshold for each group of predicted classes."""
    prediction, names = held_out.prediction, held_out.classes
    probabilities, truth = check_predictions(prediction.probabilities, held_out.labels)
    predicted = probabilities.argmax(1)
    groups, wrong = _Groups(of_class, predicted), predicted != truth
    each = "" if groups.is_one else ", for each predicted class"
    bars: list[Bar] = []
    promises: list[str] = []
    alone: list[int] = []
    familiar = np.ones(len(truth), dtype=bool)
    if prediction.domain is not None:
        bar, familiar, said, alone = _familiarity_bar(prediction, alpha, groups)
        bars += [bar] if bar is not None else []
        promises.append(said)
    entropy = prediction.entropy.detach().cpu().double().numpy()
    pooled = math.inf
    try:
        pooled = rule.threshold(entropy[familiar], wrong[familiar])
    except GateError:
        if groups.is_one:
            raise
    limits = []
    for number, rows in enumerate(groups.rows):
        try:
            limits.append(rule.threshold(entropy[rows & familiar], wrong[rows & familiar]))
        except (GateError, IndexError):
            limits.append(_ALWAYS_ASK if isinstance(rule, Risk) else pooled)
            alone.append(number)
    bars.append(Bar("entropy", pooled, ASK, groups.by_class(limits)))
    promises.append(f'{rule.promise}{each}: the others are "{ASK}"')
    promises += _exceptions(groups, alone, names, isinstance(rule, Risk))
    return _gate(bars, promises, held_out)


def _familiarity_bar(
    prediction: Predictive, alpha: float, groups: _Groups
) -> tuple[Bar | None, Flags, str, list[int]]:
    """The bar, the rows that are familiar, what is promised, and the groups that it is not promised to."""
    unfamiliarity = plain(prediction.unfamiliarity).astype(np.float64)
    familiar = np.ones(len(unfamiliarity), dtype=bool)
    fewest = math.ceil(1 / alpha - 1e-9) - 1
    if len(unfamiliarity) < fewest:
        said = f'"{NOT_MY_DOMAIN}" at {alpha:.0%} cannot be promised: it takes {fewest} rows'
        return None, familiar, f"{said}, not {len(unfamiliarity)}", []
    if groups.is_one:
        bar = Bar(FAMILIARITY, alpha, NOT_MY_DOMAIN)
        said = f'at most {alpha:.0%} of inputs like the held-out ones are "{NOT_MY_DOMAIN}"'
        return bar, ~most_unfamiliar(unfamiliarity, alpha), said, []
    pooled = conformal_quantile(unfamiliarity, 1 - alpha, "rows")
    alone: list[int] = []
    limits = []
    for number, rows in enumerate(groups.rows):
        if rows.sum() >= fewest:
            limits.append(conformal_quantile(unfamiliarity[rows], 1 - alpha, "rows"))
            familiar[rows] = ~most_unfamiliar(unfamiliarity[rows], alpha)
        else:
            limits.append(pooled)
            familiar[rows] = unfamiliarity[rows] <= pooled
            alone.append(number)
    said = f'at most {alpha:.0%} of inputs of each predicted class are "{NOT_MY_DOMAIN}"'
    return Bar(UNFAMILIARITY, pooled, NOT_MY_DOMAIN, groups.by_class(limits)), familiar, said, alone


def _exceptions(groups: _Groups, alone: Sequence[int], names: Sequence[Any], asks: bool) -> list[str]:
    """Which classes are promised something together only, and which nothing."""
    if groups.is_one:
        return []
    rare = [name for name, group in zip(names, groups.of_class, strict=True) if group == 0]
    nothing = [name for name, group in zip(names, groups.of_class, strict=True) if group in alone]
    said = []
    if len(rare) > 1 and 0 not in alone:
        said.append(f"too rare for a promise of their own, and taken together: {_listed(rare)}")
    if nothing:
        what = "always asked about" if asks else "no promise of their own, the threshold of all rows"
        said.append(f"{what}, for too few rows: {_listed(nothing)}")
    return said


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(str, names[:_MOST_NAMES])) + more


def _by_hand(choice: Thresholds, held_out: HeldOut, alpha: float) -> Gate:
    known = list(held_out.classes)
    unknown = [name for name in choice.by_class if name not in known]
    if unknown:
        raise LabelError(
            f"thresholds are given for {_listed(unknown)}, but the classes are {_listed(known)}."
        )
    for value in (*choice.by_class.values(), choice.default):
        if not 0 <= value <= 1:
            raise GateError(f"a threshold of confidence lies between 0 and 1, but is {value}.")
    limits = tuple(float(choice.by_class.get(name, choice.default)) for name in known)
    bars: list[Bar] = []
    promises: list[str] = []
    if held_out.prediction.domain is not None:
        one = _Groups((0,) * len(known), held_out.labels)
        bar, _, said, _ = _familiarity_bar(held_out.prediction, alpha, one)
        bars, promises = [bar] if bar is not None else [], [said]
    bars.append(Bar(CONFIDENCE, choice.default, ASK, limits))
    promises.append(f'"{ASK}" below thresholds given by hand, so nothing is promised of it')
    return _gate(bars, promises, held_out)


def _of_costs(costs: Costs, held_out: HeldOut) -> Gate:
    prediction = held_out.prediction
    probabilities, truth = check_predictions(prediction.probabilities, held_out.labels)
    remembers = prediction.domain is not None and costs.miss_ood > 0
    bars = [Bar(FAMILIARITY, costs.least_familiarity, NOT_MY_DOMAIN)] if remembers else []
    bars.append(Bar(EXPECTED_COST, costs.ask, ASK))
    gate = _gate(bars, [], held_out, costs)
    accepted = np.array([verdict == ACCEPT for verdict in gate(prediction).verdicts])
    answers, classes = costs.answers(probabilities), probabilities.shape[1]
    paid = mean_with_interval(costs.paid(answers, accepted, truth, classes), costs.largest(classes))
    without = costs.paid(answers, np.ones(len(truth), dtype=bool), truth, classes).mean()
    expected = np.where(accepted, costs.expected(probabilities), costs.ask).mean()
    promises = [
        f"the decision of least expected cost: {expected:.4g} per input, and {paid[0]:.4g} on {len(truth)} "
        f"held-out rows (95 %: {paid[1]:.4g} to {paid[2]:.4g}); to answer all would cost "
        f"{without:.4g}, to ask about all {costs.ask:.4g}"
    ]
    if remembers:
        promises.append(
            f'"{NOT_MY_DOMAIN}" at a familiarity of {costs.least_familiarity:.2g} or less, for '
            f"{costs.ood:.2g} of inputs from elsewhere at {costs.miss_ood:.4g} each"
        )
    return _gate(bars, promises, held_out, costs)


def _gate(
    bars: Sequence[Bar], promises: Sequence[str], held_out: HeldOut, costs: Costs | None = None
) -> Gate:
    prediction = held_out.prediction
    empty = HeldOutRates.of(np.zeros(0, dtype=bool), np.zeros(0, dtype=bool))
    gate = Gate(tuple(bars), "; ".join(promises), empty, prediction.sampling, costs)
    probabilities, truth = check_predictions(prediction.probabilities, held_out.labels)
    rates = HeldOutRates.of(gate(prediction).accepted, gate.answers(probabilities) != truth)
    return Gate(gate.bars, gate.promise, rates, gate.sampling, costs)
