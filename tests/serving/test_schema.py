"""The service keeps to its OpenAPI schema, whatever is sent: schemathesis makes the requests."""

import pytest
import schemathesis
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import positive_data_acceptance

import totalcal
from totalcal.data.preprocessing import Preprocessing
from totalcal.files.saved import Model
from totalcal.nets import mlp
from totalcal.serving.guard import Limits
from totalcal.serving.service import Service

from .conftest import Running

TOKEN = "0123456789abcdef0123456789abcdef"
COLUMNS = ("sepal", "petal")
FEW = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
INFER = "/v2/models/{name}/infer"

numbers = st.floats(-1e3, 1e3).map("{:.3f}".format)
lines = st.lists(st.lists(numbers, min_size=2, max_size=2).map(",".join), min_size=1, max_size=5)
schemathesis.openapi.media_type(
    "text/csv", lines.map(lambda rows: "\n".join(["sepal,petal", *rows]).encode())
)


@pytest.fixture(scope="module")
def table_service():
    with torch.random.fork_rng():
        model = totalcal.etp(mlp(2, 3), num_classes=3).eval()
    given = Preprocessing((2,), torch.zeros(2), torch.ones(2), columns=COLUMNS)
    saved = Model(model, classes=("setosa", "versicolor", "virginica"), preprocessing=given)
    running = Running(Service(saved, "iris", token=TOKEN, limits=Limits(body=20_000, rows=20, seconds=5)))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def picture_service(saved):
    running = Running(Service(saved, "digits", limits=Limits(body=20_000, rows=3, seconds=5)))
    yield running
    running.stop()


@pytest.fixture
def of_a_table(table_service):
    return schemathesis.openapi.from_url(f"{table_service.url}/openapi.json", headers=WITH_TOKEN)


@pytest.fixture
def of_pictures(picture_service):
    return schemathesis.openapi.from_url(f"{picture_service.url}/openapi.json")


def fuzz(schema, paths, examples, excluded=(), **more):
    """Requests that the schema allows, and others that it forbids, to each operation of the paths."""
    chosen = [found.ok() for found in schema.get_all_operations() if found.ok().path in paths]
    assert {operation.path for operation in chosen} == set(paths)
    for operation in chosen:
        ask(operation, schemathesis.GenerationMode.POSITIVE, examples, excluded, more)
        if operation.body or operation.path_parameters:  # else there is nothing that could be wrong
            ask(operation, schemathesis.GenerationMode.NEGATIVE, examples, excluded, more)


def ask(operation, mode, examples, excluded, more):
    @settings(FEW, max_examples=examples)
    @given(case=operation.as_strategy(generation_mode=mode))
    def keeps_to_it(case):
        case.call_and_validate(excluded_checks=list(excluded), **more)

    keeps_to_it()


def test_a_service_of_a_table_keeps_to_its_schema(of_a_table):
    paths = set(of_a_table.raw_schema["paths"]) - {INFER}
    fuzz(of_a_table, paths, 20, headers=WITH_TOKEN)


def test_infer_keeps_to_its_schema(of_a_table):
    """A schema cannot say that `data` has as many numbers as `shape` promises, so 422 may come."""
    fuzz(of_a_table, {INFER}, 40, [positive_data_acceptance], headers=WITH_TOKEN)


def test_a_service_of_pictures_keeps_to_its_schema(of_pictures):
    """Nor can it say which bytes are a picture."""
    fuzz(of_pictures, {"/predict"}, 20, [positive_data_acceptance])


def test_the_schema_names_every_kind_of_body(of_a_table, of_pictures):
    def kinds(found):
        return set(found.raw_schema["paths"]["/predict"]["post"]["requestBody"]["content"])

    assert kinds(of_a_table) == {"application/json", "text/csv"}
    assert kinds(of_pictures) >= {"application/json", "text/csv", "image/png", "image/jpeg"}
