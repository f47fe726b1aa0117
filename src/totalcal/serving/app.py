"""The service: the Open Inference Protocol v2, `/predict` for people, a page, metrics (docs/service.md)."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from totalcal import __version__
from totalcal.errors import InputError, MissingExtraError, TotalcalError
from totalcal.files.saved import SavedModel
from totalcal.monitoring import Monitor
from totalcal.predicting.answers import Answers, answers, check_draws, class_names, score_names
from totalcal.rejection.predictions import PredictionSets, in_words
from totalcal.serving import schema
from totalcal.serving.batching import Batcher, BusyError, ClosedError
from totalcal.serving.bodies import rows_for_people, rows_of_tensor
from totalcal.serving.guard import Guard, Limits, RefusalError, Scope
from totalcal.types import Draws
from totalcal.whole_files import write_whole

THREE_TERMS = ("reducible", "irreducible", "data")
_MOST_SHOWN = 16
_PROTOCOL = "/v2/models/{name}"


@dataclass
class Service:
    """A model in service: its batches, its limits, and what it has seen.

    Attributes:
        saved: The model and its gate.
        name: Of the model, in the paths of the protocol.
        draws: As `totalcal predict --draws`.
        limits: What a client may ask for.
        token: What a client has to send; None answers this machine alone.
        exact: Whether each request is computed by itself (`Batcher`).
        gather: Seconds that a batch may wait for a request that is being read.
        state: Where the monitor is kept between runs, if anywhere.
    """

    saved: SavedModel
    name: str = "model"
    draws: Draws | None = None
    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    exact: bool = False
    gather: float = 0.003
    state: Path | None = None

    def __post_init__(self) -> None:
        check_draws(self.saved, self.draws)
        _check_sets(self.saved, self.draws)
        _check_steps(self.saved)
        self.monitor = self._monitor()
        self.lock = threading.Lock()
        self.metrics = Metrics(self)
        self.batcher = Batcher(self._answers, gather=self.gather, exact=self.exact, on_batch=self._watch)

    def _monitor(self) -> Monitor | None:
        if self.state is not None and self.state.exists():
            from totalcal.reading import read_json

            return Monitor.from_json(read_json(self.state))
        started = self.saved.monitor
        return None if started is None else Monitor.from_json(started.as_json())

    def _answers(self, rows: Sequence[npt.NDArray[Any]]) -> Answers:
        return answers(self.saved, rows, self.draws)

    def _watch(self, found: Answers, seconds: float) -> None:
        self.metrics.take(found, seconds)
        if self.monitor is None:
            return
        known = [name for name in self.monitor.detectors if name in found.scores]
        watched = np.array([np.maximum(found.scores[name], 0) for name in known])  # rounding can go below 0
        is_answered = np.isfinite(watched).all(0)  # what has no answer was refused
        if not is_answered.any():
            return
        accepted = np.array([each == "accept" for each in found.decisions])[is_answered]
        with self.lock:
            self.monitor.update(
                dict(zip(known, watched[:, is_answered], strict=True)),
                None if self.saved.gate is None else accepted,
            )

    def nearest(self, rows: Sequence[npt.NDArray[Any]]) -> list[list[dict[str, str]]]:
        """The training pictures that each row looks most like to the model, as PNG in data URLs."""
        assert self.saved.thumbnails is not None
        if len(rows) > _MOST_SHOWN:
            raise RefusalError(413, f"{_MOST_SHOWN} rows at a time have their nearest pictures shown.")
        names, kept = class_names(self.saved), self.saved.thumbnails
        places = kept.nearest(self.saved.model, self.saved.inputs(np.stack(rows)))
        return [
            [
                {"class": str(names[int(kept.labels[place])]), "picture": _data_url(kept.pictures[place])}
                for place in row
            ]
            for row in places.tolist()
        ]

    def close(self) -> None:
        """Answer what was accepted, then write down what was seen."""
        self.batcher.close()
        if self.state is not None and self.monitor is not None:
            write_whole(self.state, json.dumps(self.monitor.as_json()))

    def watched(self) -> dict[str, Any] | None:
        """The monitor's findings, as plain values."""
        if self.monitor is None:
            return None
        with self.lock:
            status = self.monitor.status
        return {
            "rows": status.rows,
            "accepted": status.accepted,
            "alarms": dict(status.alarms),
            "log10_capital": {name: float(np.log10(max(c, 1e-300))) for name, c in status.capital.items()},
            "rank_shares": {name: shares.tolist() for name, shares in status.rank_shares.items()},
            "means": {name: list(pair) for name, pair in status.means.items() if np.isfinite(pair).all()},
            "in_words": str(status),
        }

    def about(self) -> dict[str, Any]:
        """What the page has to know of the model."""
        given, gate = self.saved.preprocessing, self.saved.gate
        shape = None if given is None else list(given.shape)
        return {
            "name": self.name,
            "version": __version__,
            "classes": [str(name) for name in class_names(self.saved)],
            "shape": shape,
            "columns": None if given is None or given.columns is None else list(given.columns),
            "takes_pictures": schema.takes_pictures(shape),
            "resizes": given is not None and given.pictures is not None,
            "thumbnails": self.saved.thumbnails is not None,
            "gate": None if gate is None else gate.promise,
            "coverage": None if self.saved.sets is None else self.saved.sets.coverage,
            "monitor": self.watched(),
        }


