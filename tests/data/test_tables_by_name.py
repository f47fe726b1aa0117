"""Data frames and tables whose columns stand in another order, or hold what is no number."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from torch import nn
from typer.testing import CliRunner

import totalcal
from totalcal.cli import app
from totalcal.errors import InputError, NotFiniteError, ShapeError

WIDTH = "sepal width (cm)"


@pytest.fixture(scope="module", params=["estimator", "pipeline"])
def iris(request):
    """Calibrated behind named columns, and rows of its table."""
    table, numbers = load_iris(return_X_y=True, as_frame=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[numbers]
    order = np.random.default_rng(0).permutation(150)
    train, held_out = ((table.iloc[part], labels[part]) for part in (order[:80], order[80:]))
    classifier = totalcal.SoftmaxClassifier(max_epochs=60, random_state=0)
    if request.param == "pipeline":
        classifier = totalcal.Pipeline([("scale", StandardScaler()), ("softmax", classifier)])
    model = totalcal.calibrate(classifier.fit(*train), train, held_out, progress=False)
    return model, table, labels


def test_columns_are_found_by_name_in_whatever_order_they_stand(iris):
    model, table, _ = iris
    expected = model.predict(table)
    found = model.predict(table[table.columns[::-1]].assign(garden="north"))
    assert (found.labels == expected.labels).all()
    assert found.decision == expected.decision


def test_the_column_that_is_missing_or_holds_no_number_is_named(iris):
    model, table, _ = iris
    with pytest.raises(InputError, match=r"lacks the column 'sepal width"):
        model.predict(table.drop(columns=WIDTH))
    words = table.astype(object)
    words.iloc[7, 1] = "wide"
    with pytest.raises(InputError, match=r"'sepal width \(cm\)' .*'wide'.*row 7"):
        model.predict(words)


def test_what_is_missing_is_named_by_column_where_no_imputer_waits_for_it(iris):
    model, table, _ = iris
    holes = table.copy()
    holes.iloc[7, 1] = np.nan
    if model.steps is None:
        with pytest.raises(NotFiniteError, match=r"'sepal width \(cm\)' .*NaN.*row 7"):
            model.predict(holes)
    else:
        with pytest.raises(InputError, match="row 7"):
            model.predict(holes)


def test_commands_that_read_labelled_tables_find_columns_by_name_too(iris, tmp_path):
    model, table, labels = iris
    model.save(tmp_path / "it.totalcal")
    turned = table[table.columns[::-1]].assign(label=labels)
    broken = turned.astype(object)
    broken.loc[7, WIDTH] = "wide"
    told = []
    for rows in (table.assign(label=labels), turned, broken):
        rows.to_csv(tmp_path / "rows.csv", index=False)
        words = ["report", tmp_path / "it.totalcal", tmp_path / "rows.csv", "-o", tmp_path / "page.md"]
        told.append(CliRunner().invoke(app, list(map(str, words))))
    assert told[0].output == told[1].output
    assert isinstance(told[2].exception, InputError)
    assert WIDTH in str(told[2].exception)


def test_labels_of_a_table_are_a_column_of_it(iris):
    model, table, labels = iris
    frame = pd.DataFrame({"species": labels})
    assert "NLL" in model.report((table, frame)).verdict
    with pytest.raises(ShapeError, match="one class per row"):
        model.report((table, np.stack([labels, labels], 1)))


def test_what_a_search_of_scikit_learn_found_is_calibrated(iris):
    _, table, labels = iris
    search = GridSearchCV(totalcal.SoftmaxClassifier(random_state=0), {"max_epochs": [2, 40]}, cv=2)
    search.fit(table[::2], labels[::2])
    held_out = table[1::2], labels[1::2]
    found, alone = (
        totalcal.calibrate(each, (table[::2], labels[::2]), held_out, progress=False).predict(table)
        for each in (search, search.best_estimator_)
    )
    np.testing.assert_allclose(found.probabilities, alone.probabilities)


def test_a_net_is_told_how_a_data_frame_becomes_its_rows(iris):
    _, table, labels = iris
    numbers = np.unique(labels, return_inverse=True)[1]
    with pytest.raises(InputError, match="to_numpy"):
        totalcal.calibrate(nn.Linear(4, 3), (table, numbers), (table, numbers), progress=False)
