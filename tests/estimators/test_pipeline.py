"""A pipeline from raw columns to answers, and one file of it without pickle."""

import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import pipeline as sklearn_pipeline
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import totalcal
from totalcal import ETPClassifier, Gate, Pipeline
from totalcal.decisions import Coverage
from totalcal.errors import InputError, ModelFileError
from totalcal.files.container import Container, read_container, write_container
from totalcal.files.predicting.stream import predict_file
from totalcal.serving.service import Service

QUICK = {"max_epochs": 15, "hidden": (16,), "draws": 3, "validation_fraction": 0.3, "random_state": 0}


def penguins(rows=400, seed=0):
    """Words, numbers, a truth value and holes; the class follows from colour and size."""
    generator = np.random.default_rng(seed)
    size, colour = generator.normal(size=rows), generator.choice(["red", "green", "blue"], rows)
    labels = np.where((colour == "red") | (size > 0.5), "keep", "toss")
    table = pd.DataFrame({"size": size, "colour": colour, "tagged": generator.random(rows) < 0.5})
    table.loc[generator.choice(rows, rows // 10, replace=False), "size"] = np.nan
    table.loc[generator.choice(rows, rows // 10, replace=False), "colour"] = np.nan
    return table, labels


def steps(classifier=None):
    words = sklearn_pipeline.make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = make_column_transformer(
        (words, ["colour"]), (SimpleImputer(), ["size"]), ("drop", ["tagged"]), sparse_threshold=0
    )
    return [("columns", columns), ("etp", classifier or ETPClassifier(**QUICK))]


@pytest.fixture(scope="module")
def fitted():
    return Pipeline(steps()).fit(*penguins())


def test_it_says_all_that_its_classifier_can_say(fitted):
    table, labels = penguins(seed=1)
    inner, numbers = fitted[-1], fitted[:-1].transform(table)
    assert fitted.score(table, labels) > 0.8
    assert_array_equal(
        fitted.predict_distribution(table).probabilities, inner.predict_distribution(numbers).probabilities
    )
    pd.testing.assert_frame_equal(fitted.predict_uncertainty(table), inner.predict_uncertainty(numbers))
    assert_array_equal(fitted.predict_familiarity(table), inner.predict_familiarity(numbers))


def test_it_is_cloned_and_searched_as_scikit_learn_s_own():
    table, labels = penguins(150)
    search = GridSearchCV(Pipeline(steps()), {"etp__max_epochs": [1, 2]}, cv=2).fit(table, labels)
    assert isinstance(search.best_estimator_, Pipeline)
    assert clone(search.best_estimator_).get_params()["etp__max_epochs"] in (1, 2)


def test_a_gate_is_fitted_on_a_whole_pipeline_ours_or_not(fitted):
    table, labels = penguins(seed=2)
    gate = Gate.fit(fitted, table, labels, rule=Coverage(0.8))
    assert 0.75 < gate.decide(fitted, table).accepted.mean() < 0.9
    plain = sklearn_pipeline.Pipeline(fitted.steps)
    assert Gate.fit(plain, table, labels, rule=Coverage(0.8)) == gate


def test_one_file_holds_steps_classifier_and_gate(fitted, tmp_path):
    table, labels = penguins(seed=2)
    gate = Gate.fit(fitted, table, labels, rule=Coverage(0.8))
    fitted.save(tmp_path / "penguins.totalcal", gate, {"error": 0.1})
    again = totalcal.load(tmp_path / "penguins.totalcal")
    for rows in (table, table.to_numpy(dtype=object)):
        assert_array_equal(again.predict(rows).probabilities, fitted.predict_proba(table))
        assert again.predict(rows).decision == gate.decide(fitted, table).verdicts
    assert Gate.fit(again, table, labels, rule=Coverage(0.8), draws=3) == gate
    assert again.steps.columns == (("size", "number"), ("colour", "word"), ("tagged", "boolean"))
    with pytest.raises(InputError, match="3 columns"):
        again.predict(np.zeros((2, 4)))


def test_a_fitted_pipeline_of_scikit_learn_becomes_ours_by_its_steps(tmp_path):
    table, labels = penguins()
    plain = sklearn_pipeline.Pipeline(steps()).fit(table, labels)
    Pipeline(plain.steps).save(tmp_path / "a.totalcal", example=table.head())
    again = totalcal.load(tmp_path / "a.totalcal")
    assert_array_equal(again.predict(table, draws=3).probabilities, plain.predict_proba(table))


def test_totalcal_predict_takes_the_raw_columns(fitted, tmp_path):
    table, _ = penguins(60, seed=3)
    gate = Gate.fit(fitted, *penguins(seed=2), rule=Coverage(0.8))
    fitted.save(tmp_path / "p.totalcal", gate)
    shuffled = table[["tagged", "colour", "size"]].assign(more=1)
    shuffled.to_csv(tmp_path / "rows.csv", index=False)
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("True,red,heavy,1\nTrue,red\nmaybe,red,1.0,1\n")
    done = predict_file(tmp_path / "p.totalcal", tmp_path / "rows.csv", tmp_path / "out.csv", chunk_size=25)
    assert (done.rows, done.bad_rows) == (63, 3)
    found = pd.read_csv(tmp_path / "out.csv")
    assert_allclose(found[["p(keep)", "p(toss)"]], fitted.predict_proba(table), rtol=1e-5, atol=1e-9)
    assert list(found["decision"]) == gate.decide(fitted, table).verdicts
    bad = (tmp_path / "out.csv.bad").read_text()
    assert "'heavy' in the column 'size', which holds numbers" in bad
    assert "2 columns" in bad
    assert "'maybe'" in bad
    table[["colour", "tagged"]].to_csv(tmp_path / "few.csv")
    with pytest.raises(InputError, match="'size'"):
        predict_file(tmp_path / "p.totalcal", tmp_path / "few.csv", tmp_path / "few_out.csv")


def test_a_quote_that_is_never_closed_swallows_no_rows_of_raw_columns(fitted, tmp_path):
    fitted.save(tmp_path / "p.totalcal")
    (tmp_path / "rows.csv").write_text('size,tagged,colour\n1,True,"red\n2,True,red\n3,True,blue\n')
    with pytest.raises(InputError, match=r"rows\.csv .*quote"):
        predict_file(tmp_path / "p.totalcal", tmp_path / "rows.csv", tmp_path / "out.csv")


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_totalcal_predict_takes_raw_columns_in_columns(fitted, tmp_path, kind):
    table, _ = penguins(60, seed=3)
    fitted.save(tmp_path / "p.totalcal")
    shuffled = table[["tagged", "colour", "size"]].astype({"colour": "category"})
    getattr(shuffled, f"to_{kind}")(tmp_path / f"rows.{kind}")
    output = tmp_path / "out.csv"
    done = predict_file(tmp_path / "p.totalcal", tmp_path / f"rows.{kind}", output, draws=3, chunk_size=25)
    assert (done.rows, done.bad_rows) == (60, 0)
    found = pd.read_csv(output)[["p(keep)", "p(toss)"]]
    assert_allclose(found, fitted.predict_proba(table), rtol=1e-5, atol=1e-9)
    few, no_words = tmp_path / f"few.{kind}", tmp_path / f"no_words.{kind}"
    getattr(table[["colour", "tagged"]], f"to_{kind}")(few)
    with pytest.raises(InputError, match="'size'"):
        predict_file(tmp_path / "p.totalcal", few, tmp_path / "few.csv")
    getattr(table.assign(colour=1).head(2), f"to_{kind}")(no_words)
    assert predict_file(tmp_path / "p.totalcal", no_words, tmp_path / "none.csv").bad_rows == 2
    assert "has 1 in the column 'colour', which holds words" in (tmp_path / "none.csv.bad").read_text()


def test_a_row_that_a_step_refuses_is_named_and_the_others_are_answered(tmp_path):
    table, labels = penguins(150)
    encoder = OneHotEncoder(sparse_output=False)  # knows no other colours
    model = Pipeline([("words", encoder), ("etp", ETPClassifier(**QUICK))])
    model.fit(table[["colour"]].dropna(), labels[table["colour"].notna()]).save(tmp_path / "p.totalcal")
    (tmp_path / "rows.csv").write_text("colour\nred\npurple\nblue\n")
    done = predict_file(tmp_path / "p.totalcal", tmp_path / "rows.csv", tmp_path / "out.csv")
    assert (done.rows, done.bad_rows) == (3, 1)
    assert (
        "row 1,cannot be used: a step of the pipeline refuses the rows (Found unknown categories"
        in (tmp_path / "out.csv.bad").read_text()
    )


def test_a_service_takes_numbers_and_says_so(fitted, tmp_path):
    fitted.save(tmp_path / "p.totalcal")
    with pytest.raises(InputError, match="raw columns"):
        Service(totalcal.load(tmp_path / "p.totalcal"))


class Own(TransformerMixin, BaseEstimator):
    def fit(self, table, labels=None):
        return self

    def transform(self, table):
        return table[["size"]].fillna(0)


@pytest.mark.parametrize(
    ("step", "named"),
    [(Own(), "Own"), (FunctionTransformer(lambda table: table[["size"]].fillna(0)), "lambda")],
)
def test_steps_with_code_of_their_own_are_refused_with_what_to_do(step, named, tmp_path):
    model = Pipeline([("own", step), ("etp", ETPClassifier(**QUICK))]).fit(*penguins(150))
    with pytest.raises(InputError, match=rf"{named}.*pipeline\[-1\]\.save"):
        model.save(tmp_path / "own.totalcal")
    assert not list(tmp_path.iterdir())


def test_a_classifier_that_is_not_ours_has_no_such_answers():
    model = Pipeline(steps(LogisticRegression())).fit(*penguins(150))
    assert model.predict_proba(penguins(3)[0]).shape == (3, 2)
    with pytest.raises(InputError, match="classifier of totalcal"):
        model.predict_uncertainty(penguins(3)[0])


def test_columns_that_no_file_knows_are_refused_when_it_is_fitted():
    table, labels = penguins(150)
    table["when"] = pd.Timestamp("2020-01-01")
    with pytest.raises(InputError, match="'when'"):
        Pipeline(steps()).fit(table, labels)


def test_hostile_and_damaged_steps_are_refused(fitted, tmp_path):
    path, hostile = tmp_path / "good.totalcal", tmp_path / "hostile.totalcal"
    fitted.save(path)
    good = read_container(path)
    own = skops.io.dumps(sklearn_pipeline.make_pipeline(FunctionTransformer(print), Own()))
    packed = skops.io.dumps(sklearn_pipeline.Pipeline(fitted.steps[:-1]), compression=zipfile.ZIP_DEFLATED)
    for content, words in (
        (own, "which is not one of scikit-learn's transformers"),
        (packed, "compressed"),
        (b"no zip", "damaged"),
        (good.steps[:-40], "damaged"),
        (skops.io.dumps(LogisticRegression()), "transforms nothing"),
    ):
        write_container(hostile, Container(good.description, good.tensors, content))
        with pytest.raises(ModelFileError, match=words):
            totalcal.load(hostile)
