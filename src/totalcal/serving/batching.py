"""Requests of many clients, answered in batches by the one thread that the model runs in."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate

from totalcal.errors import TotalcalError
from totalcal.files.budget import BusyError
from totalcal.files.predicting.answers import Answers
from totalcal.serving.bodies import Row

AnswerRows = Callable[[Sequence[Row]], Answers]


class ClosedError(TotalcalError):
    """The service is stopping, and takes nothing new."""


@dataclass
class _Waiting:
    rows: Sequence[Row]
    answer: "Future[Answers]" = field(default_factory=Future)


class Batcher:
    """Gathers the rows of requests that are there at the same time, and answers each request.

    Nobody waits for company that is not coming: a batch is held open, for `gather` seconds at most, only
    while a request that has arrived is still being read (`expecting`). What was submitted is answered,
    whatever comes, also after `close`.

    Args:
        model: From rows to answers.
        most_rows: Rows of a batch; a larger request is a batch of its own.
        most_waiting: Rows that may wait; beyond them a request is refused.
        gather: Seconds that a batch is held open for requests that are being read.
        exact: Whether each request is a batch of its own. In float32 the rows beside a row move its last
            digits; alone, the answer is to the bit what `totalcal predict` writes for a file of its rows.
    """

    def __init__(
        self,
        model: AnswerRows,
        *,
        most_rows: int = 256,
        most_waiting: int = 8192,
        gather: float = 0.003,
        exact: bool = False,
        on_batch: Callable[[Answers, float], None] = lambda answers, seconds: None,
    ) -> None:
        self.model, self.most_rows, self.most_waiting = model, most_rows, most_waiting
        self.gather, self.exact, self.on_batch = gather, exact, on_batch
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._rows = self._expected = 0
        self._worker = threading.Thread(target=self._work, name="totalcal-model", daemon=True)
        self._worker.start()

    def submit(self, rows: Sequence[Row]) -> "Future[Answers]":
        """The answer to come.

        Raises:
            BusyError: If too many rows wait already.
            ClosedError: After `close`.
        """
        request = _Waiting(rows)
        with self._changed:
            if self._closed:
                raise ClosedError("the service is stopping and takes no new requests.")
            if self._rows and self._rows + len(rows) > self.most_waiting:
                raise BusyError(f"{self._rows} rows are waiting already. Send this again a little later.")
            self._queue.append(request)
            self._rows += len(rows)
            self._changed.notify()
        return request.answer

    def expect(self, more: int) -> None:
        """One request more (1) or fewer (−1) is being read."""
        with self._changed:
            self._expected += more
            self._changed.notify()

    @property
    def waiting(self) -> int:
        """Rows that were submitted and are not answered yet."""
        return self._rows

    def close(self) -> None:
        """Answer what is there, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()

    def _work(self) -> None:
        while batch := self._next():
            self._answer(batch)

    def _next(self) -> list[_Waiting]:
        """The requests of the next batch; none when all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            deadline = time.monotonic() + self.gather
            while not self.exact and self._expected > 0 and not self._closed and self._gathered() > 0:
                if not self._changed.wait(deadline - time.monotonic()) or time.monotonic() >= deadline:
                    break
            batch: list[_Waiting] = []
            rows = 0
            while self._queue and (not batch or rows + len(self._queue[0].rows) <= self.most_rows):
                batch.append(self._queue.popleft())
                rows += len(batch[-1].rows)
                if self.exact:
                    break
            return batch

    def _gathered(self) -> int:
        """How many more rows a batch of all that waits would take."""
        return self.most_rows - sum(len(request.rows) for request in self._queue)

    def _answer(self, batch: list[_Waiting]) -> None:
        started = time.monotonic()
        try:
            found = self.model([row for request in batch for row in request.rows])
            stops = accumulate(len(request.rows) for request in batch)
            answers = [
                found.rows(stop - len(request.rows), stop) for request, stop in zip(batch, stops, strict=True)
            ]
        except Exception as error:
            self._fail(batch, error)
            return
        finally:
            with self._changed:
                self._rows -= sum(len(request.rows) for request in batch)
        for request, answer in zip(batch, answers, strict=True):
            if request.answer.set_running_or_notify_cancel():
                request.answer.set_result(answer)
        try:
            self.on_batch(found, time.monotonic() - started)
        except Exception:  # whoever looks on must not end the service
            traceback.print_exc()

    def _fail(self, batch: list[_Waiting], error: Exception) -> None:
        """One request's fault is not that of those beside it: each is tried by itself."""
        if len(batch) > 1:
            with self._changed:
                self._rows += sum(len(request.rows) for request in batch)
            for request in batch:
                self._answer([request])
        elif batch[0].answer.set_running_or_notify_cancel():
            batch[0].answer.set_exception(error)
