"""Jobs that need no training, in a module that worker processes can import."""

import sys
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

STAND_INS = '''
import errno, os, signal, time
from dataclasses import dataclass
from pathlib import Path
from totalcal_lab.grid.jobs import attempt
from totalcal_lab.records.folders import RunFolder

@dataclass(frozen=True)
class StandIn:
    """Works for a moment, then ends well, raises, finds no room, or kills its worker."""
    path: Path
    manner: str = "well"

    @property
    def folder(self):
        return RunFolder(self.path)

    def __call__(self):
        attempt(self.folder, self.work)

    def work(self, folder):
        time.sleep(0.1)
        if self.manner == "raises":
            raise ValueError("as it must")
        if self.manner == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.manner == "kills" or (self.manner == "kills once" and folder.timing.starts == 1):
            os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Makes a job of a given manner, with its folder planned."""
    home = tmp_path / "modules"
    home.mkdir()
    (home / "stand_ins.py").write_text(STAND_INS)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, "stand_ins", raising=False)
    import stand_ins

    # Workers that another test has started know nothing of this folder.
    get_reusable_executor().shutdown(wait=True, kill_workers=True)

    def make(name, manner="well"):
        job = stand_ins.StandIn(Path(tmp_path) / "runs" / name, manner)
        job.folder.plan({"name": name})
        return job

    return make
