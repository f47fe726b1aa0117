"""Tiny sets in the official formats, made by the tests themselves, and a cache that is nobody's."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of this test's own; no folder of the user's is looked at."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TOTALCAL_CACHE", str(folder))
    monkeypatch.delenv("TOTALCAL_DATA", raising=False)
    return folder


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(0)


def idx_bytes(array: np.ndarray) -> bytes:
    """The IDX format by its definition."""
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def write_idx():
    def write(
        folder: Path, images: np.ndarray, labels: np.ndarray, prefix: str = "t10k", compress=True
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            data, suffix = idx_bytes(array), ".gz" if compress else ""
            (folder / f"{prefix}-{kind}-ubyte{suffix}").write_bytes(gzip.compress(data) if compress else data)

    return write
