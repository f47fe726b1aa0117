"""Predictors that are not ours, judged by the same scores. What they put out is stated, never guessed.

All are judged in eval mode: in train mode BatchNorm would learn from the test set.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.errors import ContextError, InputError, ShapeError, UnknownNameError
from totalcal.inputs import Inputs, as_inputs, call, logits, parts_of, received_by
from totalcal.models.evaluating import Evaluating
from totalcal.scores.arrays import Values, check_probabilities, class_names, plain
from totalcal.types import DETERMINISTIC, Belief, Dirichlet, Draws, PointMass, Predictive, Sampling

_LEAVES = (Tensor, np.ndarray, str, bytes, int, float, complex, type, ModuleType, type(None))


@contextmanager
def eval_mode(holder: object) -> Iterator[None]:
    """Within this context every net that `holder` is or holds is in eval mode; afterwards as before.

    Whatever a predictor is made of (attributes, lists, a function's own variables) is looked through, so that
    predictors of one's own need not know about modes. Threads may be inside at once.

    >>> dropout = nn.Dropout()
    >>> with eval_mode({"net": dropout}):
    ...     dropout.training
    False
    >>> dropout.training
    True
    """
    with Evaluating(parts_of(*held_modules(holder))):
        yield


def held_modules(holder: object) -> list[nn.Module]:
    """The nets that an object is or holds, each once.

    >>> net = nn.Linear(1, 2)
    >>> held_modules([lambda inputs: net(inputs), net]) == [net]
    True
    """
    found: list[nn.Module] = []
    seen: set[int] = set()
    waiting = [holder]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _LEAVES):
            continue
        seen.add(id(thing))
        if isinstance(thing, nn.Module):
            found.append(thing)
        else:
            waiting += _parts(thing)
    return found


def _parts(thing: object) -> list[Any]:
    match thing:
        case Mapping():
            return list(thing.values())
        case list() | tuple() | set() | frozenset():
            return list(thing)
        case partial():
            return [thing.func, *thing.args, *thing.keywords.values()]
        case MethodType():
            return [thing.__self__, thing.__func__]
        case FunctionType():  # what its body takes from outside; of globals the nets alone, not a program
            variables = inspect.getclosurevars(thing)
            nets = [value for value in variables.globals.values() if isinstance(value, nn.Module)]
            return [*variables.nonlocals.values(), *nets]
    return list(vars(thing).values()) if hasattr(thing, "__dict__") else []


OutputKind = Literal["logits", "probabilities", "log_concentration", "concentration"]
"""What the numbers of external predictions are."""


def as_predictive(outputs: Values, kind: OutputKind) -> Predictive:
    """The predictive distribution of outputs, n × K or draws × n × K, of a stated kind.

    >>> as_predictive([[0.2, 0.8]], "probabilities").probabilities
    tensor([[0.2000, 0.8000]], dtype=torch.float64)
    >>> as_predictive([[1.0, 3.0]], "concentration").concentration
    tensor([4.], dtype=torch.float64)
    """
    values = torch.as_tensor(plain(outputs)).double()
    if values.dim() not in (2, 3) or values.shape[-1] < 2:
        raise ShapeError(
            f"outputs must be examples × classes or draws × examples × classes, with two classes or more, "
            f"but their shape is {tuple(values.shape)}."
        )
    if values.numel() == 0:
        raise InputError("the outputs are empty; a score needs at least one example.")
    belief = _belief(values if values.dim() == 3 else values.unsqueeze(0), kind)
    return Predictive(
        belief, Sampling(len(values)) if values.dim() == 3 and len(values) > 1 else DETERMINISTIC
    )


class ExternalPredictor:
    """Any function of inputs as a predictor; `kind` says what it returns.

    Labels are integers, or any of `classes`, the names of the outputs' columns.

    >>> uniform = ExternalPredictor(lambda inputs: torch.zeros(len(inputs), 4), "logits")
    >>> uniform.predict(torch.zeros(2, 1)).probabilities[0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
    """

    def __init__(
        self, function: Callable[[Any], Any], kind: OutputKind, classes: Sequence[Any] | None = None
    ) -> None:
        if kind not in get_args(OutputKind):
            raise UnknownNameError("kind of output", kind, get_args(OutputKind))
        self.function, self.kind = function, kind
        self.classes = None if classes is None else tuple(classes)

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Any = None
    ) -> Predictive:
        """What the function gives for these inputs, or its `logits`; it draws for itself, or not at all.

        A function that gives a `Predictive` has said all itself.

        Raises:
            ContextError: A context was given: a function takes none.
        """
        if context is not None:
            raise ContextError("a function of inputs takes no context: leave it out.")
        found = self.function(inputs)
        if isinstance(found, Predictive):
            return found
        is_array = isinstance(found, Tensor | np.ndarray | list | tuple)
        return as_predictive(found if is_array else logits(found), self.kind)


def from_arrays(kind: OutputKind) -> ExternalPredictor:
    """A predictor whose inputs are its outputs already.

    Args:
        kind: What they are: logits, probabilities, concentration or log_concentration.

    Returns:
        A predictor of inputs n × K or, with draws, n × draws × K.

    Raises:
        UnknownNameError: The kind is none of these.

    Example:
        >>> from_arrays("probabilities").predict(torch.tensor([[0.25, 0.75]])).probabilities
        tensor([[0.2500, 0.7500]], dtype=torch.float64)
    """
    return ExternalPredictor(swap_draws, kind)


def from_module(module: nn.Module, kind: OutputKind) -> ExternalPredictor:
    """Any nn.Module as a predictor: in eval mode, on its own device; its mode is put back after each call.

    Args:
        module: A net from inputs of any kind (`totalcal.inputs`) to n × K outputs, or draws × n × K, or to
            something with `logits`.
        kind: What it puts out: logits, probabilities, concentration or log_concentration.

    Returns:
        A predictor for `evaluate`, baselines and gates.

    Raises:
        UnknownNameError: The kind is none of these.

    Example:
        >>> from_module(nn.Linear(4, 3), "logits").predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """

    def outputs(inputs: Inputs) -> Tensor:
        with eval_mode(module):
            return call(module, received_by(module, as_inputs(inputs)))

    return ExternalPredictor(outputs, kind)


def from_sklearn(classifier: Any) -> ExternalPredictor:
    """Any fitted scikit-learn classifier as a predictor, also at the end of a pipeline.

    Args:
        classifier: Judged by its `predict_distribution`, as our estimators have it, or its `predict_proba`.
            Its classes may be any names.

    Returns:
        A predictor for `evaluate`, baselines and gates. Its inputs are whatever the classifier takes, data
            frames too; labels are the classifier's own classes.

    Raises:
        InputError: It is not fitted.

    Example:
        >>> from sklearn.dummy import DummyClassifier
        >>> prior = DummyClassifier().fit([[0], [1], [2], [3]], ["no", "yes", "yes", "yes"])
        >>> from_sklearn(prior).predict(torch.zeros(1, 1)).probabilities
        tensor([[0.2500, 0.7500]], dtype=torch.float64)
    """
    classes = class_names(classifier)
    if classes is None:
        raise InputError(f"this {type(classifier).__name__} has no classes_: fit it first.")
    if (distribution := distribution_of(classifier)) is not None:
        return _Distribution(distribution, classes)
    return ExternalPredictor(
        lambda inputs: classifier.predict_proba(_as_table(inputs)), "probabilities", classes
    )


class _Distribution(ExternalPredictor):
    """One of the estimators of this package, whose draws are chosen like those of its models."""

    def __init__(self, distribution: Callable[..., Predictive], classes: Sequence[Any]) -> None:
        super().__init__(distribution, "probabilities", classes)
        self.distribution = distribution

    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Any = None
    ) -> Predictive:
        return self.distribution(_as_table(inputs), draws=draws, seed=seed, context=context)


def takes_draws(predict: Callable[..., Any]) -> bool:
    """Whether a function has the signature of `Predictor.predict`."""
    try:
        inspect.signature(predict).bind(None, draws="auto", seed=0)
    except TypeError:
        return False
    return True


def distribution_of(classifier: Any) -> Callable[..., Predictive] | None:
    """The `predict_distribution` of an estimator, or of the one at the end of a scikit-learn pipeline."""
    if hasattr(classifier, "predict_distribution"):
        return cast(Callable[..., Predictive], classifier.predict_distribution)
    steps = getattr(classifier, "steps", None)
    if isinstance(steps, list) and hasattr(steps[-1][1], "predict_distribution"):
        return lambda table, **how: classifier[-1].predict_distribution(
            classifier[:-1].transform(table), **how
        )
    return None


def _as_table(inputs: Any) -> Any:
    return inputs.numpy(force=True) if isinstance(inputs, Tensor) else inputs


def swap_draws(outputs: Tensor) -> Tensor:
    """draws × n × K to n × draws × K, by which a set can be cut into blocks, and back; n × K stays."""
    return outputs.transpose(0, 1) if outputs.dim() == 3 else outputs


def _belief(values: Tensor, kind: OutputKind) -> Belief:
    if kind == "probabilities":
        check_probabilities(values.flatten(0, 1))
        return PointMass(values.log())  # −∞ where p = 0, which the softmax takes back to 0
    if not torch.isfinite(values).all():
        raise InputError(f"{kind} must be finite, but some are NaN or infinite.")
    match kind:
        case "logits":
            return PointMass(values)
        case "log_concentration":
            return Dirichlet(values)
        case "concentration":
            if (values <= 0).any():
                raise InputError(
                    f"concentrations must be above 0, but got {float(values.min()):.4g}. "
                    "If these are log-concentrations, name them so: log_concentration."
                )
            return Dirichlet(values.log())
    raise UnknownNameError("kind of output", kind, get_args(OutputKind))
