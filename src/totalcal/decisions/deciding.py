"""What `calibrate(decisions=…)` takes, and the gate that comes of it: accept, ask and not my domain.

"Not my domain" goes to inputs with familiarity ≤ α. Familiarity is a conformal p-value, so at most α of all
inputs of the domain get this verdict, however few rows were held out. Among the others, "ask" goes to those
whose entropy is above a bar, by default a conformal quantile: at most β of those that are answered correctly
get it. Neither rate dilutes the other.

The bar is a rank among the rows that the familiarity is a rank among. They are selected as a new input is:
row j is unfamiliar if at most α (n + 1) of the n rows are as unfamiliar as itself. For a new row that is
familiar this is what the selection from all n + 1 rows gives, which treats them alike, so that the quantile
holds for what the selection leaves (selection-conditional conformal prediction, Jin and Ren 2024).

Per class means per predicted class: given it, held-out rows and new ones are exchangeable, and each class
has thresholds of its own (Mondrian conformal prediction, Vovk, Gammerman and Shafer 2005). Classes that are
expected to have too few held-out rows share thresholds with others that are about as difficult, as many
classes as it takes, and the promise is then over the group (clustered conformal prediction, Ding et al.
2023). What is expected and how difficult a class is are read from the fitting rows, on which no promise
rests: grouped by the rows of the promises themselves, a class would be rare because it happens to be, and
the promise would not be exact.

All rates are means over held-out sets, for inputs exchangeable with the held-out ones.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from totalcal.decisions.costs import Costs
from totalcal.decisions.gate import ASK, NOT_MY_DOMAIN, Bar, Gate, HeldOutRates
from totalcal.decisions.rules import (
    Coverage,
    FalseRejection,
    Flags,
    Risk,
    Rule,
    conformal_quantile,
    rows_for,
)
from totalcal.errors import GateError, LabelError
from totalcal.scores.arrays import Floats, Integers, check_predictions, plain
from totalcal.types import Predictive
from totalcal.uncertainties import CONFIDENCE, EXPECTED_COST, FAMILIARITY, UNFAMILIARITY

_ALWAYS_ASK = -1.0  # below any entropy
_MOST_NAMES, _MOST_GROUPS = 12, 4


@dataclass(frozen=True)
class PerClass:
    """The promises of `calibrate` for each predicted class by itself, and sets that cover each true class.

    Classes with too few rows are taken together with others that are about as difficult, or have no promise
    of their own; `print(model)` says which.

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
    """The rows that promises rest on, and the fitting rows, which say what classes are like.

    Attributes:
        prediction: Of the rows of the promises.
        labels: Their classes.
        fitting: The prediction of the fitting rows.
        fitting_labels: Their classes.
        classes: The names of the classes.
    """

    prediction: Predictive
    labels: Integers
    fitting: Predictive
    fitting_labels: Integers
    classes: Sequence[Any]

    def groups_of_predicted(self, needed: int, right: int = 0) -> tuple[int, ...]:
        """The group of each predicted class, by how many rows, and right answers, it can expect.

        Where it takes some of both, what a class lacks most counts; its difficulty is its mean entropy.
        """
        predicted = plain(self.fitting.probabilities).argmax(1)
        enough = self._expected(predicted) / needed
        if right:
            enough = np.minimum(enough, self._expected(predicted[predicted == self.fitting_labels]) / right)
        return group_classes(enough, self._means(predicted, plain(self.fitting.entropy)))

    def groups_of_true(self, needed: int) -> tuple[int, ...]:
        """The group of each true class, by how many rows it can expect and how sure of it one is."""
        own = plain(self.fitting.probabilities)[np.arange(len(self.fitting_labels)), self.fitting_labels]
        enough = self._expected(self.fitting_labels) / needed
        return group_classes(enough, self._means(self.fitting_labels, -own))

    def _expected(self, of_class: Integers) -> Floats:
        """How many rows of each class there will be among those of the promises."""
        counts = np.bincount(of_class, minlength=len(self.classes))
        return counts * len(self.labels) / max(len(self.fitting_labels), 1)

    def _means(self, of_class: Integers, difficulty: Floats) -> Floats:
        counts = np.bincount(of_class, minlength=len(self.classes))
        sums = np.bincount(of_class, difficulty, minlength=len(self.classes))
        of_all = difficulty.mean() if len(difficulty) else 0.0
        return np.where(counts > 0, sums / np.maximum(counts, 1), of_all)


