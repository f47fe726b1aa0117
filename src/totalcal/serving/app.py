"""The service over HTTP: Open Inference Protocol v2, `/predict` for people, a page, metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from totalcal import __version__
from totalcal.decisions.sets import PredictionSets
from totalcal.errors import MissingExtraError, TotalcalError
from totalcal.files.budget import BusyError
from totalcal.files.predicting.answers import Answers, names_of_classes, score_names
from totalcal.serving import schema
from totalcal.serving.batching import ClosedError
from totalcal.serving.bodies import inference, rows_for_people
from totalcal.serving.guard import Guard, RefusalError, Scope, taking
from totalcal.serving.service import Service
from totalcal.uncertainties import P_VALUES

_COPIES = 4  # of rows, on their way through the model
THREE_TERMS = ("reducible", "irreducible", "data")
_PROTOCOL = "/v2/models/{name}"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:"
)


def application(service: Service) -> Any:
    """The ASGI application; the service is closed when the application is.

    Raises:
        MissingExtraError: If FastAPI is not installed.
    """
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise MissingExtraError("fastapi", "serve", "a service") from error

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="totalcal", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        responses=schema.refusals(),
    )  # fmt: skip
    _add_refusals(app)
    _add_page(app, service)
    _add_protocol(app, service)
    _add_predictions(app, service)
    _add_metrics(app, service)
    app.openapi_schema = schema.completed(app.openapi(), service.name, service.token is not None)
    return Guard(
        app,
        service.limits,
        service.pool,
        service.token,
        _paths(app),
        service.batcher.expect,
        service.metrics.answered,
    )


def _get(app: Any, path: str, answer: schema.Schema, kind: str = "application/json") -> Callable[[Any], Any]:
    from fastapi import Response

    decorator: Callable[[Any], Any] = app.get(
        path, response_class=Response, responses=schema.answer(answer, kind)
    )
    return decorator


def _post(
    app: Any, path: str, kinds: Mapping[str, schema.Schema], answer: schema.Schema
) -> Callable[[Any], Any]:
    from fastapi import Response

    decorator: Callable[[Any], Any] = app.post(
        path, response_class=Response, responses=schema.answer(answer), openapi_extra=schema.body(kinds)
    )
    return decorator


def _add_refusals(app: Any) -> None:
    """Every error that a client sees is one line of JSON."""
    from fastapi import Request, Response
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

    async def refused(_: Request, refusal: RefusalError) -> Response:
        return JSONResponse({"error": refusal.reason}, refusal.status, refusal.headers)

    async def unknown(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(HTTPException, unknown)


def _add_page(app: Any, service: Service) -> None:
    """The page for people, and what it has to know of the model."""
    from fastapi import Response
    from fastapi.responses import HTMLResponse, JSONResponse

    page = files("totalcal.serving").joinpath("page.html").read_text(encoding="utf-8")

    @_get(app, "/", {"type": "string"}, "text/html")
    async def people() -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    @_get(app, "/about", schema.ABOUT)
    async def about() -> Response:
        return JSONResponse(service.about())


def _add_protocol(app: Any, service: Service) -> None:
    """The Open Inference Protocol v2."""
    from fastapi import Request, Response
    from fastapi.responses import JSONResponse

    given, takes, most = service.saved.preprocessing, service.takes, service.limits.rows
    shape = None if given is None else given.shape
    outputs = [output["name"] for output in _metadata(service)["outputs"]]

    @_get(app, "/v2/health/live", schema.LIVE)
    async def live() -> Response:
        return JSONResponse({"live": True})

    @_get(app, "/v2/health/ready", schema.READY)
    async def ready() -> Response:
        return JSONResponse({"ready": True})

    @_get(app, "/v2", schema.SERVER)
    async def server() -> Response:
        return JSONResponse({"name": "totalcal", "version": __version__, "extensions": []})

    @_get(app, _PROTOCOL, schema.metadata())
    async def model(name: str) -> Response:
        _check_name(service, name)
        return JSONResponse(_metadata(service))

    @_get(app, f"{_PROTOCOL}/ready", schema.MODEL_READY)
    async def model_ready(name: str) -> Response:
        _check_name(service, name)
        return JSONResponse({"name": name, "ready": True})

    @_post(app, f"{_PROTOCOL}/infer", schema.infer_body(shape, takes, most, outputs), schema.tensors())
    async def infer(name: str, request: Request) -> Response:
        _check_name(service, name)
        asked = await service.read(await request.body(), inference, given, takes, most)
        _check_outputs(asked.outputs, outputs)
        answers = await _answered(service, asked.rows)
        found = _tensors(answers)
        if asked.outputs:
            by_name = {tensor["name"]: tensor for tensor in found}
            found = [by_name[each] for each in asked.outputs if each in by_name]
        said = {
            "model_name": service.name,
            "model_version": service.digest,
            "parameters": {"made": answers.made},
            "outputs": found,
        }
        return JSONResponse(said if asked.identity is None else {"id": asked.identity, **said})


def _add_predictions(app: Any, service: Service) -> None:
    """`/predict` for people: rows and pictures as they have them, answers in words."""
    from fastapi import Request, Response
    from fastapi.responses import JSONResponse

    given, takes, most = service.saved.preprocessing, service.takes, service.limits.rows
    shape, columns = (None, None) if given is None else (given.shape, given.columns)
    taken = schema.bodies_for_people(shape, columns, takes, most)
    names = [str(name) for name in names_of_classes(service.saved)]

    async def rows_of(request: Request) -> list[npt.NDArray[Any]]:
        kind = request.headers.get("content-type", "")
        return await service.read(await request.body(), rows_for_people, kind, given, takes, most)

    @_post(app, "/predict", taken, schema.predictions(names))
    async def predict(request: Request) -> Response:
        found = await _answered(service, await rows_of(request))
        said = _in_words(found, service.saved.valid_sets)
        by = {"model": service.name, "digest": service.digest, "made": found.made}
        return JSONResponse(by | {"predictions": said})


def _add_metrics(app: Any, service: Service) -> None:
    from fastapi import Response
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    @_get(app, "/metrics", {"type": "string"}, "text/plain")
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _paths(app: Any) -> Callable[[Scope], str]:
    """The application's own name of a path, for log and metrics: what the client wrote may be anything."""
    known = {route.path for route in app.routes if hasattr(route, "path")}

    def path_of(scope: Scope) -> str:
        found = getattr(scope.get("route"), "path", None) or scope["path"]
        return found if found in known else "other"

    return path_of