class Metrics:
    """Counters for Prometheus, in a registry of their own."""

    def __init__(self, service: Service) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Histogram
        except ImportError as error:
            raise MissingExtraError("prometheus-client", "serve", "a service") from error
        self.service, self.registry = service, CollectorRegistry()
        self.requests = Counter(
            "totalcal_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "totalcal_request_seconds", "Time to answer", ["path"], registry=self.registry
        )
        self.decided = Counter("totalcal_rows", "Rows by decision", ["decision"], registry=self.registry)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
        self.batches = Histogram(
            "totalcal_batch_rows", "Rows of a batch", buckets=sizes, registry=self.registry
        )
        self.model = Histogram(
            "totalcal_batch_seconds", "Time of the model for a batch", registry=self.registry
        )
        self.registry.register(self)

    def take(self, found: Answers, seconds: float) -> None:
        self.batches.observe(len(found.decisions))
        self.model.observe(seconds)
        for decision in found.decisions:
            self.decided.labels(decision or "none").inc()

    def answered(self, path: str, status: int, seconds: float) -> None:
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def collect(self) -> Iterator[Any]:
        """The queue and the monitor, looked at when somebody asks."""
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily("totalcal_rows_waiting", "Rows to be answered", self.service.batcher.waiting)
        seen = self.service.watched()
        if seen is None:
            return
        yield GaugeMetricFamily("totalcal_monitor_rows", "Rows that the monitor saw", seen["rows"])
        if seen["accepted"] is not None:
            yield GaugeMetricFamily("totalcal_monitor_accepted", "Share accepted", seen["accepted"])
        capital = GaugeMetricFamily(
            "totalcal_monitor_log10_capital", "Evidence of a shift, per score", labels=["score"]
        )
        alarm = GaugeMetricFamily(
            "totalcal_monitor_alarm", "1 once a score has shifted (anytime-valid)", labels=["score"]
        )
        for score, value in seen["log10_capital"].items():
            capital.add_metric([score], value)
            alarm.add_metric([score], float(score in seen["alarms"]))
        mean = GaugeMetricFamily("totalcal_monitor_mean", "Of a score, over the stream", labels=["score"])
        before = GaugeMetricFamily(
            "totalcal_monitor_held_out_mean", "Of a score, over the held-out rows", labels=["score"]
        )
        for score, (held_out, stream) in seen["means"].items():
            before.add_metric([score], held_out)
            mean.add_metric([score], stream)
        yield from (capital, alarm, mean, before)

    def describe(self) -> list[Any]:
        return []


