"""A table, a model file trained on it, and a generator: what tests of several rooms share."""

import csv

import numpy as np
import pytest
from sklearn.datasets import load_iris

from totalcal.decisions import Coverage, Gate
from totalcal.estimators import ETPClassifier


@pytest.fixture
def draw():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(scope="session")
def estimator(iris):
    table, numbers = iris
    names = np.array(["setosa", "versicolor", "virginica"])[numbers]
    return ETPClassifier(max_epochs=10, learning_rate=1e-2, batch_size=16, random_state=0).fit(table, names)


@pytest.fixture(scope="session")
def model_file(estimator, iris, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "iris.totalcal"
    gate = Gate.fitted(estimator.predict_distribution(iris[0]), iris[1], Coverage(0.8))
    estimator.save(path, gate=gate, scores={"error": 0.05})
    return path


@pytest.fixture
def table(iris, tmp_path):
    iris[0].iloc[:, ::-1].to_csv(tmp_path / "iris.csv", index=False)  # columns are found by name
    return tmp_path / "iris.csv"


@pytest.fixture
def lines():
    def read(path):
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    return read
