"""What many clients send together takes no more memory than one service has, and stops nobody else."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import httpx
import pytest
from PIL import Image

from totalcal.files.budget import held
from totalcal.serving.guard import Limits


@pytest.fixture(scope="module")
def large():
    """A picture of 60 kB that is 75 MB while it is decoded."""
    content = BytesIO()
    Image.new("RGB", (2500, 2500), (9, 90, 200)).save(content, "PNG")
    return content.getvalue()


def posted(running, content, kind):
    with running.client() as client:
        try:
            return client.post("/predict", content=content, headers={"Content-Type": kind}).status_code
        except httpx.TransportError:
            return None


def test_large_pictures_are_decoded_one_after_the_other_and_their_memory_comes_back(serve, large):
    running = serve(limits=Limits(body=200_000, rows=50, seconds=30.0))
    assert posted(running, large, "image/png") == 200
    before, peaks, done = held(), [0], threading.Event()

    def watch():
        while not done.wait(0.005):
            peaks.append(held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(12) as clients:
        statuses = set(clients.map(lambda _: posted(running, large, "image/png"), range(12)))
    done.set()
    watcher.join()
    assert statuses == {200}
    assert max(peaks) - before < 200e6  # all twelve at once would be 900 MB
    assert held() - before < 100e6


def test_a_body_of_brackets_is_refused_before_it_is_made_and_stops_nobody(serve):
    running = serve(limits=Limits(body=16 << 20, rows=4096, seconds=30.0))
    body, before = b'{"rows": [' + b"[]," * (5 << 20) + b"[]]}", held()
    with running.client() as client, ThreadPoolExecutor(4) as others:
        asked = [others.submit(posted, running, body, "application/json") for _ in range(4)]
        slowest = 0.0
        while not all(each.done() for each in asked):
            started = time.monotonic()
            client.get("/v2/health/live")
            slowest = max(slowest, time.monotonic() - started)
        assert {each.result() for each in asked} == {422}
    assert slowest < 2.0  # it was eight seconds
    assert held() - before < 500e6


def test_beyond_its_budget_a_service_says_come_again(serve):
    running = serve(limits=Limits(body=1 << 20, rows=50, seconds=30.0))
    running.service.pool.most = 1000
    with running.client() as client, running.service.pool.taking(900, "others"):
        found = client.post("/predict", json={"row": [0.5] * 64})
    assert (found.status_code, found.headers["retry-after"]) == (503, "1")
    assert posted(running, b" " * 2000, "application/json") == 413  # it never fits
    assert running.service.pool.taken == 0
