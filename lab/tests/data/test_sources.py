import gzip
import hashlib

import numpy as np
import pytest
from scipy.io import savemat

from totalcal.errors import IntegrityError
from totalcal_lab.data.description import RawFile
from totalcal_lab.data.sources import check, digest

CONTENT = b"some content"
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def test_a_file_is_known_by_its_content_however_it_is_compressed(tmp_path):
    for level in (1, 9):
        (tmp_path / "file.gz").write_bytes(gzip.compress(CONTENT, level, mtime=level))
        assert check(tmp_path, RawFile("file.gz", (SHA256,))) == SHA256
    (tmp_path / "file.gz").rename(tmp_path / "other")
    (tmp_path / "file").write_bytes(CONTENT)
    assert check(tmp_path, RawFile("file.gz", (SHA256,))) == SHA256


def test_any_of_the_known_digests_will_do(tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    md5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    assert check(tmp_path, RawFile("file", ("md5:0", SHA256))) == SHA256
    assert check(tmp_path, RawFile("file", (md5,))) == md5


def test_the_error_names_file_expected_and_found_and_what_to_do(tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    with pytest.raises(IntegrityError) as caught:
        check(tmp_path, RawFile("file", ("sha256:0000",)))
    for part in (str(tmp_path / "file"), "sha256:0000", SHA256, "totalcal-lab data fetch"):
        assert part in str(caught.value)


@pytest.mark.parametrize("keep", [0, 5, 20])
def test_a_truncated_gzip_file_is_refused(tmp_path, keep):
    (tmp_path / "file.gz").write_bytes(gzip.compress(CONTENT)[:keep])
    with pytest.raises(IntegrityError, match="expected sha256"):
        check(tmp_path, RawFile("file.gz", (SHA256,)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(IntegrityError, match=r"file\.gz? is missing|file is missing"):
        check(tmp_path, RawFile("file.gz", (SHA256,)))


def test_the_date_in_a_matlab_header_does_not_count(tmp_path):
    arrays = {"X": np.ones((32, 32, 3, 2), np.uint8), "y": np.ones((2, 1), np.uint8)}
    savemat(tmp_path / "a.mat", arrays, do_compression=True)
    data = bytearray((tmp_path / "a.mat").read_bytes())
    data[60:64] = b"2001"
    (tmp_path / "b.mat").write_bytes(bytes(data))
    expected = hashlib.sha256(bytes([1]) * (2 * 3072 + 2)).hexdigest()
    assert (
        digest(tmp_path / "a.mat", "arrays") == digest(tmp_path / "b.mat", "arrays") == f"arrays:{expected}"
    )


def test_a_folder_is_known_by_names_and_contents_or_by_contents_alone(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    listing, texts = digest(tmp_path, "listing"), digest(tmp_path, "texts")
    one, two = sorted(hashlib.sha256(content).hexdigest() for content in (b"1", b"2"))
    assert texts == f"texts:{hashlib.sha256((one + two).encode()).hexdigest()}"
    (tmp_path / "b").rename(tmp_path / "c")
    assert digest(tmp_path, "listing") != listing
    assert digest(tmp_path, "texts") == texts
    (tmp_path / "c").write_bytes(b"3")
    assert digest(tmp_path, "texts") != texts
    assert digest(tmp_path, "files") == "files:2"


def test_without_a_known_digest_nothing_is_claimed(tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    assert check(tmp_path, RawFile("file")) == "no checksum is known"
