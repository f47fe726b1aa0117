"""A classifier with scikit-learn's interface around any model of the family."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from totalcal.backbones import mlp
from totalcal.errors import MissingExtraError
from totalcal.estimator.learning import (
    Checked,
    Learner,
    Rows,
    check_classes,
    checked,
    class_numbers,
    split,
)
from totalcal.files.preprocessing import Preprocessing
from totalcal.files.saved import save
from totalcal.models import model_named
from totalcal.rejection import UNCERTAINTIES, Gate, uncertainty
from totalcal.types import Batch, ContextUse, Predictive

_ROWS_AT_ONCE = 4096


class ProcessClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share; take one of its subclasses.

    Inputs are standardised inside. Everything is in float64: in float32 the last digits of a row's prediction
    depend on the rows beside it. With `patience` a share `validation_fraction` of the rows is held out, and
    training stops when their NLL has not fallen for so many epochs. `draws` of weights and memory make a
    prediction; they are the same for every row, so that a row's prediction does not depend on the others.

    Attributes: `classes_`, `model_` (the process), `preprocessing_`, `context_`, `n_iter_`.
    """

    _model_name: ClassVar[str]

    def __init__(
        self,
        hidden: Sequence[int] = (32,),
        *,
        model_arguments: Mapping[str, Any] | None = None,
        learning_rate: float = 3e-3,
        batch_size: int = 64,
        max_epochs: int = 200,
        patience: int | None = 20,
        validation_fraction: float = 0.15,
        draws: int = 10,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.model_arguments = model_arguments
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.draws = draws
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn from a table and its labels; rows of weight 0 are left out."""
        table, labels, weights = self._checked(X, y, sample_weight)
        self._prepare(table, np.unique(labels))
        rows = Rows(self._encoded(table, labels), weights)
        training, validation = split(rows, self.validation_fraction if self.patience else 0.0, self._seed)
        self._choose_context(training)
        self._learner.run(
            training,
            validation,
            self.context_,
            max_epochs=self.max_epochs,
            patience=self.patience,
            generator=self._generator(),
        )
        self.n_iter_ = self._learner.epochs
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803
        """Go on learning from more rows: one epoch of gradient steps and writes to the memory.

        The first call needs all `classes`, and takes the standardisation from its rows.
        """
        first = not hasattr(self, "model_")
        table, labels, weights = self._checked(X, y, sample_weight, reset=first)
        if first:
            self._prepare(table, np.unique(labels) if classes is None else np.unique(classes))
        rows = Rows(self._encoded(table, labels), weights)
        if first:
            self._choose_context(rows)
        self._learner.run_epoch(rows, self._generator())
        self.n_iter_ = self._learner.epochs
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The predictive probabilities, a column for each of `classes_`."""
        return np.concatenate([part.probabilities.numpy() for part in self._predictions(X)])

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def predict_distribution(self, X: Any) -> Predictive:  # noqa: N803
        """The whole predictive distribution: what a `Gate` is fitted on and asked about."""
        return Predictive.joined(list(self._predictions(X)))

    def predict_uncertainty(self, X: Any) -> Any:  # noqa: N803
        """A data frame with the entropy, the three terms of the variance, and the mutual information."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "tables", "a table of uncertainties") from error
        parts = [{name: uncertainty(part, name) for name in UNCERTAINTIES} for part in self._predictions(X)]
        return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)

    def save(
        self,
        path: str | os.PathLike[str],
        gate: Gate | None = None,
        scores: Mapping[str, float] | None = None,
    ) -> None:
        """Write the fitted model as one file for `totalcal.load` and `totalcal predict`."""
        check_is_fitted(self, "model_")
        save(
            self.model_,
            path,
            gate=gate,
            classes=self.classes_.tolist(),
            preprocessing=self.preprocessing_,
            context=self.context_,
            scores=scores,
        )

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Checked:  # noqa: N803
        table, labels = validate_data(self, X, y, dtype=np.float64, reset=reset)
        return checked(table, labels, sample_weight)

    def _prepare(self, table: npt.NDArray[np.float64], classes: npt.NDArray[Any]) -> None:
        """A fresh model for these classes, and the standardisation of this table."""
        check_classes(classes, type(self).__name__)
        self.classes_ = classes
        self.preprocessing_ = Preprocessing.fitted(table, getattr(self, "feature_names_in_", None))
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            backbone = mlp(table.shape[1], len(classes), [int(width) for width in self.hidden])
            make = model_named(self._model_name)
            model = make(backbone, len(classes), **(self.model_arguments or {}))
        self.model_ = model.double().eval()
        self._learner = Learner(self.model_, self.learning_rate, self.batch_size)

    def _choose_context(self, rows: Rows) -> None:
        """Rows that a model which cannot predict without a context carries along."""
        needed = self.model_.context_use is ContextUse.REQUIRED
        self.context_ = rows.context(self._seed) if needed else None

    def _encoded(self, table: npt.NDArray[np.float64], labels: npt.NDArray[Any]) -> Batch:
        numbers = class_numbers(labels, self.classes_)
        return Batch(self._inputs(table), torch.from_numpy(numbers))

    def _inputs(self, table: npt.NDArray[np.float64]) -> Tensor:
        return self.preprocessing_(table, torch.float64)

    def _generator(self) -> torch.Generator:
        """Every epoch of a life has draws of its own, whether it comes by `fit` or by `partial_fit`."""
        return torch.Generator().manual_seed(self._seed + self._learner.epochs)

    def _predictions(self, X: Any) -> Iterator[Predictive]:  # noqa: N803
        check_is_fitted(self, "model_")
        table = validate_data(self, X, dtype=np.float64, reset=False)
        for part in self._inputs(table).split(_ROWS_AT_ONCE):
            yield self.model_.predict_shared(part, self.draws, self.context_)
