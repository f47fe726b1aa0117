"""Steps of scikit-learn are trusted by name; what a forged file asks of them is not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)

from totalcal.errors import InputError, ModelFileError
from totalcal.files import budget
from totalcal.files.steps import Steps

skops = pytest.importorskip("skops.io")

GREEDY = {
    "n_features": HashingVectorizer(n_features=2**28),
    "token_pattern": TfidfVectorizer(token_pattern=r"(a+)+$"),
    "ngram_range": HashingVectorizer(analyzer="char", ngram_range=(1, 10**6), n_features=16),
    "input": CountVectorizer(input="filename"),
    "degree": PolynomialFeatures(degree=40).fit(np.zeros((2, 8))),
    "max_iter": NMF(2, max_iter=10**6, tol=0.0),
    "max_doc_update_iter": LatentDirichletAllocation(max_doc_update_iter=2**20, mean_change_tol=0.0),
}


@pytest.mark.parametrize("name", list(GREEDY))
def test_arguments_that_take_gigabytes_or_hours_are_refused_when_a_file_is_read_and_when_it_is_written(name):
    pipeline = make_pipeline(GREEDY[name])
    with pytest.raises(ModelFileError, match=f"step .*{name}"):
        Steps.unpacked(skops.dumps(pipeline), None)
    with pytest.raises(InputError, match=f"step .*{name}"):
        Steps(pipeline).packed()


def test_columns_that_forged_steps_would_allocate_are_counted():
    step = PolynomialFeatures(2).fit(np.zeros((2, 3)))
    vars(step).update(_n_out_full=2**27)
    with pytest.raises(ModelFileError, match="makes 134217728 columns"):
        Steps.unpacked(skops.dumps(make_pipeline(step)), None)


LETTERS = np.array([["a", "b"], ["c", "d"], ["a", "d"]], object)
GRID = np.arange(24.0).reshape(8, 3) ** 2


def forged(step, **changes):
    vars(step).update(changes)
    return step


def with_infrequent(mapping):
    step = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist").fit(LETTERS)
    return forged(step, _default_to_infrequent_mappings=[np.array(mapping), None])


def binned(**changes):
    step = KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf").fit(GRID)
    forged(step._encoder, **changes)
    return step


OUT_OF_BOUNDS = {
    "words": lambda: forged(CountVectorizer().fit(["a cat"]), vocabulary_={"cat": 10**5}),
    "words before the first": lambda: forged(TfidfVectorizer().fit(["a cat"]), vocabulary_={"cat": -(10**5)}),
    "words that are none": lambda: forged(CountVectorizer().fit(["a cat"]), vocabulary_={"cat": "x"}),
    "categories": lambda: forged(OneHotEncoder().fit(LETTERS), _n_features_outs=[1, 1]),
    "dropped": lambda: forged(
        OneHotEncoder().fit(LETTERS), _drop_idx_after_grouping=np.array([-5, None], object)
    ),
    "infrequent": lambda: with_infrequent([0, 10**5]),
    "infrequent, unseen": lambda: with_infrequent([0, 0, 10**5]),
    "bins": lambda: binned(_n_features_outs=[1, 1, 1]),
    "neighbours": lambda: forged(KNeighborsTransformer(algorithm="brute").fit(GRID), n_samples_fit_=1),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_no_file_has_numbers_written_where_no_column_is(name):
    with pytest.raises(ModelFileError, match="column"):
        Steps.unpacked(skops.dumps(make_pipeline(OUT_OF_BOUNDS[name]())), None)


SOUND = {
    "words": (TfidfVectorizer(), np.array(["a cat", "the dog"], object)),
    "categories": (OneHotEncoder(drop="first", sparse_output=False), LETTERS),
    "rare ones": (OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"), LETTERS),
    "numbers": (OneHotEncoder(handle_unknown="ignore"), np.array([[1.0, np.nan], [2.0, 5.0]])),
    "bins": (KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), GRID),
    "neighbours": (KNeighborsTransformer(n_neighbors=3, algorithm="brute"), GRID),
    "union": (FeatureUnion([("a", OneHotEncoder()), ("b", OneHotEncoder(drop="if_binary"))]), LETTERS),
}


@pytest.mark.parametrize("name", SOUND)
def test_steps_that_make_sparse_tables_are_read_as_ever(name):
    step, rows = SOUND[name]
    expected = make_pipeline(step).fit(rows).transform(rows)
    expected = expected.toarray() if hasattr(expected, "toarray") else expected
    found = Steps.unpacked(Steps(make_pipeline(step)).packed(), None)(rows)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "step",
    [
        forged(StandardScaler().fit(GRID), scale_={"a": 1}),
        forged(QuantileTransformer(n_quantiles=4).fit(GRID), quantiles_=np.zeros((0, 3))),
        FunctionTransformer(np.linalg.inv),
    ],
)
def test_steps_that_fail_on_rows_say_so(step):
    with pytest.raises(InputError, match="refuses the rows"):
        Steps(make_pipeline(step))(GRID)


def test_usual_steps_are_read_as_ever():
    words = make_pipeline(TfidfVectorizer()).fit(["a cat", "a dog barks"])
    assert Steps.unpacked(Steps(words).packed(), None)(["dog"]).shape == (1, 3)
    table = make_pipeline(StandardScaler(), PolynomialFeatures(2)).fit(np.eye(4))
    assert Steps.unpacked(Steps(table).packed(), None)(np.eye(4)).shape == (4, 15)


def test_steps_that_make_more_than_there_is_room_for_are_refused_before_they_do(monkeypatch):
    steps = Steps(make_pipeline(HashingVectorizer(n_features=2**20)))
    monkeypatch.setattr(budget, "limit", budget.held() + 2**30)
    assert steps(pd.Series(["a word"])).shape == (1, 2**20)
    with pytest.raises(InputError, match="of the budget are left"):
        steps(pd.Series(["a word"] * 1000))


def test_numbers_of_numpy_are_counted_like_those_of_python():
    for step in (HashingVectorizer(n_features=np.int64(2**28)), PolynomialFeatures(degree=np.int64(40))):
        with pytest.raises(InputError, match="columns"):
            Steps(make_pipeline(step.fit(np.zeros((2, 8)) if "degree" in vars(step) else ["a"]))).packed()


@pytest.mark.parametrize("kind", [FeatureUnion, ColumnTransformer])
def test_a_file_starts_no_processes_however_many_it_asks_for(kind, monkeypatch):
    parts = [("a", StandardScaler()), ("b", PolynomialFeatures(2))]
    given = parts if kind is FeatureUnion else [(*part, [0, 1]) for part in parts]
    steps = make_pipeline(kind(given).fit(np.eye(4)).set_params(n_jobs=2**10))
    read = Steps.unpacked(Steps(steps).packed(), None)

    def start(*_: object, **__: object) -> None:
        raise AssertionError("it starts processes")

    monkeypatch.setattr("joblib.externals.loky.get_reusable_executor", start)
    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", start)
    assert read(np.eye(4)).shape[0] == 4
