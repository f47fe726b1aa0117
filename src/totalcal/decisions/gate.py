"""The gate: accepts or rejects predictions, says why, and what its thresholds cost on held-out data.

A threshold keeps its promise for new rows whose scores come about as those of the held-out rows did: by the
same function of a row. Ten draws in the place of five are another function. So a gate knows the `Sampling` of
its predictions, asks for the same again (`predict`, `decide`), and refuses any other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from totalcal.decisions.costs import Costs
from totalcal.decisions.rules import FalseRejection, Flags, Rule, is_accepted
from totalcal.errors import GateError, InputError
from totalcal.scores.arrays import (
    Floats,
    Integers,
    Values,
    check_predictions,
    class_names,
    class_numbers,
    plain,
)
from totalcal.scores.external import distribution_of, eval_mode, takes_draws
from totalcal.scores.streaming import Rows, labelled_blocks, numbered
from totalcal.types import BY_MOMENTS, DETERMINISTIC, Draws, Predictive, Sampling
from totalcal.uncertainties import (
    CONFIDENCE,
    EXPECTED_COST,
    FAMILIARITY,
    P_VALUES,
    UNFAMILIARITY,
    how_unlike,
    uncertainty,
    why_rejected,
)

ACCEPT, ASK, NOT_MY_DOMAIN = "accept", "ask", "not my domain"

_MOST_DRAWS = 100_000  # what a file may ask for


@dataclass(frozen=True)
class Bar:
    """Rejects where a score is above a threshold, or a familiarity or a confidence too low, with a verdict.

    Where thresholds are given `by_class`, the one of the predicted class holds; `threshold` is that of all
    others, such as classes that were memorised later.
    """

    score: str
    threshold: float
    verdict: str
    by_class: tuple[float, ...] | None = None

    def thresholds(self, predicted: Integers) -> Floats:
        """That of each row, by the class predicted for it."""
        if self.by_class is None:
            return np.full(len(predicted), self.threshold)
        known = np.array(self.by_class)
        places = np.minimum(predicted, len(known) - 1)
        return np.where(predicted < len(known), known[places], self.threshold)

    def rejects(self, values: Floats, predicted: Integers) -> Flags:
        limits = self.thresholds(predicted)
        if self.score in P_VALUES:
            return np.asarray(values <= limits)
        if self.score == CONFIDENCE:
            return np.asarray(values < limits)
        return ~is_accepted(values, limits)

    def __str__(self) -> str:
        side = "at most" if self.score in P_VALUES else "below" if self.score == CONFIDENCE else "above"
        limit = f"{self.threshold:.4g}"
        if self.by_class is not None:
            limit = f"{min(self.by_class):.4g} to {max(self.by_class):.4g}, by predicted class"
        return f"{self.score} {side} {limit}: {self.verdict}"

    def why(self, value: float, predicted: int) -> str:
        return why_rejected(self.score, value, float(self.thresholds(np.array([predicted]))[0]))

    def as_json(self) -> dict[str, Any]:
        """Plain values: a bar that nothing passes over has no threshold there."""
        by_class = None if self.by_class is None else [_finite(each) for each in self.by_class]
        return asdict(self) | {"threshold": _finite(self.threshold), "by_class": by_class}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The bar that `as_json` described."""
        by_class = content["by_class"]
        limits = None if by_class is None else tuple(map(_limit, by_class))
        if limits == ():
            raise InputError("bars by class have one class or more, but there is none.")
        return cls(content["score"], _limit(content["threshold"]), content["verdict"], limits)


def _finite(threshold: float) -> float | None:
    return None if math.isinf(threshold) else threshold


def _limit(threshold: float | None) -> float:
    return math.inf if threshold is None else float(threshold)


