"""What stands before every request: the token, the size and time of a body, the log. Plain ASGI."""

import asyncio
import hmac
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from totalcal.errors import InputError
from totalcal.files.budget import BusyError, Pool

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^][:]*)(:[0-9]{1,5})?")
OPEN = frozenset({"/", "/v2/health/live", "/v2/health/ready"})


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Attributes:
        body: Bytes of a request.
        rows: Rows of a request.
        seconds: Until the whole request has come, again until it is answered, and again until that is read.
    """

    body: int = 16 * 2**20
    rows: int = 4096
    seconds: float = 30.0


class RefusalError(Exception):
    """A request that is not answered: the HTTP status, and why, for the client to read."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, headers


@contextmanager
def taking(pool: Pool, count: int, what: str) -> Iterator[None]:
    """So much of the service's memory, or a refusal."""
    with ExitStack() as held:
        try:
            held.enter_context(pool.taking(count, what))
        except BusyError as error:
            raise RefusalError(503, str(error), **{"Retry-After": "1"}) from error
        except InputError as error:
            raise RefusalError(413, str(error)) from error
        yield


class Guard:
    """Refuses what is not allowed before the application sees it, and writes one line of log per request.

    A body is read here, whole, within its limits of size and time; what runs behind has all of it. Without a
    token only this machine may ask, by one of its own names, and not from a page elsewhere: neither one that
    posts here (`Origin`) nor one whose host name was made to point here (DNS rebinding). The log holds no
    inputs: paths are those of the application, not the client's text.
    """

    def __init__(
        self,
        app: Asgi,
        limits: Limits,
        pool: Pool,
        token: str | None,
        paths: Callable[[Scope], str],
        on_body: Callable[[int], None],
        on_answer: Callable[[str, int, float], None],
    ) -> None:
        self.app, self.limits, self.pool, self.token = app, limits, pool, token
        self.paths, self.on_body, self.on_answer = paths, on_body, on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        body = 0
        try:
            self._check_client(scope)
            with ExitStack() as held:
                content = await self._body(scope, receive, held)
                body = len(content)
                await self.app(scope, _replayed(content, receive), sending)
        except RefusalError as refusal:
            await respond(sending, refusal)
        finally:
            path, seconds = self.paths(scope), time.monotonic() - started
            self.on_answer(path, status, seconds)
            _log(method=scope["method"], path=path, status=status, body=body, ms=round(1000 * seconds, 2))

    def _check_client(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self.token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            if _name(host) not in LOOPBACK:
                raise RefusalError(421, "without a token this service answers localhost only.")
            origin = headers.get(b"origin", b"").decode("latin-1")
            if origin and origin.partition("://")[2].lower() != host.lower():
                raise RefusalError(403, "without a token, only this service's own page may ask.")
        elif scope["path"] not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                reason = "a token is needed: send the header 'Authorization: Bearer …'."
                raise RefusalError(401, reason, **{"WWW-Authenticate": "Bearer"})

    async def _body(self, scope: Scope, receive: Receive, held: ExitStack) -> bytes:
        if scope["method"] in ("GET", "HEAD"):
            return b""
        claimed = dict(scope["headers"]).get(b"content-length", b"0")
        if not claimed.isdigit() or int(claimed) > self.limits.body:
            raise self._too_large()
        self.on_body(1)
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._received(receive, held)
        except TimeoutError as error:
            raise too_slow(self.limits.seconds) from error
        finally:
            self.on_body(-1)

    async def _received(self, receive: Receive, held: ExitStack) -> bytes:
        content = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusalError(
                    400, "the client went away before its request was whole.", Connection="close"
                )
            more = message.get("body", b"")
            if len(content) + len(more) > self.limits.body:
                raise self._too_large()
            held.enter_context(taking(self.pool, len(more), "the request"))
            content += more
            if not message.get("more_body", False):
                return bytes(content)

    def _too_large(self) -> RefusalError:
        return RefusalError(413, f"a request has at most {self.limits.body} bytes.", Connection="close")


def too_slow(seconds: float) -> RefusalError:
    """The refusal of a request that took longer to arrive than it may."""
    return RefusalError(408, f"the request did not arrive within {seconds:g} seconds.", Connection="close")


async def respond(send: Send, refusal: RefusalError) -> None:
    """The refusal as JSON, in the form of the Open Inference Protocol."""
    content = json.dumps({"error": refusal.reason}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(content)), **refusal.headers}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": content})


def _replayed(content: bytes, receive: Receive) -> Receive:
    """The body as one message; after it, what the client does next."""
    is_given = False

    async def receiving() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": content, "more_body": False}

    return receiving


def _name(host: str) -> str:
    """The name in a Host header, without its port; nothing where the header is no name.

    >>> _name("localhost:8000"), _name("[::1]:8000"), _name("evil.example"), _name("[::1].evil")
    ('localhost', '::1', 'evil.example', '')
    """
    found = _HOST.fullmatch(host.lower())
    return found[1].strip("[]") if found else ""


def _log(**entry: Any) -> None:
    sys.stderr.write(json.dumps({"time": round(time.time(), 3), **entry}) + "\n")  # one write: whole lines