def application(service: Service) -> Any:
    """The ASGI application; the service is closed when the application is."""
    try:
        from fastapi import FastAPI, Request, Response
        from fastapi.responses import HTMLResponse, JSONResponse
        from starlette.exceptions import HTTPException
    except ImportError as error:
        raise MissingExtraError("fastapi", "serve", "a service") from error
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="totalcal", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        responses=schema.refusals(),
    )  # fmt: skip
    page = files("totalcal.serving").joinpath("page.html").read_text(encoding="utf-8")
    about_inputs = service.saved.preprocessing
    shape = None if about_inputs is None else about_inputs.shape
    columns = None if about_inputs is None else about_inputs.columns
    limits = service.limits

    @app.exception_handler(RefusalError)
    async def refused(_: Request, refusal: RefusalError) -> Response:
        return JSONResponse({"error": refusal.reason}, refusal.status, refusal.headers)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    def get(path: str, answer: schema.Schema, kind: str = "application/json") -> Callable[[Any], Any]:
        return app.get(path, response_class=Response, responses=schema.answer(answer, kind))

    def post(path: str, kinds: Mapping[str, schema.Schema], answer: schema.Schema) -> Callable[[Any], Any]:
        responses, extra = schema.answer(answer), schema.body(kinds)
        return app.post(path, response_class=Response, responses=responses, openapi_extra=extra)

    @get("/", {"type": "string"}, "text/html")
    async def people() -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    @get("/about", schema.ABOUT)
    async def about() -> Response:
        return JSONResponse(service.about())

    @get("/v2/health/live", schema.LIVE)
    async def live() -> Response:
        return JSONResponse({"live": True})

    @get("/v2/health/ready", schema.READY)
    async def ready() -> Response:
        return JSONResponse({"ready": True})

    @get("/v2", schema.SERVER)
    async def server() -> Response:
        return JSONResponse({"name": "totalcal", "version": __version__, "extensions": []})

    @get(_PROTOCOL, schema.metadata())
    async def model(name: str) -> Response:
        _check_name(service, name)
        return JSONResponse(_metadata(service))

    @get(f"{_PROTOCOL}/ready", schema.MODEL_READY)
    async def model_ready(name: str) -> Response:
        _check_name(service, name)
        return JSONResponse({"name": name, "ready": True})

    @post(f"{_PROTOCOL}/infer", schema.infer_body(shape, limits.rows), schema.tensors())
    async def infer(name: str, request: Request) -> Response:
        _check_name(service, name)
        rows, identity = rows_of_tensor(await request.body(), about_inputs, limits.rows)
        outputs = _tensors(await _answered(service, rows))
        said = {"model_name": service.name, "model_version": __version__, "outputs": outputs}
        return JSONResponse(said if identity is None else {"id": identity, **said})

    async def rows_of(request: Request) -> list[npt.NDArray[Any]]:
        kind, content = request.headers.get("content-type", ""), await request.body()
        if kind.startswith("application/json"):
            return rows_for_people(content, kind, about_inputs, limits.rows)
        return await asyncio.to_thread(  # decoding a picture takes its time
            rows_for_people, content, kind, about_inputs, limits.rows
        )

    taken = schema.bodies_for_people(shape, columns, limits.rows)
    names = [str(name) for name in class_names(service.saved)]

    @post("/predict", taken, schema.predictions(names))
    async def predict(request: Request) -> Response:
        found = await _answered(service, await rows_of(request))
        said = _in_words(found, service.saved.sets)
        return JSONResponse({"model": service.name, "predictions": said})

    if service.saved.thumbnails is not None:

        @post("/nearest", taken, schema.nearest())
        async def nearest(request: Request) -> Response:
            found = await asyncio.to_thread(service.nearest, await rows_of(request))
            return JSONResponse({"model": service.name, "nearest": found})

    @get("/metrics", {"type": "string"}, "text/plain")
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    app.openapi_schema = schema.completed(app.openapi(), service.name, service.token is not None)
    known = {route.path for route in app.routes if hasattr(route, "path")}

    def path_of(scope: Scope) -> str:
        """The application's own name of a path: what the client wrote may be anything."""
        route = scope.get("route")
        found = getattr(route, "path", None) or scope["path"]
        return found if found in known else "other"

    return Guard(
        app, service.limits, service.token, path_of, service.batcher.expect, service.metrics.answered
    )


