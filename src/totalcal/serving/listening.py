"""Where the service listens, and how patient it is with a connection. uvicorn does the rest."""

import asyncio
import json
import socket
from http import HTTPStatus
from typing import Any

from totalcal.errors import InputError, MissingExtraError
from totalcal.serving.app import application
from totalcal.serving.guard import LOOPBACK, RefusalError, too_slow
from totalcal.serving.service import Service

_CONNECTIONS = 1024
_MOST_WASTE = 1 << 16  # bytes of a request's chunks that are no body


def run(service: Service, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, and end.

    Raises:
        InputError: If other machines could ask, and there is no token.
    """
    server(service, host, port).run()


def server(service: Service, host: str = "127.0.0.1", port: int = 8000) -> Any:
    """A `uvicorn.Server` of the service; port 0 takes any that is free."""
    check_binding(host, service.token)
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("uvicorn", "serve", "a service") from error
    seconds = service.limits.seconds
    configuration = uvicorn.Config(
        application(service), host=host, port=port, http=impatient_protocol(seconds), ws="none",
        log_level="error", access_log=False, server_header=False, limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=5, timeout_graceful_shutdown=int(2 * seconds) + 1,
    )  # fmt: skip
    return uvicorn.Server(configuration)


def check_binding(host: str, token: str | None, port: int = 0) -> None:
    """Other machines may ask only with a token; and a port that is given has to be free."""
    if token is None and host not in LOOPBACK:
        raise InputError(
            f"bound to {host}, other machines can reach the service, and there is no token. "
            "Set TOTALCAL_TOKEN or give --token-file, or stay on 127.0.0.1."
        )
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise InputError("a token has 16 or more plain characters: make one with `openssl rand -hex 32`.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): choose another --port or --host."
        ) from error


def impatient_protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP/1.1, in which a request's head has to come, and an answer to be read, within this time.

    uvicorn itself waits for both for ever, and a thousand such connections would keep everybody else out. The
    guard sees a request only after its head; it times the body. A body in chunks of a byte would take all of
    the event loop, and is refused.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        _head_is_due: asyncio.TimerHandle | None = None
        _reading_is_due: asyncio.TimerHandle | None = None
        _waste = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._head_is_due = self.loop.call_later(seconds, self._refuse, too_slow(seconds))

        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), _MOST_WASTE):
                if not self.transport.is_closing():
                    self._piece_received(data[start : start + _MOST_WASTE])

        def _piece_received(self, data: bytes) -> None:
            before = self.cycle
            if self._head_is_due is None and (before is None or before.response_complete):
                self._head_is_due = self.loop.call_later(seconds, self._refuse, too_slow(seconds))
            length = 0 if before is None else len(before.body)
            super().data_received(data)
            if self.cycle is not before:
                self._head_is_due, self._waste = _cancelled(self._head_is_due), 0
            elif before is not None:
                self._waste += len(data) - len(before.body) + length
                if self._waste > _MOST_WASTE:
                    self._refuse(RefusalError(400, "the request comes in too many small chunks."))

        def eof_received(self) -> bool:  # type: ignore[override]
            """A client that has said all may still listen: it is answered before its connection is closed."""
            cycle = self.cycle
            is_waiting = cycle is not None and not cycle.more_body and not cycle.response_complete
            if is_waiting:
                cycle.keep_alive = False
            return is_waiting

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading_is_due = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reading_is_due = _cancelled(self._reading_is_due)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_due = _cancelled(self._head_is_due)
            self._reading_is_due = _cancelled(self._reading_is_due)
            super().connection_lost(exc)

        def _refuse(self, refusal: RefusalError) -> None:
            content = json.dumps({"error": refusal.reason}).encode()
            head = (
                f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
                "content-type: application/json\r\nconnection: close\r\n"
                f"content-length: {len(content)}\r\n\r\n"
            )
            self.transport.write(head.encode() + content)
            self.transport.close()

    return Impatient


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