@dataclass(frozen=True)
class HeldOutRates:
    """What a gate did to the held-out rows; a rate of nothing is 0."""

    rows: int
    coverage: float
    error_before: float
    error_after: float
    right_rejected: float
    wrong_rejected: float

    @classmethod
    def of(cls, accepted: Flags, wrong: Flags) -> Self:
        return cls(
            rows=len(accepted),
            coverage=_share(accepted),
            error_before=_share(wrong),
            error_after=_share(wrong[accepted]),
            right_rejected=_share(~accepted[~wrong]),
            wrong_rejected=_share(~accepted[wrong]),
        )

    def __str__(self) -> str:
        return (
            f"on {self.rows} held-out rows it accepts {self.coverage:.1%}; the error falls from "
            f"{self.error_before:.2%} to {self.error_after:.2%}; it rejects {self.right_rejected:.1%} of the "
            f"right and {self.wrong_rejected:.1%} of the wrong answers"
        )


class Decisions(NamedTuple):
    """One entry per row: accepted or not, the verdict in a word, and the reason (empty where accepted)."""

    accepted: Flags
    verdicts: list[str]
    reasons: list[str]


@dataclass(frozen=True)
class Gate:
    """Accepts or rejects predictions: bars in order of precedence, and what they promise.

    Attributes:
        bars: A score, a threshold and a verdict each; the first that rejects a row gives its verdict.
        promise: What holds for new rows, in words.
        on_held_out: What the bars did to the held-out rows.
        sampling: How the scores of the held-out rows came about.
        costs: What mistakes and questions cost, where these decide.

    Example:
        >>> import torch
        >>> from totalcal.scores import from_module
        >>> net, rows = torch.nn.Linear(4, 3), torch.randn(50, 4)
        >>> gate = Gate.fit(from_module(net, "logits"), rows, net(rows).argmax(1))
        >>> [bar.score for bar in gate.bars]
        ['entropy']
    """

    bars: tuple[Bar, ...]
    promise: str
    on_held_out: HeldOutRates
    sampling: Sampling = DETERMINISTIC
    costs: Costs | None = None

    @classmethod
    def fit(
        cls,
        model: Any,
        held_out: Rows,
        labels: Any = None,
        *,
        rule: Rule | float | None = None,
        score: str = "entropy",
        draws: Draws = "auto",
        seed: int = 0,
        batch_size: int = 256,
    ) -> Self:
        """A gate for a model, from held-out rows that it was not trained on.

        Args:
            model: A process, a saved model, an estimator, a baseline, or any external predictor. Nets are in
                eval mode meanwhile.
            held_out: Rows as `evaluate` takes them; with labels in them, or given apart.
            labels: The labels, where `held_out` has none: class numbers, or names where the model has names.
            rule: The promise; a number is a rate of `FalseRejection`, 0.05 if not given.
            score: The uncertainty to look at; familiarity is a rank of the unfamiliarity, and stands for it.
                The gates of `calibrate` look at two: familiarity, and entropy among what is familiar.
            draws: Draws of weights and memory per prediction, the same for all rows; 0 uses means, "moments"
                none. Those that the model takes by itself if not given.
            seed: What these draws are a function of.
            batch_size: Rows at a time.

        Returns:
            The gate. `gate.decide(model, inputs)` decides about new rows.

        Raises:
            GateError: If the held-out rows cannot carry the promise, or a score tells none of them apart.
            InputError: If the held-out set is empty or has no labels, or the model has its own draws.

        Example:
            >>> import torch
            >>> from totalcal.scores import from_module
            >>> net, rows = torch.nn.Linear(4, 3), torch.randn(50, 4)
            >>> gate = Gate.fit(from_module(net, "logits"), rows, net(rows).argmax(1))
            >>> gate.on_held_out.coverage >= 0.9
            True
        """
        paired = numbered(held_out if labels is None else (held_out, labels), class_names(model))
        takes_tables = distribution_of(model) is not None
        parts, truths = [], []
        with eval_mode(model):
            for inputs, truth in [paired] if takes_tables else labelled_blocks(paired, batch_size):
                if truth is None:
                    raise InputError(
                        "a gate is fitted on labels, and the held-out set has none. Give Gate.fit(model, "
                        "inputs, labels), or batches of (inputs, labels)."
                    )
                parts.append(predict_like(model, inputs, draws, seed))
                truths.append(plain(truth))
        if not parts:
            raise InputError("the held-out set is empty; a threshold needs rows with labels.")
        found = Predictive.joined(parts)
        if draws != "auto" and found.sampling.draws not in (0, draws):
            raise InputError(
                f"{draws} draws were asked for, but the predictions of this {type(model).__name__} have "
                f"{found.sampling.draws}: that is its own setting. Set it there, and leave `draws` out."
            )
        return cls.fitted(found, np.concatenate(truths), rule, score)

    @classmethod
    def fitted(
        cls,
        prediction: Predictive,
        labels: Values,
        rule: Rule | float | None = None,
        score: str = "entropy",
        classes: Sequence[Any] | None = None,
    ) -> Self:
        """A gate from predictions of held-out rows, made before, and their labels.

        Args:
            prediction: What a model's `predict` gives, or an estimator's `predict_distribution`.
            labels: Class numbers, or names where `classes` has them.
            rule: As in `fit`.
            score: As in `fit`.
            classes: The names of the classes, in the order of the columns.

        Returns:
            The gate; its `on_held_out` says what it rejects of the held-out rows.

        Raises:
            GateError: If no threshold keeps the promise.
            LabelError: If a label is not a class.

        Example:
            >>> import torch
            >>> from totalcal import Gate, softmax
            >>> model = softmax(torch.nn.Linear(4, 3), num_classes=3)
            >>> prediction = model.predict(torch.randn(60, 4))
            >>> Gate.fitted(prediction, prediction.probabilities.argmax(1)).bars[0].score
            'entropy'
        """
        if rule is None or isinstance(rule, int | float):
            rule = FalseRejection() if rule is None else FalseRejection(rule)
        if not hasattr(rule, "threshold"):
            raise GateError(
                f"a rule is a rate, such as 0.05, or one of totalcal.decisions, as Risk(0.02), not {rule!r}."
            )
        score = UNFAMILIARITY if score == FAMILIARITY else score
        probabilities, truth = check_predictions(prediction.probabilities, class_numbers(labels, classes))
        values, predicted = uncertainty(prediction, score), probabilities.argmax(1)
        if len(values) > 1 and values.max() == values.min():
            raise GateError(
                f"the {score} is {values[0]:.4g} for all {len(values)} held-out rows, so it tells none "
                "apart. This model has no such uncertainty: use another score, such as entropy."
            )
        wrong = predicted != truth
        bar = Bar(score, rule.threshold(values, wrong), "too uncertain")
        rates = HeldOutRates.of(~bar.rejects(values, predicted), wrong)
        return cls((bar,), rule.promise, rates, prediction.sampling)

    def __call__(self, prediction: Predictive) -> Decisions:
        """What to do with each row; the first bar that rejects it gives verdict and reason.

        Raises:
            GateError: If the predictions were made with other draws than those the gate was fitted on.
        """
        if prediction.sampling != self.sampling:
            raise GateError(
                f"the gate was fitted on predictions {self.sampling}, but these were made "
                f"{prediction.sampling}: scores of other draws differ, and the promise does not hold for "
                "them. Use gate.decide(model, inputs), which makes them alike, or fit a gate on these."
            )
        rows = len(prediction.probabilities)
        verdicts, reasons = [ACCEPT] * rows, [""] * rows
        predicted = plain(prediction.probabilities).argmax(1)
        for bar in reversed(self.bars):
            values = self._values(prediction, bar.score)
            for row in np.flatnonzero(bar.rejects(values, predicted)).tolist():
                unlike = ""
                if bar.score == FAMILIARITY:
                    both = prediction.unlike_domain[row], prediction.unlike_classes[row]
                    unlike = f": {how_unlike(*map(float, both))}"
                verdicts[row], reasons[row] = bar.verdict, bar.why(values[row], predicted[row]) + unlike
        return Decisions(np.array([verdict == ACCEPT for verdict in verdicts]), verdicts, reasons)

    def _values(self, prediction: Predictive, score: str) -> Floats:
        if self.costs is None or score != EXPECTED_COST:
            return uncertainty(prediction, score)
        familiarity = None if prediction.domain is None else plain(prediction.familiarity)
        return self.costs.expected(plain(prediction.probabilities), familiarity)

    def answers(self, probabilities: Floats) -> Integers:
        """The class to answer each row with: the most probable one, or that of least expected cost."""
        if self.costs is None:
            return np.asarray(probabilities.argmax(1))
        return self.costs.answers(probabilities)

    def predict(self, model: Any, inputs: Any) -> Predictive:
        """The model's predictions, made as those that the gate was fitted on.

        Args:
            model: The one that the gate was fitted for.
            inputs: New rows.

        Returns:
            Predictions that the gate accepts.
        """
        with eval_mode(model):
            return predict_like(model, inputs, self.sampling.draws, self.sampling.seed)

    def decide(self, model: Any, inputs: Any) -> Decisions:
        """What to do with each row of inputs that the model is asked about.

        Args:
            model: The one that the gate was fitted for.
            inputs: New rows.

        Returns:
            Which rows are accepted, and for every other a verdict with its reason.

        Example:
            >>> import torch
            >>> from totalcal.scores import from_module
            >>> net, rows = torch.nn.Linear(4, 3), torch.randn(50, 4)
            >>> model = from_module(net, "logits")
            >>> len(Gate.fit(model, rows, net(rows).argmax(1)).decide(model, rows[:7]).verdicts)
            7
        """
        return self(self.predict(model, inputs))

    def __str__(self) -> str:
        rules = "; ".join(map(str, self.bars))
        fitted = f"Fitted on predictions {self.sampling}. Measured: {self.on_held_out}."
        return f"{rules}. Promise: {self.promise}. {fitted}"

    def as_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self) | {"bars": [bar.as_json() for bar in self.bars]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The gate that `as_json` described."""
        bars = map(Bar.from_json, content["bars"])
        sampling = _sampling(content["sampling"])
        costs = None if content["costs"] is None else Costs.from_json(content["costs"])
        return cls(tuple(bars), content["promise"], HeldOutRates(**content["on_held_out"]), sampling, costs)


def _sampling(content: Mapping[str, Any]) -> Sampling:
    draws, seed = content["draws"], content["seed"]
    if draws == "moments":
        return BY_MOMENTS
    whole = isinstance(draws, int) and (seed is None or isinstance(seed, int))
    if not whole or not 0 <= draws <= _MOST_DRAWS:
        raise GateError(
            f"a gate's predictions have 0 to {_MOST_DRAWS} draws, or moments, not {draws} of seed {seed}."
        )
    return Sampling(draws, seed)


def predict_like(model: Any, inputs: Any, draws: Draws, seed: int | None) -> Predictive:
    """Predictions of any model, an estimator's distribution included, with draws of a seed."""
    predict = distribution_of(model) or getattr(model, "predict", None)
    prediction = None
    if predict is not None and takes_draws(predict):
        prediction = predict(inputs, draws=draws, seed=seed or 0)
    if not isinstance(prediction, Predictive):
        raise InputError(
            f"a gate needs a model whose `predict` gives a Predictive, but got a {type(model).__name__}. "
            "Wrap it: from_module(module, kind) or from_sklearn(classifier) of totalcal.scores."
        )
    return prediction


def _share(flags: Flags) -> float:
    return float(flags.mean()) if flags.size else 0.0
