import json
import os

import numpy as np
import pytest

from totalcal_lab.data.cache import (
    cache_folder,
    decoded_folder,
    read_decoded,
    replacing,
    statistics,
    write_decoded,
)
from totalcal_lab.data.description import Arrays


@pytest.fixture
def arrays(draw):
    return Arrays(draw.integers(0, 256, (7, 4, 4, 3), dtype=np.uint8), np.arange(7))


def test_arrays_come_back_from_the_disk_with_their_statistics(tmp_path, arrays):
    write_decoded(tmp_path / "here", arrays)
    decoded = read_decoded(tmp_path / "here")
    assert isinstance(decoded.arrays.inputs, np.memmap)
    np.testing.assert_array_equal(decoded.arrays.inputs, arrays.inputs)
    np.testing.assert_allclose(decoded.statistics.mean, (arrays.inputs / 255).mean((0, 1, 2)))
    np.testing.assert_allclose(decoded.statistics.std, (arrays.inputs / 255).std((0, 1, 2)))


def test_what_a_user_writes_into_an_array_does_not_reach_the_disk(tmp_path, arrays):
    write_decoded(tmp_path / "here", arrays).arrays.inputs[:] = 0
    np.testing.assert_array_equal(read_decoded(tmp_path / "here").arrays.inputs, arrays.inputs)


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "forge"])
def test_harmed_arrays_are_removed_and_never_used(tmp_path, arrays, damage):
    write_decoded(tmp_path / "here", arrays)
    path = tmp_path / "here" / "inputs.npy"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
        path.write_bytes(bytes(data))
    elif damage == "truncate":
        path.write_bytes(bytes(data[:-5]))
    elif damage == "delete":
        path.unlink()
    else:
        (tmp_path / "here" / "about.json").write_text(json.dumps({"inputs": "0"}))
    assert read_decoded(tmp_path / "here") is None
    assert not (tmp_path / "here").exists()


def test_a_folder_that_could_not_be_filled_leaves_the_old_one_in_place(tmp_path):
    final = tmp_path / "final"
    with replacing(final) as fresh:
        (fresh / "file").write_text("old")

    def fail():
        with replacing(final) as fresh:
            (fresh / "file").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (final / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["final"]


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
def test_a_filled_folder_is_as_open_to_others_as_any_new_one(tmp_path):
    (tmp_path / "ordinary").mkdir()
    with replacing(tmp_path / "final"):
        pass
    assert (tmp_path / "final").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_another_file_means_another_place(tmp_path):
    path = tmp_path / "file"
    path.write_text("a")
    before = decoded_folder("name", "test", [path])
    assert decoded_folder("name", "test", [path]) == before
    path.write_text("ab")
    assert decoded_folder("name", "test", [path]) != before


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("TOTALCAL_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("TOTALCAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "all"))
    assert cache_folder() == tmp_path / "all" / "totalcal"


@pytest.mark.parametrize("shape", [(9, 5, 5), (9, 5, 5, 3), (9, 4)])
def test_statistics_are_numpys_whatever_the_block(draw, shape):
    values = draw.integers(0, 256, shape).astype(np.float32 if len(shape) == 2 else np.uint8)
    axes = {3: (0, 1, 2), 4: (0, 1, 2), 2: (0,)}[len(shape)]
    scaled = values / (1 if len(shape) == 2 else 255)
    found = statistics(values, block=2)
    np.testing.assert_allclose(found.mean, np.atleast_1d(scaled.mean(axes)), rtol=1e-6)
    np.testing.assert_allclose(found.std, np.atleast_1d(scaled.std(axes)), rtol=1e-6)


def test_tokens_have_no_statistics():
    assert statistics(np.zeros((2, 3), np.int64)) == ((), ())


@pytest.mark.parametrize("change", [{"mean": [0.9, 0.9, 0.9]}, {"std": [1.0] * 3}, {"more": 1}])
def test_statistics_that_somebody_changed_are_not_believed(tmp_path, arrays, change):
    write_decoded(tmp_path / "here", arrays)
    about = tmp_path / "here" / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), **change}))
    assert read_decoded(tmp_path / "here") is None


@pytest.mark.parametrize("text", ["", "[]", "3", '{"seal": 1}', "[" * 10_000, "\xff"])
def test_whatever_about_json_has_become_the_arrays_are_made_again(tmp_path, arrays, text):
    write_decoded(tmp_path / "here", arrays)
    (tmp_path / "here" / "about.json").write_text(text, encoding="latin-1")
    assert read_decoded(tmp_path / "here") is None


def test_another_file_in_a_folder_means_another_place(tmp_path):
    folder = tmp_path / "reviews"
    folder.mkdir()
    (folder / "0.txt").write_text("good")
    kept = folder.stat()
    before = decoded_folder("name", "test", [folder])
    (folder / "0.txt").write_text("bad")
    os.utime(folder, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # editing a file does not touch its folder
    assert decoded_folder("name", "test", [folder]) != before


def test_a_disk_that_is_full_is_said_to_be(tmp_path, monkeypatch):
    def torn(*_):
        raise OSError("392000 requested and 16256 written")  # NumPy's words, without a number

    monkeypatch.setattr(np, "save", torn)
    with pytest.raises(OSError, match="No space left on device"):
        write_decoded(tmp_path / "here", Arrays(np.zeros((2, 4, 4), np.uint8), np.zeros(2, np.int64)))
    assert not (tmp_path / "here").exists()
