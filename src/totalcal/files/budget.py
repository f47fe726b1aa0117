"""Memory: one budget for the whole process, which every reader asks before it allocates what a file promises.

The budget counts everything, torch and the net too. The command line has the system enforce it as well, so
that what no reader foresees ends in a `MemoryError` and not in a machine that swaps.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from totalcal.errors import InputError, TotalcalError

SHARE = 0.75  # of what is there, for who says nothing
_LITTLE = 1 << 20  # for which nobody needs to ask what is left: that takes longer than to read a row
LEAST = 1 << 29  # Python, torch and its libraries take some 350 MB before any model
limit: int | None = None
_is_enforced = False


class BusyError(TotalcalError):
    """Others hold what there is: come again later."""


def limit_memory(most: int | None) -> int | None:
    """Let this process hold so many bytes; None leaves the limit as it is.

    Raises:
        InputError: If it is less than torch alone takes.
    """
    global limit
    if most is not None and most < LEAST:
        raise InputError(f"--memory is at least {LEAST >> 20}M, since torch alone takes most of that.")
    if most is not None:
        limit = most
        if _is_enforced:
            enforce()
    return most


def enforce() -> None:
    """Have the system see to the limit, for the rest of this process: beyond it there is a `MemoryError`."""
    global limit, _is_enforced
    limit, _is_enforced = _usual() if limit is None else limit, True
    with suppress(ImportError, ValueError, OverflowError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


def room() -> int:
    """Bytes that may still be allocated."""
    return max((_usual() if limit is None else limit) - held(), 0)


def check_room(promised: int, what: str) -> None:
    """Before anything is allocated.

    Raises:
        InputError: If what is promised does not fit into what is left of the budget.

    >>> check_room(1 << 60, "rows.npz")
    Traceback (most recent call last):
    totalcal.errors.InputError: rows.npz takes 1099511627776 MB, and ... of the budget are left. ...
    """
    if promised > _LITTLE and promised > (left := room()):
        raise InputError(
            f"{what} takes {promised >> 20} MB, and {left >> 20} MB of the budget are left. "
            "Split it, free memory, or allow more (--memory)."
        )


def share(processes: int) -> int:
    """What each of so many processes may come to hold, where they and this one share what is left."""
    return held() + room() // (processes + 1)  # they begin with what this one holds


def keep_to(most: int) -> None:
    """Let the readers of this process, a helper of another, hold no more than its share."""
    global limit
    limit = most


class Pool:
    """A part of the budget that several threads share: what one takes, the others do not have meanwhile."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0
        self._lock = threading.Lock()

    @contextmanager
    def taking(self, count: int, what: str) -> Iterator[None]:
        """Hold so many bytes.

        Raises:
            InputError: If there are never so many.
            BusyError: If others hold them.
        """
        if count > self.most:
            raise InputError(
                f"{what} takes {count >> 20} MB of memory, more than the {self.most >> 20} MB there are."
            )
        with self._lock:
            if self.taken + count > self.most:
                raise BusyError("all memory is in use by other requests. Send this again a little later.")
            self.taken += count
        try:
            yield
        finally:
            with self._lock:
                self.taken -= count


def give_back() -> None:
    """Return to the system what was freed: the C library keeps it, in a service for ever."""
    with suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)


def number_of_bytes(text: str) -> int:
    """What a user calls a size: bytes, or with K, M, G.

    >>> number_of_bytes("2G"), number_of_bytes("1.5g"), number_of_bytes("4096")
    (2147483648, 1610612736, 4096)
    """
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    return int(min(float(text[:-1]), 2.0**63) * 2**unit) if unit else int(text)


def _usual() -> int:
    return held() + int(SHARE * _available())


def _available() -> int:
    """Bytes that the machine, or the group of processes that this one is in, could still give."""
    found = [1 << 62]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most, held = (group / "memory.max").read_text(), (group / "memory.current").read_text()
        found.append(int(most) - int(held))
    if len(found) == 1 and hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return max(min(found), 0)


def held() -> int:
    """Bytes that this process holds of its own: what stands in files on the disk is not counted."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path("/proc/self/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0
