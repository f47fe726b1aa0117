"""Requests per second of `totalcal serve` on loopback, beside a bare FastAPI handler of the same net.

    python benchmarks/service.py [--seconds 5] [--rounds 3]

Both serve LeNet5 for 28 × 28 pictures on uvicorn, each in a process of its own, one thread for the model; a
request is one row as JSON. The bare handler runs the net and a softmax, request by request, and answers with
the probabilities alone. Ours takes the same net as `softmax` (no draws), with the three terms, a gate and a
memory of the domain; once in batches, once with --exact. Candidates take turns, round after round; a ratio is
the median over rounds. Clients keep their connections and send the next request when an answer is there:
every request is counted, and every answer is checked to be whole and of status 200. On a machine that others
use, too, the processor's time of the server per request says more than requests per second.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from interleaved import spread

CONNECTIONS = (1, 64)
ROW = json.dumps({"row": [[[round(0.01 * (i * j % 97), 2) for i in range(28)] for j in range(28)]]})


def net() -> torch.nn.Module:
    from totalcal_lab.backbones import lenet5

    torch.manual_seed(0)
    return lenet5(10).eval()


def write_model(path: Path) -> None:
    """The net with a gate, a memory of the domain and a monitor, as a service would have it."""
    import totalcal
    from totalcal.data.preprocessing import Preprocessing
    from totalcal.decisions import FalseRejection, Gate
    from totalcal.decisions.monitor import Monitor, watched_scores

    model = totalcal.softmax(net(), num_classes=10)
    images, labels = torch.rand(1200, 1, 28, 28), torch.arange(1200) % 10
    totalcal.remember(model, (images[:800], labels[:800]), (images[800:], labels[800:]))
    gate = Gate.fit(model, images[800:], labels[800:], rule=FalseRejection(0.05))
    given = Preprocessing((1, 28, 28), torch.tensor(0.0), torch.tensor(1.0))
    monitor = Monitor.start(watched_scores(model.predict(images[800:])))
    totalcal.save(model, path, gate=gate, preprocessing=given, monitor=monitor)


def bare(port: int, _: Path) -> None:
    import uvicorn
    from fastapi import FastAPI

    torch.set_num_threads(1)
    app, module = FastAPI(), net()

    @app.post("/predict")
    def predict(body: dict[str, Any]) -> dict[str, Any]:
        with torch.no_grad():
            return {"probabilities": module(torch.tensor([body["row"]])).softmax(-1)[0].tolist()}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


def ours(port: int, path: Path, exact: bool = False) -> None:
    import sys

    import totalcal_lab.backbones  # noqa: F401 (it registers LeNet5)
    from totalcal.files.saved import load
    from totalcal.serving.listening import run
    from totalcal.serving.service import Service

    torch.set_num_threads(1)
    service = Service(load(path), "lenet5", exact=exact)
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 (a log of each request, which nobody reads)
    run(service, port=port)


def ours_exact(port: int, path: Path) -> None:
    ours(port, path, exact=True)


CANDIDATES: dict[str, Callable[[int, Path], None]] = {"bare": bare, "ours": ours, "ours --exact": ours_exact}


@dataclass
class Load:
    """What clients saw: the time of each answer, how many requests were sent, how many answers were wrong."""

    seconds: float
    times: list[float]
    sent: int
    wrong: int
    processor: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def quantile(self, share: float) -> float:
        return sorted(self.times)[min(int(share * len(self.times)), len(self.times) - 1)]


async def client(port: int, until: float, load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(ROW)}\r\n\r\n"  # noqa: E501
    request = (head + ROW).encode()
    while time.perf_counter() < until:
        started = time.perf_counter()
        load.sent += 1
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = json.loads(await reader.readexactly(length))
        load.times.append(time.perf_counter() - started)
        is_right = answer.startswith(b"HTTP/1.1 200") and (
            "predictions" in content or "probabilities" in content
        )
        load.wrong += not is_right
    writer.close()


def processor_seconds(process: int) -> float:
    """What a process has used so far, on Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def loaded(port: int, connections: int, seconds: float, process: int) -> Load:
    load, started, used = Load(seconds, [], 0, 0), time.perf_counter(), processor_seconds(process)
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(client(port, started + seconds, load))
    load.seconds = time.perf_counter() - started
    load.processor = (processor_seconds(process) - used) / len(load.times)
    return load


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as each:
            if each.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("a server did not start within two minutes")


def measured(path: Path, seconds: float, rounds: int) -> dict[tuple[str, int], list[Load]]:
    context = multiprocessing.get_context("spawn")
    ports = {name: free_port() for name in CANDIDATES}
    servers = [context.Process(target=CANDIDATES[name], args=(port, path)) for name, port in ports.items()]
    found: dict[tuple[str, int], list[Load]] = {}
    try:
        for server in servers:
            server.start()
        numbers = {name: server.pid or 0 for name, server in zip(ports, servers, strict=True)}
        for name, port in ports.items():
            wait_for(port)
            asyncio.run(loaded(port, 4, 1.0, numbers[name]))
        for _ in range(rounds):
            for connections in CONNECTIONS:
                for name, port in ports.items():
                    load = asyncio.run(loaded(port, connections, seconds, numbers[name]))
                    found.setdefault((name, connections), []).append(load)
    finally:
        for server in servers:
            server.terminate()
            server.join(30)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lenet5.totalcal"
        write_model(path)
        found = measured(path, options.seconds, options.rounds)
    print(
        "| | connections | requests/s | of bare | p50 ms | p99 ms | processor ms | / bare | requests "
        "| lost or wrong |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for (name, connections), loads in found.items():
        rate = statistics.median(load.rate for load in loads)
        pairs = zip(loads, found["bare", connections], strict=True)
        ratio = spread([load.rate / base.rate for load, base in pairs], digits=2)
        middle, late = (1000 * statistics.median(load.quantile(q) for load in loads) for q in (0.5, 0.99))
        sent = sum(load.sent for load in loads)
        failed = sum(load.sent - len(load.times) + load.wrong for load in loads)
        pairs = zip(loads, found["bare", connections], strict=True)
        used = 1000 * statistics.median(load.processor for load in loads)
        more = spread([load.processor / base.processor for load, base in pairs], digits=2)
        times = f"{middle:.1f} | {late:.1f} | {used:.2f} | {more}"
        print(f"| {name} | {connections} | {rate:.0f} | {ratio} | {times} | {sent} | {failed} |")


if __name__ == "__main__":
    main()
