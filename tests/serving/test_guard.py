"""Hostile clients get a clear refusal, and the service stays up."""

import contextlib
import http.client
import json
import socket
import time

import numpy as np
import pytest

from totalcal.serving.guard import Limits

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
        (b'{"row": [' + b'"1",' * 63 + b"1]}", "application/json", 422),
        (b'{"row": [null' + b", 1" * 63 + b"]}", "application/json", 422),
        (b'{"rows": [["' + b"x" * 150_000 + b'"' + b", 1" * 9000 + b"]]}", "application/json", 422),
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
    assert response.text.count("JSON") <= 1  # said once
    assert "BytesIO" not in response.text


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
        {"name": "inputs", "datatype": "INT8", "shape": [1, 1, 8, 8], "data": [300] * 64},
        {"name": "inputs", "datatype": "INT8", "shape": [1, 1, 8, 8], "data": [0.5] * 64},
        {"name": "inputs", "datatype": "UINT8", "shape": [1, 1, 8, 8], "data": [-1] * 64},
        {"name": "inputs", "datatype": "BOOL", "shape": [1, 1, 8, 8], "data": [5] * 64},
        {"name": "inputs", "datatype": "FP16", "shape": [1, 1, 8, 8], "data": [70000] * 64},
        {"name": "inputs", "datatype": "FP32", "shape": [1] * 65, "data": [1]},
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


def until_closed(connection):
    """All that comes until the service closes the connection."""
    connection.settimeout(10)
    said = b""
    while part := connection.recv(65536):
        said += part
    return said


@pytest.mark.parametrize("head", [b"", b"GET /v2/health/live HTTP/1.1\r\nHost: local"])
def test_a_head_that_never_ends_is_refused_in_time(running, head):
    with socket.create_connection(("127.0.0.1", running.port)) as slow:
        started = time.monotonic()
        slow.sendall(head)
        said = until_closed(slow)
        assert 1.5 < time.monotonic() - started < 6
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 2 seconds" in said


def trickles(connection):
    """One byte more, and whether the service still listens."""
    try:
        connection.sendall(b"G")
        connection.recv(4096)  # a refusal, or the end
        return False
    except TimeoutError:
        return True


def test_a_head_that_trickles_is_refused_in_time_also_on_a_connection_that_was_used(running):
    with socket.create_connection(("127.0.0.1", running.port)) as slow:
        slow.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first = http.client.HTTPResponse(slow)
        first.begin()
        assert first.status == 200
        first.read()  # to its last byte: one that came later would look like a refusal
        started = time.monotonic()
        slow.settimeout(0.1)
        while trickles(slow) and time.monotonic() - started < 10:
            pass
        assert 1.5 < time.monotonic() - started < 6


def test_a_body_in_chunks_of_a_byte_is_refused_before_it_takes_all_of_the_service(serve, client):
    running = serve(limits=Limits(seconds=20.0))
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as greedy:
        greedy.sendall(head)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 22:
                sent += greedy.send(b"1\r\n \r\n" * 5000)
        assert sent < 1 << 22  # it was closed, and not after all was read
    lines = json.dumps([0.5] * 64).join(('{"row": ', "}")).encode()
    whole = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (lines[:9], lines[9:], b""))
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as usual:
        usual.sendall(head.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n") + whole)
        assert usual.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_client_that_reads_no_answer_is_let_go(serve):
    """It asks for page after page on one connection, until every buffer between the two is full."""
    running = serve(limits=Limits(seconds=1.0))
    connections = running.server.server_state.connections
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", running.port))
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3000)
        deadline = time.monotonic() + 20
        while connections and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not connections


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


@pytest.mark.parametrize("host", ["[::1].evil", "localhost.evil", "localhost:8:8", "[::1", "a@localhost"])
def test_a_host_that_only_begins_like_this_machine_is_refused(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 421


def test_a_client_that_has_said_all_is_still_answered(running):
    body = b'{"row": ' + json.dumps([0.5] * 64).encode() + b"}"
    head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))  # until it is closed, which is at once
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"class"' in answer


def test_a_page_elsewhere_cannot_ask_by_another_name(client):
    assert client.get("/about", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
def test_a_page_elsewhere_cannot_post_to_it(client, origin):
    refused = client.post("/predict", json={"row": [0] * 64}, headers={"Origin": origin})
    assert refused.status_code == 403


def test_its_own_page_can_post_to_it(client, running):
    answered = client.post("/predict", json={"row": [0] * 64}, headers={"Origin": running.url})
    assert answered.status_code == 200


def test_numbers_that_the_model_has_no_answer_to_are_refused_and_not_watched(serve):
    running = serve()
    with running.client() as client:
        for huge in (3e38, 1e300):
            refused = client.post("/predict", json={"row": [huge, -huge] * 32})
            assert refused.status_code == 422, refused.text
        assert client.post("/predict", json={"row": [0] * 64}).status_code == 200
    running.stop()
    assert running.service.monitor.rows == 1


def test_what_is_beside_a_row_in_the_body_is_refused(client):
    refused = client.post("/predict", json={"row": [0] * 64, "rows": [[0] * 64]})
    assert refused.status_code == 422


def test_64_hostile_clients_at_once_keep_nobody_out(running, client):
    request = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
    slow = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(64)]
    try:
        for number, each in enumerate(slow):
            each.sendall(request[: 20 + number])
        assert client.post("/predict", json={"row": [0] * 64}).status_code == 200
        assert all(b"408" in until_closed(each) for each in slow)
    finally:
        for each in slow:
            each.close()
    assert client.get("/v2/health/ready").status_code == 200


def test_logs_hold_no_inputs(client, capfd):
    secret = 0.123456789
    client.post("/predict?secret=123456789", json={"row": [secret] * 64})
    client.get("/secret-123456789")
    logged, deadline = "", time.monotonic() + 10
    while '"path": "other"' not in logged and time.monotonic() < deadline:  # written after the answer is sent
        time.sleep(0.01)
        logged += capfd.readouterr().err
    assert '"path": "/predict"' in logged
    assert '"path": "other"' in logged
    assert "123456789" not in logged


def test_random_bytes_never_bring_it_down(client):
    rng = np.random.default_rng(0)
    for kind in ("application/json", "text/csv", "image/png", "image/gif", "image/tiff"):
        for _ in range(10):
            assert predict(client, rng.bytes(int(rng.integers(1, 500))), kind).status_code == 422
    assert client.get("/v2/health/ready").status_code == 200
