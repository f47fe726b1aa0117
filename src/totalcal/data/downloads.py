"""Data from its official address: pooch fetches and checks, a bar shows how far, archives are unpacked."""

from pathlib import Path

from totalcal.data.archives import unpack
from totalcal.data.description import Download
from totalcal.errors import DataError, IntegrityError, MissingExtraError, SourceError

CONNECT_SECONDS, READ_SECONDS = 5, 60


def fetch_download(download: Download, folder: Path, scratch: Path) -> None:
    """Bring the file, or what is in the archive, into `folder` from the first address that answers."""
    refusals = []
    for address in download.addresses:
        try:
            return _fetch(address, download, folder, scratch)
        except SourceError as error:
            refusals.append(str(error))
    raise SourceError("; ".join(refusals))


def _fetch(address: str, download: Download, folder: Path, scratch: Path) -> None:
    name = address.rpartition("/")[2]
    if download.archive == "none":
        _retrieve(address, download.digest, folder / name)
        return
    archive = scratch / name
    _retrieve(address, download.digest, archive)
    unpack(archive, folder, download.members, download.strip, download.max_bytes)
    archive.unlink()


def _retrieve(address: str, digest: str, path: Path) -> None:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise MissingExtraError("pooch", "data", "downloading data") from error
    pooch.get_logger().setLevel("WARNING")  # we tell where data comes from ourselves
    bar = _Bar(path.name)
    downloader = pooch.HTTPDownloader(bar, chunk_size=1 << 16, timeout=(CONNECT_SECONDS, READ_SECONDS))
    try:
        pooch.retrieve(address, digest, fname=path.name, path=path.parent, downloader=downloader)
    except requests.RequestException as error:
        raise SourceError(f"{address} does not answer ({type(error).__name__})") from error
    except ValueError as error:  # pooch's word for a wrong hash; it has deleted the file already
        raise IntegrityError(f"{address}: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}") from error
    finally:
        bar.close()


class _Bar:
    """The four names that pooch asks of a progress bar, drawn by rich once the size is known."""

    def __init__(self, name: str) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, transient=True)
        self._task = self._progress.add_task(name, total=None)

    @property
    def total(self) -> float | None:
        return self._progress.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size)
        self._progress.start()

    def update(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()
