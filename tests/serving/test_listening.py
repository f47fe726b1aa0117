"""`totalcal serve` as people start it: what `totalcal predict` writes, and a stop that loses nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pyarrow.parquet
import pytest
import torch

import totalcal
from totalcal.files.predicting.stream import predict_file
from totalcal.nets import mlp
from totalcal.serving.service import Service

from .conftest import Running


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("command") / "iris.totalcal"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = totalcal.etp(mlp(2, 3), num_classes=3)
    given = totalcal.Preprocessing((2,), torch.zeros(2), torch.ones(2), columns=("sepal", "petal"))
    totalcal.save(model, path, classes=("setosa", "versicolor", "virginica"), preprocessing=given)
    return path


@pytest.mark.parametrize("exact", [False, True])
def test_a_table_gets_to_the_bit_what_predict_writes(model_file, exact, tmp_path):
    """A request that comes alone is a batch of its own in either way."""
    rows = np.random.default_rng(0).normal(size=(40, 2))
    table = "\n".join(["sepal,petal", *(f"{a!r},{b!r}" for a, b in rows.tolist())])
    (tmp_path / "rows.csv").write_text(table)
    predict_file(model_file, tmp_path / "rows.csv", tmp_path / "out.parquet")
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pydict()
    running = Running(Service(totalcal.load(model_file), "iris", exact=exact))
    try:
        with running.client() as client:
            answer = client.post("/predict", content=table, headers={"Content-Type": "text/csv"})
    finally:
        running.stop()
    said = answer.json()["predictions"]
    for name in ("setosa", "versicolor", "virginica"):
        assert [each["probabilities"][name] for each in said] == written[f"p({name})"]
    assert [each["entropy"] for each in said] == written["entropy"]


def free_port():
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def ask_until_it_ends(url, answers):
    """A new connection per request, so that whatever is accepted is a request."""
    while True:
        try:
            answer = httpx.post(url, json={"row": [1.0, 2.0]}, timeout=30, trust_env=False)
        except httpx.TransportError:
            return
        answers.append(answer.status_code)


def test_sigterm_under_load_loses_no_accepted_request(model_file):
    port = free_port()
    totalcal_command = [sys.executable, "-c", "from totalcal.cli import main; main()"]
    command = [*totalcal_command, "serve", str(model_file), "--port", str(port)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ)
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 120
        while True:
            try:
                assert httpx.get(f"{url}/v2/health/ready", trust_env=False).status_code == 200
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        answers = []
        clients = [
            threading.Thread(target=ask_until_it_ends, args=(f"{url}/predict", answers)) for _ in range(8)
        ]
        for client in clients:
            client.start()
        while len(answers) < 20:
            time.sleep(0.01)
        service.send_signal(signal.SIGTERM)
        logged = [json.loads(line) for line in service.stderr.read().decode().splitlines()]
        for client in clients:
            client.join(30)
    finally:
        service.kill()
        service.wait()
    accepted = [line["status"] for line in logged if line["path"] == "/predict"]
    assert set(answers) <= {200, 503}  # 503 says: stopping
    assert sorted(accepted) == sorted(answers)
