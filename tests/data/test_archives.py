import io
import tarfile
import zipfile

import pytest

from totalcal.data import fetching
from totalcal.data.fetching import unpack
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
    monkeypatch.setattr(fetching, "MAX_MEMBERS", 2)
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


@pytest.mark.parametrize("make", ["tar", "zip"])
def test_a_member_that_is_absolute_once_its_folder_is_stripped_is_refused(tmp_path, target, make):
    outside = tmp_path / "outside"
    name = f"top/{outside}"  # top//tmp/…/outside
    if make == "tar":
        archive = tar_with(tmp_path / "a.tgz", plain(name))
    else:
        archive = tmp_path / "a.zip"
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr(name, "data")
    with pytest.raises(DataError, match="points outside"):
        unpack(archive, target, strip="top/")
    assert not outside.exists()


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_header_longer_than_any_name_is_refused_before_it_is_read(tmp_path, target, format):
    with tarfile.open(tmp_path / "a.tgz", "w:gz", format=format) as tar:
        tar.addfile(tarfile.TarInfo("a" * 1_500_000))
    with pytest.raises(DataError, match=r"header of 15000.. bytes: refused"):
        unpack(tmp_path / "a.tgz", target)


def test_long_names_of_a_reasonable_length_are_fine(tmp_path, target):
    name = "/".join(["folder" * 10] * 5)
    unpack(tar_with(tmp_path / "a.tgz", plain(name)), target)
    assert everything_below(target) == [name]


def test_a_sparse_file_that_is_mostly_promise_is_refused(tmp_path, target):
    info = tarfile.TarInfo("sparse")
    info.type = tarfile.GNUTYPE_SPARSE
    with pytest.raises(DataError, match=r"refused|damaged"):
        unpack(tar_with(tmp_path / "a.tgz", (info, b"")), target)


def test_folders_count_as_members_too(tmp_path, target, monkeypatch):
    monkeypatch.setattr(fetching, "MAX_MEMBERS", 2)
    members = [special(f"folder{number}", tarfile.DIRTYPE) for number in range(3)]
    with pytest.raises(DataError, match="more than 2 files"):
        unpack(tar_with(tmp_path / "a.tgz", *members), target)


def test_an_encrypted_zip_is_refused(tmp_path, target):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr("x", "data")
    data = bytearray((tmp_path / "a.zip").read_bytes())
    data[6] |= 1  # the flag, in both headers
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        unpack(tmp_path / "a.zip", target)
