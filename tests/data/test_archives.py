import io
import tarfile
import zipfile

import pytest

from totalcal.data import archives
from totalcal.data.archives import unpack
from totalcal.errors import DataError


def tar_with(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def plain(name, data=b"data"):
    return tarfile.TarInfo(name), data


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def target(tmp_path):
    return tmp_path / "deep" / "target"


def test_chosen_members_arrive_without_their_leading_folder(tmp_path, target):
    archive = tar_with(tmp_path / "a.tgz", plain("top/want/x", b"1"), plain("top/other/y", b"2"))
    unpack(archive, target, members=("top/want/",), strip="top/")
    assert everything_below(target) == ["want/x"]
    assert (target / "want/x").read_bytes() == b"1"


@pytest.mark.parametrize(
    "member",
    [
        plain("/etc/passwd"),
        plain("../outside"),
        plain("inside/../../outside"),
        plain("C:\\outside"),
        special("link", tarfile.SYMTYPE, "/etc/passwd"),
        special("link", tarfile.LNKTYPE, "../outside"),
        special("pipe", tarfile.FIFOTYPE),
        special("device", tarfile.CHRTYPE),
    ],
    ids=lambda member: member[0].name,
)
def test_hostile_members_of_a_tar_file_are_refused(tmp_path, target, member):
    before = everything_below(tmp_path)
    archive = tar_with(tmp_path / "a.tgz", member)
    with pytest.raises(DataError, match="refused"):
        unpack(archive, target)
    assert everything_below(tmp_path) == sorted([*before, "a.tgz"])


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
def test_hostile_members_of_a_zip_file_are_refused(tmp_path, target, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr(name, "data")
    with pytest.raises(DataError, match="points outside"):
        unpack(tmp_path / "a.zip", target)
    assert everything_below(tmp_path) == ["a.zip"]


def test_zip_files_are_unpacked_too(tmp_path, target):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr("top/x", "1")
        bundle.writestr("top/y", "2")
    unpack(tmp_path / "a.zip", target, members=("top/x",), strip="top/")
    assert everything_below(target) == ["x"]


def test_no_more_bytes_are_written_than_agreed(tmp_path, target):
    archive = tar_with(tmp_path / "a.tgz", plain("a", bytes(600)), plain("b", bytes(600)))
    with pytest.raises(DataError, match="more than 1000 bytes"):
        unpack(archive, target, max_bytes=1000)
    assert everything_below(target) == ["a"]


def test_no_more_files_are_read_than_agreed(tmp_path, target, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    archive = tar_with(tmp_path / "a.tgz", *(plain(f"file{index}") for index in range(3)))
    with pytest.raises(DataError, match="more than 2 files"):
        unpack(archive, target)


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_what_is_no_archive_is_refused(tmp_path, target, name):
    (tmp_path / name).write_bytes(b"<html>404</html>" * 50)
    with pytest.raises(DataError, match="damaged"):
        unpack(tmp_path / name, target)


def test_a_truncated_archive_is_refused(tmp_path, target):
    archive = tar_with(tmp_path / "a.tgz", plain("a", bytes(range(256)) * 400))
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged"):
        unpack(archive, target)


def test_a_member_twice_is_refused(tmp_path, target):
    archive = tar_with(tmp_path / "a.tgz", plain("a"), plain("a", b"other"))
    with pytest.raises(DataError, match="damaged"):
        unpack(archive, target)
