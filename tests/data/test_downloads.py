"""The official route against a server of this test's own."""

import hashlib
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from totalcal.data.description import Download
from totalcal.data.fetching import fetch_download
from totalcal.errors import IntegrityError, SourceError


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def served(tmp_path):
    """A folder and the address that it is served at."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folders(tmp_path):
    for name in ("set", "scratch"):
        (tmp_path / name).mkdir()
    return tmp_path / "set", tmp_path / "scratch"


def md5(data: bytes) -> str:
    return f"md5:{hashlib.md5(data).hexdigest()}"


def test_a_file_arrives_under_its_name(served, folders):
    (served[0] / "file.bin").write_bytes(b"data" * 50_000)
    fetch_download(Download((served[1] + "file.bin",), md5(b"data" * 50_000)), *folders)
    assert (folders[0] / "file.bin").read_bytes() == b"data" * 50_000


def test_an_archive_arrives_unpacked_and_is_not_kept(served, folders, tmp_path):
    (tmp_path / "x").write_text("hello")
    with tarfile.open(served[0] / "a.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "x", "top/x")
        tar.add(tmp_path / "x", "other/x")
    digest = md5((served[0] / "a.tar.gz").read_bytes())
    download = Download((served[1] + "a.tar.gz",), digest, archive="tar", members=("top/",), strip="top/")
    fetch_download(download, *folders)
    assert [path.name for path in folders[0].iterdir()] == ["x"]
    assert not list(folders[1].iterdir())


def test_a_file_with_another_digest_is_not_kept(served, folders):
    (served[0] / "file.bin").write_bytes(b"tampered")
    with pytest.raises(IntegrityError, match=r"file\.bin"):
        fetch_download(Download((served[1] + "file.bin",), md5(b"data")), *folders)
    assert not list(folders[0].iterdir())


def test_the_next_address_is_tried_where_one_does_not_answer(served, folders):
    (served[0] / "file.bin").write_bytes(b"data")
    addresses = (served[1] + "missing/file.bin", served[1] + "file.bin")
    fetch_download(Download(addresses, md5(b"data")), *folders)
    assert (folders[0] / "file.bin").read_bytes() == b"data"


def test_where_no_address_answers_all_are_named(folders):
    addresses = ("http://127.0.0.1:9/a/file", "http://127.0.0.1:9/b/file")  # the discard port: nobody listens
    with pytest.raises(SourceError, match=r"a/file does not answer .*; .*b/file does not answer"):
        fetch_download(Download(addresses, md5(b"data")), *folders)