async def _answered(service: Service, rows: Sequence[npt.NDArray[Any]]) -> Answers:
    needed = _COPIES * sum(row.nbytes for row in rows)
    try:
        with taking(service.pool, needed, "the work on these rows"):
            answer = asyncio.wrap_future(service.batcher.submit(rows))
            found = await asyncio.wait_for(answer, service.limits.seconds)
    except (BusyError, ClosedError) as error:
        raise RefusalError(503, str(error), **{"Retry-After": "1"}) from error
    except TimeoutError as error:
        raise RefusalError(
            503, f"no answer within {service.limits.seconds:g} seconds: ask again later, or with fewer rows."
        ) from error
    except TotalcalError as error:
        raise RefusalError(422, str(error)[:400]) from error
    if not all(np.isfinite(values).all() for values in _always_there(found)):
        raise RefusalError(422, "the model has no answer to these rows: their numbers are too large for it.")
    return found


def _always_there(found: Answers) -> Iterator[npt.NDArray[Any]]:
    """What is a number in every answer; α₀ and what rests on it may be infinite."""
    yield found.probabilities
    yield from (found.scores[name] for name in ("entropy", *THREE_TERMS))
    yield from (found.scores[name] for name in P_VALUES if name in found.scores)


def _in_words(found: Answers, sets: PredictionSets | None) -> list[dict[str, Any]]:
    """Each row for people: the class, how sure, and why."""
    names = [str(name) for name in found.classes]
    within = None if sets is None else sets.of(found.probabilities)
    said: list[dict[str, Any]] = [
        {
            "class": str(best),
            "probabilities": dict(zip(names, found.probabilities[row].tolist(), strict=True)),
            "entropy": float(found.scores["entropy"][row]),
            "uncertainty": {term: float(found.scores[term][row]) for term in THREE_TERMS},
            **{name: float(found.scores[name][row]) if name in found.scores else None for name in P_VALUES},
            "decision": found.decisions[row] or None,
            "reason": found.reasons[row] or None,
        }
        for row, best in enumerate(found.best)
    ]
    if within is not None:
        for each, flags in zip(said, within, strict=True):
            each["set"] = [name for name, is_in in zip(names, flags, strict=True) if is_in]
    return said


def _tensors(found: Answers) -> list[dict[str, Any]]:
    """The outputs of the protocol: numbers as FP64, words as BYTES. JSON has no infinity."""
    numbers = {"probabilities": found.probabilities, **found.scores}
    outputs: list[dict[str, Any]] = [
        {"name": name, "datatype": "FP64", "shape": list(values.shape), "data": values.ravel().tolist()}
        for name, values in numbers.items()
        if np.isfinite(values).all()
    ]
    words = {"class": list(map(str, found.best)), "decision": found.decisions, "reason": found.reasons}
    return outputs + [
        {"name": name, "datatype": "BYTES", "shape": [len(data)], "data": data}
        for name, data in words.items()
    ]


def _metadata(service: Service) -> dict[str, Any]:
    given = service.saved.preprocessing
    shape = [-1] if given is None else [-1, *given.shape]
    inputs = [
        {"name": form.name, "datatype": schema.datatype(form), "shape": [-1] * (1 + form.axes)}
        for form in service.takes or ()
    ] or [{"name": "inputs", "datatype": "FP64", "shape": shape}]
    width = len(names_of_classes(service.saved))
    return {
        "name": service.name,
        "versions": [service.digest],
        "platform": "totalcal",
        "inputs": inputs,
        "outputs": [
            {"name": "probabilities", "datatype": "FP64", "shape": [-1, width]},
            *({"name": name, "datatype": "FP64", "shape": [-1]} for name in score_names(service.saved)),
            *({"name": name, "datatype": "BYTES", "shape": [-1]} for name in ("class", "decision", "reason")),
        ],
    }


def _check_outputs(asked: Sequence[str] | None, known: Sequence[str]) -> None:
    unknown = [name for name in asked or () if name not in known]
    if unknown:
        raise RefusalError(422, f"there is no output {unknown[0][:40]!r}: there are {', '.join(known)}.")


def _check_name(service: Service, name: str) -> None:
    if name != service.name:
        raise RefusalError(404, f"there is no model of this name: this one is {service.name!r}.")
