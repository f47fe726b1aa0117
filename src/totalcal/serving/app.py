"""The service: the Open Inference Protocol v2, `/predict` for people, a page, metrics (docs/service.md)."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from totalcal import __version__
from totalcal.errors import InputError, MissingExtraError, TotalcalError
from totalcal.files.saved import SavedModel
from totalcal.monitoring import Monitor
from totalcal.predicting.answers import Answers, answers, check_draws, class_names, score_names
from totalcal.serving.batching import Batcher, BusyError, ClosedError
from totalcal.serving.bodies import rows_for_people, rows_of_tensor
from totalcal.serving.guard import LOOPBACK, Guard, Limits, RefusalError, Scope
from totalcal.types import Draws
from totalcal.whole_files import write_whole

THREE_TERMS = ("reducible", "irreducible", "data")
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
        watched = {name: np.maximum(found.scores[name], 0) for name in known}  # rounding can go below 0
        accepted = None if self.saved.gate is None else [each == "accept" for each in found.decisions]
        with self.lock:
            self.monitor.update(watched, accepted)

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
            "takes_pictures": shape is not None and len(shape) == 3 and shape[0] in (1, 3),
            "resizes": given is not None and given.pictures is not None,
            "gate": None if gate is None else gate.promise,
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
        yield capital
        yield alarm

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
        responses={code: {"description": text, "content": _ERROR} for code, text in _REFUSALS.items()},
    )  # fmt: skip
    page = files("totalcal.serving").joinpath("page.html").read_text(encoding="utf-8")

    @app.exception_handler(RefusalError)
    async def refused(_: Request, refusal: RefusalError) -> Response:
        return JSONResponse({"error": refusal.reason}, refusal.status, refusal.headers)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.get("/", response_class=HTMLResponse)
    async def people() -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    @app.get("/about")
    async def about() -> dict[str, Any]:
        return service.about()

    @app.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    @app.get("/v2")
    async def server() -> dict[str, Any]:
        return {"name": "totalcal", "version": __version__, "extensions": []}

    @app.get(_PROTOCOL)
    async def model(name: str) -> dict[str, Any]:
        _check_name(service, name)
        return _metadata(service)

    @app.get(f"{_PROTOCOL}/ready")
    async def model_ready(name: str) -> dict[str, Any]:
        _check_name(service, name)
        return {"name": name, "ready": True}

    @app.post(f"{_PROTOCOL}/infer", openapi_extra=_body("application/json", _INFER))
    async def infer(name: str, request: Request) -> dict[str, Any]:
        _check_name(service, name)
        rows, identity = rows_of_tensor(
            await request.body(), service.saved.preprocessing, service.limits.rows
        )
        outputs = _tensors(await _answered(service, rows))
        said = {"model_name": service.name, "model_version": __version__, "outputs": outputs}
        return said if identity is None else {"id": identity, **said}

    @app.post("/predict", openapi_extra=_body("application/json", _PREDICT))
    async def predict(request: Request) -> dict[str, Any]:
        kind = request.headers.get("content-type", "")
        content, given, most = await request.body(), service.saved.preprocessing, service.limits.rows
        if kind.startswith("application/json"):
            rows = rows_for_people(content, kind, given, most)
        else:  # decoding a picture takes its time
            rows = await asyncio.to_thread(rows_for_people, content, kind, given, most)
        return {"model": service.name, "predictions": _in_words(await _answered(service, rows))}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    known = {route.path for route in app.routes if hasattr(route, "path")}

    def path_of(scope: Scope) -> str:
        """The application's own name of a path: what the client wrote may be anything."""
        route = scope.get("route")
        found = getattr(route, "path", None) or scope["path"]
        return found if found in known else "other"

    return Guard(
        app, service.limits, service.token, path_of, service.batcher.expect, service.metrics.answered
    )


def run(service: Service, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, and end.

    Raises:
        InputError: If other machines could ask, and there is no token.
    """
    check_binding(host, service.token)
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("uvicorn", "serve", "a service") from error
    patience = int(2 * service.limits.seconds) + 1
    uvicorn.run(
        application(service), host=host, port=port, log_level="warning", access_log=False,
        server_header=False,
        timeout_keep_alive=5, timeout_graceful_shutdown=patience, limit_concurrency=1024,
    )  # fmt: skip


def check_binding(host: str, token: str | None) -> None:
    """Other machines may ask only with a token."""
    if token is None and host not in LOOPBACK:
        raise InputError(
            f"bound to {host}, other machines could ask, and there is no token. Set TOTALCAL_TOKEN, or give "
            "--token-file; or stay on 127.0.0.1."
        )
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise InputError("a token has 16 or more plain characters: make one with `openssl rand -hex 32`.")


async def _answered(service: Service, rows: Sequence[npt.NDArray[Any]]) -> Answers:
    try:
        answer = asyncio.wrap_future(service.batcher.submit(rows))
        return await asyncio.wait_for(answer, service.limits.seconds)
    except (BusyError, ClosedError) as error:
        raise RefusalError(503, str(error), **{"Retry-After": "1"}) from error
    except TimeoutError as error:
        raise RefusalError(
            503, f"no answer within {service.limits.seconds:g} seconds: send fewer rows."
        ) from error
    except (TotalcalError, RuntimeError, ValueError) as error:  # a net says in its own words what it cannot
        raise RefusalError(422, f"the model cannot take these rows: {str(error)[:300]}") from error


def _in_words(found: Answers) -> list[dict[str, Any]]:
    """Each row for people: the class, how sure, and why."""
    names = [str(name) for name in found.classes]
    return [
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


def _check_name(service: Service, name: str) -> None:
    if name != service.name:
        raise RefusalError(404, f"there is no model of this name: it is {service.name!r}.")


def _body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:"
)
_ERROR = {"application/json": {"schema": {"type": "object", "properties": {"error": {"type": "string"}}}}}
_REFUSALS: dict[int | str, str] = {
    400: "The request is broken", 401: "A token is needed", 404: "No such model", 405: "No such method",
    408: "It came too slowly", 413: "It is too large", 415: "An unknown kind of body",
    421: "Only for this machine", 422: "These rows cannot be used", 503: "Too busy, or stopping",
}  # fmt: skip
_ROW = {"oneOf": [{"type": "array"}, {"type": "object"}]}
_PREDICT = {"type": "object", "properties": {"row": _ROW, "rows": {"type": "array", "items": _ROW}}}
_INFER = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "inputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "shape", "datatype", "data"],
                "properties": {
                    "name": {"type": "string"},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                    "datatype": {"type": "string"},
                    "data": {"type": "array"},
                },
            },
        },
    },
}