def group_classes(enough: Floats, difficulty: Floats) -> tuple[int, ...]:
    """The group of each class: of its own where it can expect all that is needed, a share of 1.

    The others are taken in the order of their difficulty until a group has a share of 1. If all of them
    together have not, they are group 0, and there is no other group 0.

    >>> group_classes(np.array([50, 30, 60, 7, 25]) / 30, np.array([0.1, 0.9, 0.2, 0.1, 0.5]))
    (1, 2, 3, 4, 4)
    >>> group_classes(np.array([50, 3]) / 30, np.zeros(2))
    (1, 0)
    """
    found = np.zeros(len(enough), dtype=np.int64)
    own = np.flatnonzero(enough >= 1)
    found[own] = np.arange(1, len(own) + 1)
    rare = [place for place in np.argsort(difficulty, kind="stable") if enough[place] < 1]
    last = number = len(own) + 1
    share = 0.0
    for place in rare:
        found[place] = number
        share += enough[place]
        if share >= 1 - 1e-9:
            last, number, share = number, number + 1, 0.0
    found[found == number] = last if number > last else 0  # the rest joins the most difficult group
    return tuple(found.tolist())


def decide(choice: Choice | None, held_out: HeldOut, alpha: float, beta: float) -> Gate:
    """The gate of a choice; its promise says what holds, and what could not be promised with how many rows.

    Args:
        choice: What was given as `decisions`.
        held_out: The rows that promises rest on.
        alpha: Of the inputs of the domain, at most so many are called "not my domain".
        beta: Of the others that are answered correctly, at most so many are "ask", unless a rule says else.

    Raises:
        GateError: If a choice cannot be kept on these rows, or, without a choice, nothing can be promised.
        LabelError: If thresholds are of classes that there are not.
    """
    if isinstance(choice, Costs):
        return _of_costs(choice, held_out)
    if isinstance(choice, Thresholds):
        return _by_hand(choice, held_out, alpha)
    of_class = (0,) * len(held_out.classes)
    if not isinstance(choice, PerClass):
        return _by_groups(choice or FalseRejection(beta), held_out, alpha, of_class, lenient=choice is None)
    rule = choice.rule or FalseRejection(beta)
    needed, right = rows_for(alpha), -(-rule.fewest_rows * 10 // 9)  # nine of ten are familiar
    if not isinstance(rule, FalseRejection):  # not about right answers
        needed, right = max(needed, right), 0
    of_class = held_out.groups_of_predicted(needed, right)
    gate = _by_groups(rule, held_out, alpha, of_class)
    if len(set(of_class)) > 1:
        return gate
    none = (
        f"no predicted class has rows enough for promises of its own, which take about {max(needed, right)}"
    )
    return replace(gate, promise=f"{gate.promise}; {none}")


def _by_groups(
    rule: Rule, held_out: HeldOut, alpha: float, of_class: tuple[int, ...], lenient: bool = False
) -> Gate:
    """A bar by familiarity and one by entropy, both with a threshold for each group of predicted classes."""
    prediction = held_out.prediction
    probabilities, truth = check_predictions(prediction.probabilities, held_out.labels)
    predicted = probabilities.argmax(1)
    of_row = np.array(of_class)[predicted]
    groups = [np.asarray(of_row == group) for group in range(max(of_class) + 1)]
    each = ", for each predicted class" if len(set(of_class)) > 1 else ""
    bars: list[Bar] = []
    promises: list[str] = []
    alone: set[int] = set()
    familiar = np.ones(len(truth), dtype=bool)
    if prediction.domain is not None:
        unfamiliarity = plain(prediction.unfamiliarity).astype(np.float64)
        found, familiar, said, alone = _familiarity_bar(unfamiliarity, alpha, groups, of_class)
        bars += [found] if found is not None else []
        promises.append(said)
    if bars and isinstance(rule, Coverage) and rule.share > 1 - alpha + 1e-9:
        raise GateError(
            f'{_percent(alpha)} of the inputs may be "{NOT_MY_DOMAIN}", so {_percent(rule.share)} cannot be '
            f"accepted: ask for {_percent(1 - alpha)} or less, or for a lower alpha."
        )
    try:
        entropy = plain(prediction.entropy).astype(np.float64)
        bar, more = _entropy_bar(rule, entropy, predicted != truth, familiar, groups, of_class)
    except GateError as reason:
        if not lenient:
            raise
        promises.append(f'"{ASK}" has no promise: {reason}')
        if not bars:
            raise GateError("; ".join(promises)) from reason
        return _gate(bars, promises, held_out)
    if isinstance(rule, FalseRejection):
        of = "the others that are" if bars else "the inputs"
        promises.append(f'at most {_percent(rule.rate)} of {of} answered correctly are "{ASK}"{each}')
    else:
        promises.append(rule.promise + each)
    nothing = "always asked about" if isinstance(rule, Risk) else "decided by the thresholds of all rows"
    promises += exceptions(of_class, alone | more, held_out.classes, nothing)
    return _gate([*bars, bar], promises, held_out)


def _percent(rate: float) -> str:
    return f"{100 * rate:.3g}%"


def _familiarity_bar(
    unfamiliarity: Floats, alpha: float, groups: Sequence[Flags], of_class: tuple[int, ...]
) -> tuple[Bar | None, Flags, str, set[int]]:
    """The bar, the rows that are familiar, what is promised, and the groups that it is not promised to."""
    fewest = math.ceil(1 / alpha - 1e-9) - 1
    if len(unfamiliarity) < fewest:
        said = f'"{NOT_MY_DOMAIN}" at {_percent(alpha)} cannot be promised: it takes {fewest} rows'
        return None, np.ones(len(unfamiliarity), bool), f"{said}, not {len(unfamiliarity)}", set()
    if len(set(of_class)) == 1:
        bar = Bar(FAMILIARITY, alpha, NOT_MY_DOMAIN)
        said = f'at most {_percent(alpha)} of inputs like the held-out ones are "{NOT_MY_DOMAIN}"'
        return bar, ~most_unfamiliar(unfamiliarity, alpha), said, set()
    pooled = conformal_quantile(unfamiliarity, 1 - alpha, "rows")
    familiar = unfamiliarity <= pooled
    alone: set[int] = set()
    limits = []
    for number, rows in enumerate(groups):
        if rows.sum() >= fewest:
            limits.append(conformal_quantile(unfamiliarity[rows], 1 - alpha, "rows"))
            familiar[rows] = ~most_unfamiliar(unfamiliarity[rows], alpha)
        else:
            limits.append(pooled)
            alone.add(number)
    said = f'at most {_percent(alpha)} of inputs of each predicted class are "{NOT_MY_DOMAIN}"'
    by_class = tuple(limits[group] for group in of_class)
    return Bar(UNFAMILIARITY, pooled, NOT_MY_DOMAIN, by_class), familiar, said, alone


def _entropy_bar(
    rule: Rule,
    entropy: Floats,
    wrong: Flags,
    familiar: Flags,
    groups: Sequence[Flags],
    of_class: tuple[int, ...],
) -> tuple[Bar, set[int]]:
    """The bar, and the groups that it promises nothing to."""

    def threshold(rows: Flags) -> float:
        if isinstance(rule, Coverage):  # of all inputs; those that are not my domain are not accepted
            return rule.threshold(np.where(familiar, entropy, np.inf)[rows], wrong[rows])
        return rule.threshold(entropy[rows & familiar], wrong[rows & familiar])

    everything = np.ones_like(familiar)
    if len(set(of_class)) == 1:
        right = int((familiar & ~wrong).sum())
        if isinstance(rule, FalseRejection) and right < rule.fewest_rows:
            raise GateError(
                f"a rate of {rule.rate:.3g} takes {rule.fewest_rows} correct answers, and there are {right}. "
                "Hold out more rows, or allow a higher rate."
            )
        return Bar("entropy", threshold(everything), ASK), set()
    asks = isinstance(rule, Risk)  # where nothing can be promised
    pooled = _ALWAYS_ASK if asks else threshold(everything)
    limits, alone = [], set()
    for number, rows in enumerate(groups):
        try:
            limits.append(threshold(rows))
        except GateError as error:
            limits.append(pooled)
            alone.add(number)
            reason = error
    if asks and len(alone) == len(limits):
        raise GateError(f"of no predicted class can this be promised. Of the last: {reason}")
    return Bar("entropy", pooled, ASK, tuple(limits[group] for group in of_class)), alone


def most_unfamiliar(statistic: Floats, alpha: float) -> Flags:
    """Rows of which at most α (n + 1) are as unfamiliar as themselves."""
    ranked = np.sort(statistic)
    as_large = len(ranked) - np.searchsorted(ranked, statistic, side="left")
    found: Flags = as_large <= alpha * (len(ranked) + 1) + 1e-9
    return found


def exceptions(
    of_class: Sequence[int], alone: Collection[int], names: Sequence[Any], nothing: str
) -> list[str]:
    """Which classes are promised something together only, and which nothing."""
    members: dict[int, list[Any]] = {}
    for name, group in zip(names, of_class, strict=True):
        members.setdefault(group, []).append(name)
    if len(members) == 1:
        return []
    together = [names for group, names in members.items() if len(names) > 1 and group not in alone]
    without = [name for group, names in members.items() if group in alone for name in names]
    said = []
    if together:
        shown = " | ".join(map(_listed, together[:_MOST_GROUPS]))
        more = f" and {len(together) - _MOST_GROUPS} groups more" if len(together) > _MOST_GROUPS else ""
        said.append(f"too rare for a promise of their own, and taken together: {shown}{more}")
    if without:
        said.append(f"no promise of their own, for too few rows, and {nothing}: {_listed(without)}")
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
    bars: list[Bar] = []
    promises: list[str] = []
    if held_out.prediction.domain is not None:
        unfamiliarity = plain(held_out.prediction.unfamiliarity).astype(np.float64)
        bar, _, said, _ = _familiarity_bar(unfamiliarity, alpha, [], (0,))
        bars, promises = [bar] if bar is not None else [], [said]
    limits = tuple(float(choice.by_class.get(name, choice.default)) for name in known)
    bars.append(Bar(CONFIDENCE, choice.default, ASK, limits))
    promises.append(f'"{ASK}" below thresholds given by hand, so nothing is promised of it')
    return _gate(bars, promises, held_out)


def _of_costs(costs: Costs, held_out: HeldOut) -> Gate:
    prediction = held_out.prediction
    probabilities, truth = check_predictions(prediction.probabilities, held_out.labels)
    costs.check(probabilities.shape[1])
    remembers = prediction.domain is not None and costs.miss_ood > 0
    bars = [Bar(FAMILIARITY, costs.least_familiarity, NOT_MY_DOMAIN)] if remembers else []
    bars.append(Bar(EXPECTED_COST, costs.ask, ASK))
    gate = _gate(bars, [], held_out, costs)
    accepted = gate(prediction).accepted
    expected = np.where(accepted, costs.expected(probabilities), costs.ask).mean()
    promises = [
        f"the decision of least expected cost: {expected:.4g} per input, and on {len(truth)} held-out rows "
        + costs.told(costs.answers(probabilities), accepted, truth, probabilities.shape[1])
    ]
    if remembers:
        promises.append(
            f'"{NOT_MY_DOMAIN}" at a familiarity of {costs.least_familiarity:.2g} or less, for '
            f"{costs.ood:.2g} of inputs from elsewhere at {costs.miss_ood:.4g} each"
        )
    return replace(gate, promise="; ".join(promises))


def _gate(
    bars: Sequence[Bar], promises: Sequence[str], held_out: HeldOut, costs: Costs | None = None
) -> Gate:
    prediction = held_out.prediction
    empty = HeldOutRates.of(np.zeros(0, dtype=bool), np.zeros(0, dtype=bool))
    gate = Gate(tuple(bars), "; ".join(promises), empty, prediction.sampling, costs)
    probabilities, truth = check_predictions(prediction.probabilities, held_out.labels)
    wrong = gate.answers(probabilities) != truth
    return replace(gate, on_held_out=HeldOutRates.of(gate(prediction).accepted, wrong))
