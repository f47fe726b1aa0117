"""Are the sets on this machine what they should be: digests, counts, known means?"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from totalcal.data.catalogue import CATALOGUE
from totalcal.data.description import Split
from totalcal.data.loading import load_with_statistics
from totalcal.data.sources import locate, verify
from totalcal.errors import DataError

TOLERANCE = 6e-5  # the known figures have four decimals


class Finding(NamedTuple):
    """One split of one set; `problem` is empty where all is well."""

    name: str
    split: str
    source: str
    examples: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    known_by: str
    problem: str


def findings(names: list[str], data_dir: Path | None) -> Iterator[Finding]:
    """A finding for each split of the named sets that is on this machine; nothing is fetched."""
    for name in names:
        dataset = CATALOGUE[name]
        for split, expected in dataset.splits.items():
            if not dataset.on_disk or locate(dataset, split, data_dir) is not None:
                yield _examine(name, split, expected, data_dir)


def _examine(name: str, split: str, expected: Split, data_dir: Path | None) -> Finding:
    dataset, found = CATALOGUE[name], locate(CATALOGUE[name], split, data_dir)
    source = found.source if found is not None and dataset.on_disk else "made on the spot"
    try:
        digests = verify(dataset, found, expected.files) if found is not None else []
        decoded = load_with_statistics(name, split, data_dir)
    except DataError as error:
        return Finding(name, split, source, 0, (), (), "", str(error))
    kinds = sorted({digest.partition(":")[0] for digest in digests})
    count, (mean, std) = len(decoded.arrays.labels), decoded.statistics
    return Finding(
        name, split, source, count, mean, std, ", ".join(kinds), _problem(expected, count, mean, std)
    )


def _problem(expected: Split, count: int, mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    if count != expected.count:
        return f"{count} examples, expected {expected.count}"
    for kind, known, found in (("mean", expected.mean, mean), ("deviation", expected.std, std)):
        if known and max(abs(a - b) for a, b in zip(known, found, strict=True)) > TOLERANCE:
            return f"{kind} {found}, expected {known}"
    return ""