async def _answered(service: Service, rows: Sequence[npt.NDArray[Any]]) -> Answers:
    try:
        answer = asyncio.wrap_future(service.batcher.submit(rows))
        found = await asyncio.wait_for(answer, service.limits.seconds)
    except (BusyError, ClosedError) as error:
        raise RefusalError(503, str(error), **{"Retry-After": "1"}) from error
    except TimeoutError as error:
        raise RefusalError(
            503, f"no answer within {service.limits.seconds:g} seconds: send fewer rows."
        ) from error
    except (TotalcalError, RuntimeError, ValueError) as error:  # a net says in its own words what it cannot
        raise RefusalError(422, f"the model cannot take these rows: {str(error)[:300]}") from error
    if not all(np.isfinite(values).all() for values in _always_there(found)):
        raise RefusalError(422, "the model has no answer to these rows: their numbers are too large for it.")
    return found


def _always_there(found: Answers) -> Iterator[npt.NDArray[Any]]:
    """What is a number in every answer; α₀ and what rests on it may be infinite."""
    yield found.probabilities
    yield from (found.scores[name] for name in ("entropy", *THREE_TERMS))
    if found.familiarity is not None:
        yield found.familiarity


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
            "familiarity": None if found.familiarity is None else float(found.familiarity[row]),
            "decision": found.decisions[row] or None,
            "reason": found.reasons[row] or None,
        }
        for row, best in enumerate(found.best)
    ]
    if within is not None:
        for each, flags in zip(said, within, strict=True):
            each["set"] = [name for name, is_in in zip(names, flags, strict=True) if is_in]
    return said


def _data_url(picture: Tensor) -> str:
    from PIL import Image

    channels_last = picture.permute(1, 2, 0).numpy()
    content = BytesIO()
    Image.fromarray(channels_last.squeeze(-1) if len(picture) == 1 else channels_last).save(content, "PNG")
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def _tensors(found: Answers) -> list[dict[str, Any]]:
    """The outputs of the protocol: numbers as FP64, words as BYTES. JSON has no infinity."""
    numbers = {"probabilities": found.probabilities, **found.scores}
    if found.familiarity is not None:
        numbers["familiarity"] = found.familiarity
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
    numbers = [*score_names(service.saved), *(["familiarity"] if service.saved.model.domain.taps else [])]
    width = len(class_names(service.saved))
    return {
        "name": service.name,
        "versions": [__version__],
        "platform": "totalcal",
        "inputs": [{"name": "inputs", "datatype": "FP64", "shape": shape}],
        "outputs": [
            {"name": "probabilities", "datatype": "FP64", "shape": [-1, width]},
            *({"name": name, "datatype": "FP64", "shape": [-1]} for name in numbers),
            *({"name": name, "datatype": "BYTES", "shape": [-1]} for name in ("class", "decision", "reason")),
        ],
    }


def _check_sets(saved: SavedModel, draws: Draws | None) -> None:
    """The coverage of sets holds for predictions that are made as the held-out ones were."""
    if saved.sets is None:
        return
    wanted, gated = saved.sets.sampling, saved.gate and saved.gate.sampling
    made = wanted.draws if draws is None else draws
    if made != wanted.draws or (gated is not None and gated != wanted):
        raise InputError(
            f"the file's sets of classes were fitted on {in_words(wanted)}, which is not how predictions are "
            "made here. Fit the gate and the sets on the same predictions, and leave --draws out."
        )


def _check_steps(saved: SavedModel) -> None:
    if saved.steps is not None:
        raise InputError(
            "the file's model stands behind the steps of a pipeline, and a service takes numbers, not raw "
            "columns. Serve the classifier alone, saved by pipeline[-1].save(path), or take totalcal predict."
        )


def _check_name(service: Service, name: str) -> None:
    if name != service.name:
        raise RefusalError(404, f"there is no model of this name: it is {service.name!r}.")


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:"
)
