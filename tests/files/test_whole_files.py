"""All of a file or none of it."""

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import totalcal
from totalcal.files.whole_files import exclusive, whole_file, write_whole


def test_the_new_content_takes_the_place_of_the_old_and_leaves_nothing_beside(tmp_path):
    write_whole(tmp_path / "page", "old")
    write_whole(tmp_path / "page", "π")
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
    assert (tmp_path / "page").read_text(encoding="utf-8") == "π"


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_a_writer_that_fails_leaves_the_old_content(tmp_path, interruption):
    write_whole(tmp_path / "page", "old")

    def fail():
        with whole_file(tmp_path / "page") as file:
            file.write(b"half of the n")
            raise interruption

    with pytest.raises(interruption):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
    assert (tmp_path / "page").read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
def test_others_may_read_what_they_may_read_of_any_new_file(tmp_path):
    (tmp_path / "ordinary").touch()
    write_whole(tmp_path / "whole", "")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "whole")]
    assert modes[0] == modes[1]


def test_threads_that_write_one_file_leave_one_of_their_contents(tmp_path):
    contents = [str(number) * 10_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_whole(tmp_path / "page", content), contents))
    assert (tmp_path / "page").read_text() in contents


def test_what_a_killed_process_left_goes_when_it_is_nobodys_any_more(tmp_path):
    for name, age in ((".a.txt.1.2", 7200), (".a.txt.3.4", 60), (".b.txt.1.2", 7200)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    write_whole(tmp_path / "a.txt", "whole")
    assert {each.name for each in tmp_path.iterdir()} == {"a.txt", ".a.txt.3.4", ".b.txt.1.2"}


def test_where_no_lock_can_be_the_system_says_why_at_once(tmp_path):
    started = time.monotonic()
    with pytest.raises(FileNotFoundError), exclusive(tmp_path / "nowhere" / "a.lock", ValueError("busy")):
        pass
    assert time.monotonic() - started < 3


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"no folder.*missing'"),
        whole_file(tmp_path / "missing" / "it"),
    ):
        pass


@pytest.mark.parametrize(("what", "name"), [("report", "it.html"), ("report", "it.md"), ("audit", "it.html")])
def test_a_page_is_there_whole_or_as_it_was_before(what, name, tmp_path):
    resource = pytest.importorskip("resource")
    rows = torch.randn(240, 4, generator=torch.Generator().manual_seed(0))
    labels = rows[:, :3].argmax(1)
    model = totalcal.calibrate(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),
        (rows[:120], labels[:120]),
        (rows[120:], labels[120:]),
    )
    page = model.report((rows, labels)) if what == "report" else totalcal.audit(model, rows, labels)
    (tmp_path / name).write_text("before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            page.save(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "before"
