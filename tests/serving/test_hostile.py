"""Hostile clients get a clear refusal, and the service stays up."""

import socket
import time

import numpy as np
import pytest

TOKEN = "0123456789abcdef0123456789abcdef"


def predict(client, content, kind="application/json"):
    return client.post("/predict", content=content, headers={"Content-Type": kind})


def test_an_oversized_body_is_refused_by_its_claim_and_by_its_bytes(client):
    assert predict(client, b"x" * 300_000).status_code == 413
    assert predict(client, (b"x" * 50_000 for _ in range(10))).status_code == 413
    assert client.get("/v2/health/live").status_code == 200


def test_too_many_rows_are_refused(client):
    response = client.post("/predict", json={"rows": [[0] * 64] * 51})
    assert response.status_code == 413
    assert "at most 50 rows" in response.json()["error"]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"", "application/json", 422),
        (b"{", "application/json", 422),
        (b"[" * 50_000, "application/json", 422),
        (b"\xff\xfe", "application/json", 422),
        (b"[1, 2]", "application/json", 422),
        (b'{"row": [1, 2]}', "application/json", 422),
        (b'{"row": [' + b"1e999," * 63 + b"1]}", "application/json", 422),
        (b'{"row": [' + b"NaN," * 63 + b"1]}", "application/json", 422),
        (b'{"row": {"a": 1}}', "application/json", 422),
        (b'{"row": "text"}', "application/json", 422),
        (b'{"rows": []}', "application/json", 422),
        (b'{"rows": [[1], [1, 2]]}', "application/json", 422),
        (b"not a picture", "image/png", 422),
        (b"", "image/jpeg", 422),
        (b"a,b\n1,2\n", "text/csv", 422),
        (b'"' * 1000, "text/csv", 422),
        (b"\xff\xfe\x00", "text/csv", 422),
        (b"x", "application/x-python-pickle", 415),
        (b"x", "", 415),
    ],
)
def test_malformed_bodies_are_refused_with_a_reason(client, content, kind, status):
    response = predict(client, content, kind)
    assert response.status_code == status, response.text
    assert response.json()["error"]
    assert "/tmp" not in response.text


@pytest.mark.parametrize(
    "tensor",
    [
        {},
        {"name": "inputs", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [1]},
        {"name": "inputs", "datatype": "FP32", "shape": [2**30, 1, 8, 8], "data": []},
        {"name": "inputs", "datatype": "FP32", "shape": [-1, 64], "data": [0] * 64},
        {"name": "inputs", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64},
        {"name": "inputs", "datatype": "FP32", "shape": ["1"], "data": []},
        {"name": "inputs", "datatype": "BYTES", "shape": [1], "data": ["x"]},
        {"name": "inputs", "datatype": [], "shape": [1], "data": ["x"]},
        {"name": "inputs", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [None] * 64},
        {"name": "inputs", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [10**39] * 64},
    ],
)
def test_malformed_tensors_are_refused_with_a_reason(client, tensor):
    response = client.post("/v2/models/digits/infer", json={"inputs": [tensor]})
    assert response.status_code in (413, 422), response.text
    assert response.json()["error"]


def test_a_slow_client_is_refused_and_holds_nobody_up(running, client):
    with socket.create_connection(("127.0.0.1", running.port)) as slow:
        slow.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        started = time.monotonic()
        assert client.post("/predict", json={"row": [0] * 64}).status_code == 200
        assert time.monotonic() - started < 1.5
        slow.settimeout(10)
        assert b"408" in slow.recv(4096)


def test_a_client_that_goes_away_leaves_nothing_behind(running, client):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", running.port)) as gone:
            gone.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    assert client.post("/predict", json={"row": [0] * 64}).status_code == 200


def test_no_answer_without_the_token(serve):
    running = serve(token=TOKEN)
    with running.client() as nobody:
        for path in ("/about", "/metrics", "/v2/models/digits", "/openapi.json"):
            refused = nobody.get(path)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert nobody.post("/predict", json={"row": [0] * 64}).status_code == 401
        assert nobody.get("/v2/health/live").status_code == 200
        assert nobody.get("/about", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert nobody.get("/about", headers={"Authorization": b"Bearer \xe9"}).status_code == 401
    with running.client(headers={"Authorization": f"Bearer {TOKEN}"}) as known:
        assert known.post("/predict", json={"row": [0] * 64}).status_code == 200


def test_a_page_elsewhere_cannot_ask_by_another_name(client):
    assert client.get("/about", headers={"Host": "evil.example"}).status_code == 421


def test_logs_hold_no_inputs(client, capfd):
    secret = 0.123456789
    client.post("/predict?secret=123456789", json={"row": [secret] * 64})
    client.get("/secret-123456789")
    logged = capfd.readouterr().err
    assert '"path": "/predict"' in logged
    assert '"path": "other"' in logged
    assert "123456789" not in logged


def test_random_bytes_never_bring_it_down(client):
    rng = np.random.default_rng(0)
    for kind in ("application/json", "text/csv", "image/png", "image/gif", "image/tiff"):
        for _ in range(10):
            assert predict(client, rng.bytes(int(rng.integers(1, 500))), kind).status_code == 422
    assert client.get("/v2/health/ready").status_code == 200
