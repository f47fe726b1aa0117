"""The package route against programs that only pretend to be npm and apt-get."""

import hashlib
import stat
import sys

import pytest

from totalcal.data.description import Package
from totalcal.data.fetching import command, fetch_package
from totalcal.errors import IntegrityError, SourceError

NPM = """
import io, os, sys, tarfile
assert sys.argv[1:3] == ["pack", "things@1.0"] and "--ignore-scripts" in sys.argv
target = sys.argv[sys.argv.index("--pack-destination") + 1]
with tarfile.open(os.path.join(target, "things-1.0.tgz"), "w") as tar:
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
    with pytest.raises(IntegrityError, match=f"expected sha256 0000, found {found}"):
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
