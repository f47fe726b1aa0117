"""One budget of memory for the whole process."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from totalcal.errors import InputError
from totalcal.files import budget
from totalcal.files.budget import BusyError, Pool, check_room, limit_memory, room

LIMITED = """
from totalcal.files.budget import enforce, limit_memory
limit_memory(700 << 20)
enforce()
import torch
try:
    torch.zeros(1 << 28)
except RuntimeError as error:
    print("refused")
print(torch.ones(1 << 20).sum().item())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what is allocated")
def test_what_no_reader_foresees_ends_in_an_error_and_not_in_a_larger_process():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "1048576.0"]


def test_the_net_counts(monkeypatch):
    monkeypatch.setattr(budget, "limit", 10**9)
    monkeypatch.setattr(budget, "held", lambda: 9 * 10**8)
    assert room() == 10**8
    check_room(10**8, "a file")
    with pytest.raises(InputError, match="a file takes 190 MB, and 95 MB of the budget are left"):
        check_room(2 * 10**8, "a file")


def test_a_budget_in_which_torch_does_not_fit_is_refused():
    with pytest.raises(InputError, match="at least 512M"):
        limit_memory(10**6)


def test_a_pool_is_shared_and_comes_back():
    pool = Pool(100)

    def take(count):
        try:
            with pool.taking(count, "a request"):
                started.wait() if (started := barrier) else None
                return "taken"
        except BusyError:
            barrier.wait()
            return "busy"

    import threading

    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(take, [60, 60])) == ["busy", "taken"]
    assert pool.taken == 0
    with pytest.raises(InputError, match="more than the 0 MB"), pool.taking(101, "a request"):
        pass


@pytest.mark.parametrize("text", ["nanG", "G", "", "½G", "1_0x"])
def test_what_is_no_size_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"invalid|could not|convert"):
        budget.number_of_bytes(text)


def test_a_size_without_end_is_a_number():
    assert budget.number_of_bytes("infG") == budget.number_of_bytes("1e400G") > 2**63


def test_a_limit_beyond_what_the_system_can_count_is_none(monkeypatch):
    monkeypatch.setattr(budget, "limit", 10**30)
    monkeypatch.setattr(budget, "_is_enforced", False)
    budget.enforce()
    assert budget.room() > 10**29
