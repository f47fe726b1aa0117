"""A pipeline of scikit-learn that ends in one of our classifiers, with all that the classifier can say."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import pipeline
from sklearn.utils.validation import check_is_fitted

from totalcal.decisions import Gate
from totalcal.errors import InputError
from totalcal.estimators.classifier import ProcessClassifier
from totalcal.files.saved import Model
from totalcal.files.steps import InputColumn, Steps, columns_of
from totalcal.memory.domain import Memorised
from totalcal.models.process import Context
from totalcal.types import Draws, Predictive


class Pipeline(pipeline.Pipeline):  # type: ignore[misc]
    """scikit-learn's `Pipeline`, whose last step is one of our classifiers: raw columns in, all answers out.

    Clones, searches and cross-validation take it as they take scikit-learn's own. One that is fitted already
    becomes ours by its steps, `Pipeline(other.steps)`. Gates take either: `Gate.fit(pipeline, rows, labels)`.

    Args:
        steps: Pairs of a name and a transformer; the last one is a classifier of this package.
        transform_input: As in scikit-learn.
        memory: As in scikit-learn.
        verbose: As in scikit-learn.

    Attributes:
        columns_: The columns of the data frame that it was fitted on, and what stands in them, or None.

    Example:
        >>> import pandas as pd
        >>> from sklearn.preprocessing import OneHotEncoder
        >>> from totalcal import ETPClassifier
        >>> table = pd.DataFrame({"colour": ["red", "blue"] * 20})
        >>> words, etp = OneHotEncoder(sparse_output=False), ETPClassifier(max_epochs=2)
        >>> model = Pipeline([("words", words), ("etp", etp)])
        >>> model.fit(table, ["stop", "go"] * 20).predict_uncertainty(table).shape[0]
        40
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:  # noqa: N803
        """Fit the transformers and the classifier, and note the columns of a data frame."""
        super().fit(X, y, **params)
        self.columns_ = columns_of(X)
        return self

    def predict_distribution(
        self,
        X: Any,  # noqa: N803
        *,
        draws: Draws = "auto",
        seed: int = 0,
        context: Context | None = None,
    ) -> Predictive:
        """The whole predictive distribution, as `ETPClassifier.predict_distribution` gives it."""
        rows = self._prepared(X)
        return self._classifier.predict_distribution(rows, draws=draws, seed=seed, context=context)

    def predict_uncertainty(self, X: Any) -> Any:  # noqa: N803
        """A data frame with the entropy, the three terms of the variance, and the mutual information."""
        return self._classifier.predict_uncertainty(self._prepared(X))

    def memorise(self, X: Any, y: Any, name: str | None = None) -> Memorised:  # noqa: N803
        """Learn from a few labelled rows, as the last step does (`ProcessClassifier.memorise`)."""
        return self._classifier.memorise(self._prepared(X), y, name)

    def forget(self, name: str) -> None:
        """Drop what was memorised under a name."""
        self._classifier.forget(name)

    def predict_familiarity(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """How familiar each row is: a conformal p-value in (0, 1], low for rows of another domain."""
        return self._classifier.predict_familiarity(self._prepared(X))

    def save(
        self,
        path: str | os.PathLike[str],
        gate: Gate | None = None,
        scores: Mapping[str, float] | None = None,
        *,
        example: Any = None,
    ) -> None:
        """Write steps and classifier as one file without pickle, for `totalcal.load` and `totalcal predict`.

        Args:
            path: Where to.
            gate: Fitted on this pipeline.
            scores: Of held-out data.
            example: Some rows of the data frame that it was fitted on; needed only where it was fitted as
                scikit-learn's own, to know which columns hold words.

        Raises:
            InputError: If a step is not scikit-learn's own, since files hold no code.
            MissingExtraError: Without skops (extra `tables`).
        """
        self._classifier.save(path, gate, scores, steps=self._steps(example))

    def as_model(self) -> Model:
        """The fitted model with its steps, its classes and its standardisation."""
        return replace(self._classifier.as_model(), steps=self._steps())

    def _steps(self, example: Any = None) -> Steps:
        check_is_fitted(self)
        known: tuple[InputColumn, ...] | None = getattr(self, "columns_", None)
        return Steps(pipeline.Pipeline(self.steps[:-1]), known if example is None else columns_of(example))

    @property
    def _classifier(self) -> ProcessClassifier:
        classifier = self.steps[-1][1]
        if not isinstance(classifier, ProcessClassifier):
            raise InputError(
                f"the last step is a {type(classifier).__name__}, which has no such answer. End the pipeline "
                "with a classifier of totalcal, such as ETPClassifier."
            )
        return classifier

    def _prepared(self, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self)
        return self[:-1].transform(X)
