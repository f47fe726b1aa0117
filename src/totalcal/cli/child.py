"""The work of a command in a child process: what no reader foresees ends the child, and the parent says so.

The child's memory is limited, by `--memory` or to a share of what is there. The parent has imported nothing
heavy when it forks; afterwards it only waits, and passes on the signals that were sent to it alone.
"""

import os
import signal
import sys
from collections.abc import Callable

import typer

from totalcal.files import budget

_ENDED = (
    "the work ended by {}: most often for want of memory. Take fewer rows at a time (--chunk), fewer "
    "processes (--workers 0), or allow more (--memory). If there was enough, the file or a library is broken."
)
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} if sys.platform == "linux" else set()
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def in_child(work: Callable[[], int]) -> int:
    """The exit code of the work, done in a child where the system has what that takes (Linux)."""
    if sys.platform != "linux":
        return work()
    watched = _PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        import ctypes

        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)  # work whose command was killed ends too
        if os.getppid() != parent:  # it died before that could be said
            os.kill(os.getpid(), signal.SIGKILL)
        budget.enforce()
        return work()
    while True:
        told = signal.sigwaitinfo(watched)
        if told.si_signo == signal.SIGCHLD:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
        elif told.si_code <= 0:  # sent to this process; what a terminal sends, the child has as well
            os.kill(child, told.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    if -code in _PASSED_ON:
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.kill(parent, -code)
    typer.secho(_ENDED.format(signal.Signals(-code).name), fg=typer.colors.RED, err=True)
    return 1
