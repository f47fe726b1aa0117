"""A classifier with scikit-learn's interface around any model of the family."""

import copy
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from totalcal.calibration.calibrator import NoCalibrator, fit_calibrator
from totalcal.data.preprocessing import Preprocessing
from totalcal.decisions import UNCERTAINTIES, Gate, uncertainty
from totalcal.errors import DomainError, InputError, MissingExtraError
from totalcal.estimators.learning import (
    CONTEXT_ROWS,
    DRAWN,
    SMALLEST_BATCH,
    Checked,
    TableTraining,
    WeightedRows,
    batch_size_for,
    check_classes,
    checked,
    device_for,
    hidden_for,
    is_large,
    learning_rate_for,
    refuse_sparse,
    split,
)
from totalcal.files.saved import Model
from totalcal.files.steps import Steps
from totalcal.memory.domain import Memorised, NoDomain
from totalcal.memory.remembering import remember as remember_domain
from totalcal.models import model_named
from totalcal.models.process import SWAPPING, Context, TuringProcess
from totalcal.nets import mlp
from totalcal.parts.sampling import stochastic_layers
from totalcal.scores.arrays import class_numbers
from totalcal.training.callbacks import ProgressBar
from totalcal.training.history import History, context_for
from totalcal.types import Batch, Draws, Predictive

FEWEST_TO_REMEMBER = 40
_ROWS_AT_ONCE = 4096
_ROWS_TO_MEASURE = 100


class ProcessClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share; take one of its subclasses.

    Inputs are standardised inside. Predictions are in float64: in float32 the last digits of a row's
    prediction depend on the rows beside it. So is training, up to 16,000 rows; larger tables train in
    float32, which is faster.

    Args:
        hidden: The widths of the net's hidden layers. "auto" takes one of 32, and of 128 from about 16,000
            rows on.
        model_arguments: What goes to the model's factory, e.g. `{"num_cells": 50}` for an ETP.
        learning_rate: Of Adam, for batches of 64; it grows with the root of an automatic batch size. Beyond
            16,000 rows it is halved when half of `patience` has passed without progress.
        batch_size: Rows per gradient step. "auto" takes 64 up to 16,000 rows, twice as many at twice the rate
            where weights are drawn, and more, at most 1024, in larger tables.
        max_epochs: How often a row is seen, at most.
        patience: Stop when the NLL of the held-out rows has not fallen for so many epochs, with the best
            epoch's model; None trains for all of `max_epochs` on all rows.
        validation_fraction: The share of rows that `patience` holds out.
        class_weight: A weight for each class, or "balanced" for equal shares; multiplies `sample_weight`.
        remember: Whether to keep a memory of the domain, for `predict_familiarity`. Half of the held-out rows
            calibrate it and have no say in when to stop, so that they are as new to it as the rows to come;
            where half is fewer than 40 rows, there is no memory, and all of them serve `patience`.
        calibrate: Whether a temperature and a bias per class are fitted to the rows that `patience` holds
            out, as far as cross-validation finds them worth it.
        draws: How many draws of weights and memory make a prediction; "moments" needs none. "auto" takes
            what `fit` measured to be better (`TuringProcess.measure_default_draws`). They are the same for
            every row, so that a row's prediction does not depend on the others.
        device: Where `fit` trains, e.g. "cuda". Predictions are made on the CPU, the same on every machine.
        verbose: Whether to show a progress bar, and a line per epoch, on the standard error stream.
        random_state: A seed or a generator of NumPy.

    Attributes:
        classes_ (npt.NDArray[Any]): The labels, sorted.
        model_ (TuringProcess): The fitted process.
        preprocessing_ (Preprocessing): The standardisation of the columns.
        context_ (Batch | None): The rows that a model which cannot predict without a context carries along.
        n_iter_ (int): How many epochs were trained.
        history_ (History): A report for each of them.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from totalcal import ETPClassifier
        >>> table, labels = load_iris(return_X_y=True)
        >>> model = ETPClassifier(max_epochs=3, random_state=0).fit(table, labels)
        >>> model.predict_proba(table[:2]).shape
        (2, 3)
    """

    _model_name: ClassVar[str]
    model_: TuringProcess
    classes_: npt.NDArray[Any]
    preprocessing_: Preprocessing
    context_: Batch | None
    history_: History
    _seed: int
    _training: TableTraining

    def __init__(
        self,
        hidden: Sequence[int] | Literal["auto"] = "auto",
        *,
        model_arguments: Mapping[str, Any] | None = None,
        learning_rate: float = 3e-3,
        batch_size: int | Literal["auto"] = "auto",
        max_epochs: int = 200,
        patience: int | None = 20,
        validation_fraction: float = 0.15,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        remember: bool = True,
        calibrate: bool = True,
        draws: Draws = "auto",
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.model_arguments = model_arguments
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.remember = remember
        self.calibrate = calibrate
        self.draws = draws
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn from a table and its labels.

        Args:
            X: Rows × columns of finite numbers, an array or a data frame; not sparse.
            y: A label for each row: numbers or words.
            sample_weight: How often a row is drawn, relative to the others; rows of weight 0 are left out.

        Returns:
            The estimator itself.

        Raises:
            ValueError: If the table or the weights cannot be used.
            LabelError: If there are fewer than two classes.
            DivergenceError: If the loss or a weight ceases to be finite.

        Example:
            >>> from totalcal import BNNClassifier
            >>> BNNClassifier(max_epochs=1).fit([[0.0], [1.0]] * 9, ["no", "yes"] * 9).classes_.tolist()
            ['no', 'yes']
        """
        table, labels, weights = self._checked(X, y, sample_weight)
        self._prepare(table, np.unique(labels))
        rows = WeightedRows(self._encoded(table, labels), weights)
        training, validation = split(rows, self.validation_fraction if self.patience else 0.0, self._seed)
        stopping, calibration = self._shared_out(validation)
        self._choose_context(training)
        self._training.run(
            training,
            stopping,
            self.context_,
            max_epochs=self.max_epochs,
            patience=self.patience,
            generator=self._generator(),
            callbacks=[ProgressBar()] if self.verbose else [],
        )
        self.model_.measure_default_draws(training.data.inputs[:_ROWS_TO_MEASURE], self.context_)
        if self.calibrate and validation is not None:
            self._calibrate(validation)
        if calibration is not None:
            remember_domain(self.model_, training.data, calibration.data, progress=False)
        self.n_iter_, self.history_ = self._training.trainer.epoch, self._training.trainer.history
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803
        """Go on learning from more rows: one epoch of gradient steps and writes to the memory.

        A memory of the domain and a calibrator end here: they know the net as it was.

        Args:
            X: Rows × columns. Standardisation and batch size are those of the first call's rows.
            y: One class per row.
            classes: All classes; the first call needs them, if its rows do not have them all.
            sample_weight: One weight per row.

        Returns:
            The estimator.

        Raises:
            InputError: If class_weight is "balanced", which needs to see all rows.
            ValueError: If the table cannot be used.

        Example:
            >>> from totalcal import SoftmaxClassifier
            >>> SoftmaxClassifier().partial_fit([[0.0], [1.0]], ["no", "yes"]).n_iter_
            1
        """
        if self.class_weight == "balanced":
            raise InputError(
                'class_weight="balanced" needs to see all rows, and partial_fit sees some. '
                "Give a weight per class."
            )
        first = not hasattr(self, "model_")
        table, labels, weights = self._checked(X, y, sample_weight, reset=first)
        if first:
            self._prepare(table, np.unique(labels) if classes is None else np.unique(classes))
        rows = WeightedRows(self._encoded(table, labels), weights)
        if first:
            self._choose_context(rows)
        self.model_.set_domain(NoDomain())
        self.model_.calibrator = NoCalibrator()
        self._training.run_epoch(rows, self._generator())
        self.n_iter_, self.history_ = self._training.trainer.epoch, self._training.trainer.history
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The predictive probabilities.

        Args:
            X: Rows × columns, as in `fit`.

        Returns:
            Rows × classes, in the order of `classes_`.

        Raises:
            NotFittedError: If `fit` has not been called.
            ValueError: If the table cannot be used.

        Example:
            >>> from totalcal import BNNClassifier
            >>> model = BNNClassifier(max_epochs=1).fit([[0.0], [1.0]] * 9, ["no", "yes"] * 9)
            >>> model.predict_proba([[0.5]]).shape
            (1, 2)
        """
        return np.concatenate([part.probabilities.numpy() for part in self._predictions(X)])

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The most probable class of each row."""
        check_is_fitted(self, "model_")
        with SWAPPING:
            names, model = self.classes_, self.model_.snapshot()
        places = [part.probabilities.argmax(1).numpy() for part in self._predictions(X, model=model)]
        return np.asarray(names[np.concatenate(places)])

    def predict_distribution(
        self,
        X: Any,  # noqa: N803
        *,
        draws: Draws = "auto",
        seed: int = 0,
        context: Context | None = None,
    ) -> Predictive:
        """The whole predictive distribution: what a `Gate` is fitted on and asked about.

        Args:
            X: Rows × columns, as in `fit`.
            draws: As in `TuringProcess.predict`; "auto" are those of the estimator.
            seed: As in `TuringProcess.predict`.
            context: As in `TuringProcess.predict`, standardised; in the place of the estimator's own.

        Returns:
            As `TuringProcess.predict`.

        Raises:
            NotFittedError, ValueError: As in `predict_proba`.

        Example:
            >>> from totalcal import BNNClassifier
            >>> model = BNNClassifier(max_epochs=1, random_state=0).fit([[0.0], [1.0]] * 9, [0, 1] * 9)
            >>> model.predict_distribution([[0.5]]).sampling.draws
            'moments'
        """
        return Predictive.joined(list(self._predictions(X, draws, seed, context)))

    def predict_uncertainty(self, X: Any) -> Any:  # noqa: N803
        """The uncertainties of each row, side by side.

        Args:
            X: Rows × columns, as in `fit`.

        Returns:
            A data frame with the entropy, the three terms of the variance, and the mutual information.

        Raises:
            MissingExtraError: If pandas is not installed.
            NotFittedError, ValueError: As in `predict_proba`.

        Example:
            >>> from totalcal import BNNClassifier
            >>> model = BNNClassifier(max_epochs=1).fit([[0.0], [1.0]] * 9, ["no", "yes"] * 9)
            >>> "entropy" in model.predict_uncertainty([[0.5]]).columns
            True
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "tables", "a table of uncertainties") from error
        parts = [{name: uncertainty(part, name) for name in UNCERTAINTIES} for part in self._predictions(X)]
        return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)

    def predict_familiarity(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """How familiar each row is: a conformal p-value in (0, 1], low for rows of another domain.

        Of rows drawn as those of `fit`, at most a share a has a familiarity ≤ a, for every a.

        Args:
            X: Rows × columns, as in `fit`.

        Returns:
            One number per row.

        Raises:
            DomainError: If there is no memory: too few rows were held out, or it was not asked for.
            NotFittedError, ValueError: As in `predict_proba`.

        Example:
            >>> from totalcal import BNNClassifier
            >>> rows = np.linspace(0, 1, 600)[:, None]
            >>> model = BNNClassifier(max_epochs=1, random_state=0).fit(rows, rows[:, 0] > 0.5)
            >>> bool(0 < model.predict_familiarity([[0.5]])[0] <= 1)
            True
        """
        parts = list(self._predictions(X))
        if isinstance(self.model_.domain, NoDomain):
            raise DomainError(
                "this estimator has no memory of its domain, so it cannot say how familiar a row is. `fit` "
                "keeps one with remember=True, where `patience` is set and half of the rows it holds out are "
                f"{FEWEST_TO_REMEMBER} or more: give it {self._enough_rows()} rows, or raise "
                "validation_fraction."
            )
        return np.concatenate([part.familiarity.numpy() for part in parts])

    def memorise(self, X: Any, y: Any, name: str | None = None) -> Memorised:  # noqa: N803
        """Learn from a few labelled rows, without training: new classes, or known ones in a new domain.

        Args:
            X: Rows × columns, as in `fit`.
            y: One class per row; those that are new follow in `classes_`.
            name: What `forget` drops them by.

        Returns:
            What was learned and what is promised of it; print it.

        Raises:
            DomainError: If there is no memory, as for `predict_familiarity`.
            InputError: As for `Model.memorise`; the estimator is as it was.
            NotFittedError, ValueError: As in `predict_proba`.

        Example:
            >>> from totalcal import SoftmaxClassifier
            >>> rows = np.random.default_rng(0).normal(size=(600, 2)) + [[0, 0], [6, 0]] * 300
            >>> model = SoftmaxClassifier(max_epochs=5, random_state=0).fit(rows, ["a", "b"] * 300)
            >>> learned = model.memorise(rows[:60] + [0, 9], ["c"] * 60)
            >>> model.predict(rows[:1] + [0, 9]), model.classes_
            (array(['c'], dtype='<U1'), array(['a', 'b', 'c'], dtype='<U1'))
        """
        check_is_fitted(self, "model_")
        table, labels = validate_data(self, X, y, dtype=np.float64, reset=False)
        model = Model(self.model_, classes=tuple(self.classes_.tolist()), preprocessing=self.preprocessing_)

        def rename() -> None:
            self.classes_ = np.asarray(model.classes)

        return model.memorise(table, labels, name, then=rename)

    def forget(self, name: str) -> None:
        """Drop what was memorised under a name."""
        check_is_fitted(self, "model_")

        def rename(gone: tuple[int, ...]) -> None:
            self.classes_ = np.delete(self.classes_, gone)

        self.model_.forget(name, then=rename)

    def save(
        self,
        path: str | os.PathLike[str],
        gate: Gate | None = None,
        scores: Mapping[str, float] | None = None,
        *,
        steps: Steps | None = None,
    ) -> None:
        """Write the fitted model as one file for `totalcal.load` and `totalcal predict`.

        A whole pipeline is saved by `totalcal.Pipeline.save`, which hands its `steps` over.
        """
        replace(self.as_model(), gate=gate, scores=scores, steps=steps).save(path)

    def as_model(self) -> Model:
        """The fitted model with its classes and its standardisation, as `totalcal.load` would give it."""
        check_is_fitted(self, "model_")
        with SWAPPING:
            names, model = tuple(self.classes_.tolist()), self.model_.snapshot()
        return Model(
            copy.deepcopy(model),
            classes=names,
            preprocessing=self.preprocessing_,
            context=self.context_,
        )

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> Checked:  # noqa: N803
        refuse_sparse(X)
        table, labels = validate_data(self, X, y, dtype=np.float64, reset=reset)
        return checked(table, labels, sample_weight, self.class_weight)

    def _prepare(self, table: npt.NDArray[np.float64], classes: npt.NDArray[Any]) -> None:
        """A fresh model for these classes, and the standardisation of this table."""
        check_classes(classes, type(self).__name__)
        self.classes_ = classes
        self.preprocessing_ = Preprocessing.fitted(table, getattr(self, "feature_names_in_", None))
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            backbone = mlp(table.shape[1], len(classes), hidden_for(len(table), self.hidden))
            make = model_named(self._model_name)
            model = make(backbone, len(classes), **(self.model_arguments or {}))
        self.model_ = model.double().eval()
        batch_size, rate = batch_size_for(len(table), self.batch_size), self.learning_rate
        if self.batch_size == "auto":
            rate = learning_rate_for(rate, batch_size)
            if batch_size == SMALLEST_BATCH and stochastic_layers(self.model_.backbone):
                batch_size, rate = DRAWN * batch_size, DRAWN * rate
        self._training = TableTraining(
            self.model_, rate, batch_size, device_for(self.device), large=is_large(len(table))
        )

    def _shared_out(self, held_out: WeightedRows | None) -> tuple[WeightedRows | None, WeightedRows | None]:
        """Held-out rows for stopping, and others for the memory; None of these where they are too few."""
        if not self.remember or held_out is None or len(held_out.data.labels) < 2 * FEWEST_TO_REMEMBER:
            return held_out, None
        return split(held_out, 0.5, self._seed)

    def _calibrate(self, held_out: WeightedRows) -> None:
        """The calibrator that cross-validation chooses on held-out rows."""
        parts = held_out.data.inputs.split(_ROWS_AT_ONCE)
        raw = Predictive.joined(
            [self.model_.predict(part, draws=self.draws, context=self.context_) for part in parts]
        )
        found = fit_calibrator(
            raw.belief.log_mean, held_out.data.labels, weights=held_out.weights, seed=self._seed
        )
        self.model_.calibrator = found.calibrator

    def _enough_rows(self) -> int:
        return math.ceil(2 * FEWEST_TO_REMEMBER / self.validation_fraction)

    def _choose_context(self, rows: WeightedRows) -> None:
        """Rows that a model which cannot predict without a context carries along, drawn by their weights."""
        generator = torch.Generator().manual_seed(self._seed)
        self.context_ = context_for(self.model_, rows.source, CONTEXT_ROWS, generator)

    def _encoded(self, table: npt.NDArray[np.float64], labels: npt.NDArray[Any]) -> Batch:
        numbers = class_numbers(labels, self.classes_.tolist())
        return Batch(self._inputs(table), torch.from_numpy(numbers))

    def _inputs(self, table: npt.NDArray[np.float64]) -> Tensor:
        return self.preprocessing_(table, torch.float64)

    def _generator(self) -> torch.Generator:
        """Every epoch of a life has draws of its own, whether it comes by `fit` or by `partial_fit`."""
        return torch.Generator().manual_seed(self._seed + self._training.trainer.epoch)

    def _predictions(
        self,
        X: Any,  # noqa: N803
        draws: Draws = "auto",
        seed: int = 0,
        context: Context | None = None,
        model: TuringProcess | None = None,
    ) -> Iterator[Predictive]:
        check_is_fitted(self, "model_")
        refuse_sparse(X)
        table = validate_data(self, X, dtype=np.float64, reset=False)
        model = self.model_.snapshot() if model is None else model  # all parts are of one memory
        for part in self._inputs(table).split(_ROWS_AT_ONCE):
            yield model.predict(
                part,
                draws=self.draws if draws == "auto" else draws,
                seed=seed,
                context=self.context_ if context is None else context,
            )
