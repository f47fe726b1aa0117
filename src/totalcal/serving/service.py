"""A model in service: its batches, what it has seen, and the counters for Prometheus."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from totalcal import __version__
from totalcal.decisions.monitor import Monitor
from totalcal.errors import InputError, MissingExtraError
from totalcal.files.budget import Pool, give_back, held, room
from totalcal.files.predicting.answers import Answers, answers, check_draws, names_of_classes
from totalcal.files.saved import Model
from totalcal.files.whole_files import write_whole
from totalcal.serving import schema
from totalcal.serving.batching import Batcher
from totalcal.serving.guard import Limits, RefusalError
from totalcal.types import Draws

_AT_ONCE = 1 << 16  # bytes of JSON that are read sooner than a thread is told to
_WORTH_GIVING_BACK = 1 << 26
Result = TypeVar("Result")


@dataclass
class Service:
    """A model in service: its batches, its limits, and what it has seen.

    Attributes:
        saved: The model and its gate, as they are when the service begins: its digest names every answer.
        name: Of the model, in the paths of the protocol.
        draws: As `totalcal predict --draws`.
        limits: What a client may ask for.
        token: What a client has to send; None answers this machine alone.
        exact: Whether each request is computed by itself (`Batcher`).
        gather: Seconds that a batch may wait for a request that is being read.
        state: Where the monitor is kept between runs, if anywhere.
    """

    saved: Model
    name: str = "model"
    draws: Draws = "auto"
    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    exact: bool = False
    gather: float = 0.003
    state: Path | None = None

    def __post_init__(self) -> None:
        check_draws(self.saved, self.draws)
        _check_sets(self.saved, self.draws)
        _check_steps(self.saved)
        self.saved = self.saved.snapshot()
        is_raw = self.saved.preprocessing is None and self.saved.steps is None
        self.takes = self.saved.takes if is_raw else None  # what preprocessing makes is not what clients send
        self.digest = self.saved.digest
        self.monitor = self._monitor()
        self.lock = threading.Lock()
        self.pool = Pool(room() // 2)  # for what clients send; the other half is for the work on it
        self._held = held()
        self._readers = ThreadPoolExecutor(1, "totalcal-reader")
        self.metrics = Metrics(self)
        self.batcher = Batcher(self._answers, gather=self.gather, exact=self.exact, on_batch=self._watch)

    def _monitor(self) -> Monitor | None:
        if self.state is not None and self.state.exists():
            from totalcal.files.reading import read_json, unreadable

            with unreadable(self.state, "the monitor of a service", "Remove it, or name another --state."):
                kept = read_json(self.state)
                model, monitor = kept["model"], kept["monitor"]
            if model != self.digest:
                raise InputError(
                    f"{self.state} keeps the monitor of the model {str(model)[:40]}, and this one is "
                    f"{self.digest}: name another --state."
                )
            return Monitor.from_json(monitor)
        started = self.saved.monitor
        if started is None or started.rows:  # a stream that is to go on
            return None if started is None else Monitor.from_json(started.as_json())
        return started.for_another_stream()

    def _answers(self, rows: Sequence[npt.NDArray[Any]]) -> Answers:
        return answers(self.saved, rows, self.draws)

    async def read(self, content: bytes, make: Callable[..., Result], *more: Any) -> Result:
        """What `make` makes of the bytes that a client sent, one client's after the other's.

        Decoding takes many times the memory of what is sent, so that it is never done for many at once; and
        it takes its time, in which others are answered.
        """
        if len(content) <= _AT_ONCE and content[:1] in (b"{", b"["):
            return make(content, *more)
        work = asyncio.get_running_loop().run_in_executor(self._readers, self._read, make, content, *more)
        try:
            return await asyncio.wait_for(work, self.limits.seconds)
        except TimeoutError as error:
            busy = f"others' requests are being read for {self.limits.seconds:g} seconds: ask again later."
            raise RefusalError(503, busy, **{"Retry-After": "1"}) from error

    def _read(self, make: Callable[..., Result], *given: Any) -> Result:
        try:
            return make(*given)
        finally:
            if held() - self._held > _WORTH_GIVING_BACK:
                give_back()
                self._held = held()

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
                [name for name, known in zip(found.best, is_answered, strict=True) if known],
            )

    def close(self) -> None:
        """Answer what was accepted, then write down what was seen."""
        self.batcher.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        if self.state is not None and self.monitor is not None:
            write_whole(self.state, json.dumps({"model": self.digest, "monitor": self.monitor.as_json()}))

    def watched(self) -> dict[str, Any] | None:
        """The monitor's findings, as plain values."""
        if self.monitor is None:
            return None
        with self.lock:
            status = self.monitor.status
        return {
            "rows": status.rows,
            "accepted": status.accepted,
            "accepted_by_class": {name: yes / rows for name, (rows, yes) in status.by_class.items()},
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
            "digest": self.digest,
            "classes": [str(name) for name in names_of_classes(self.saved)],
            "shape": shape,
            "columns": None if given is None or given.columns is None else list(given.columns),
            "takes_pictures": schema.takes_pictures(shape),
            "tensors": None if self.takes is None else {form.name: form.axes for form in self.takes},
            "resizes": given is not None and given.pictures is not None,
            "gate": None if gate is None else gate.promise,
            "coverage": None if self.saved.valid_sets is None else self.saved.valid_sets.coverage,
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
        """The queue and the monitor, as of now."""
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily("totalcal_rows_waiting", "Rows to be answered", self.service.batcher.waiting)
        seen = self.service.watched()
        if seen is None:
            return
        yield GaugeMetricFamily("totalcal_monitor_rows", "Rows that the monitor saw", seen["rows"])
        if seen["accepted"] is not None:
            yield GaugeMetricFamily("totalcal_monitor_accepted", "Share accepted", seen["accepted"])
        by_class = GaugeMetricFamily(
            "totalcal_monitor_accepted_by_class", "Share accepted, by predicted class", labels=["class"]
        )
        for name, share in seen["accepted_by_class"].items():
            by_class.add_metric([name], share)
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
        yield from (by_class, capital, alarm, mean, before)

    def describe(self) -> list[Any]:
        return []


def _check_sets(saved: Model, draws: Draws) -> None:
    """The coverage of sets holds for predictions that are made as the held-out ones were."""
    if saved.valid_sets is None:
        return
    wanted, gated = saved.valid_sets.sampling, saved.gate and saved.gate.sampling
    made = wanted.draws if draws == "auto" else draws
    if made != wanted.draws or (gated is not None and gated != wanted):
        raise InputError(
            f"the file's sets of classes were fitted on predictions {wanted}, which is not how predictions "
            "are made here. Fit the gate and the sets on the same predictions, and leave --draws out."
        )


def _check_steps(saved: Model) -> None:
    if saved.steps is not None:
        raise InputError(
            "the file's model stands behind the steps of a pipeline, and a service takes numbers, not raw "
            "columns. Serve the classifier alone, saved by pipeline[-1].save(path), or use totalcal predict."
        )
