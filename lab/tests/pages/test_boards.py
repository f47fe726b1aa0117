"""What a run kept, read part by part."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from totalcal.errors import InputError
from totalcal_lab.pages.boards import read_artefacts


def saved(folder: Path, arrays: dict) -> Path:
    np.savez(folder / "artefacts.npz", **arrays)
    return folder / "artefacts.npz"


def test_every_part_is_read(artefacts: Callable[..., dict], tmp_path: Path) -> None:
    arrays = artefacts(0, memory=True)
    kept = read_artefacts(saved(tmp_path, arrays))
    assert kept.classes == ("zero", "one", "two", "three")
    np.testing.assert_array_equal(kept.reliability.counts, arrays["reliability/counts"])
    assert list(kept.entropies.ood) == ["letters", "noise"]
    np.testing.assert_array_equal(kept.rocs["noise"].true_positive, arrays["roc/noise/true_positive"])
    assert list(kept.decomposition) == ["right", "wrong", "letters", "noise"]
    assert kept.memory.cells.shape == (20, 4)


def test_a_part_that_was_not_kept_is_none(tmp_path: Path) -> None:
    kept = read_artefacts(saved(tmp_path, {"class_names": np.array(["a", "b"])}))
    assert kept.reliability is kept.entropies is kept.risk_coverage is kept.unsure is kept.memory is None
    assert kept.rocs == kept.decomposition == {}


@pytest.mark.parametrize(
    "kept", [["memory/cells"], ["entropy/edges"], ["roc/letters/false_positive"], ["unsure/inputs"]]
)
def test_a_part_that_lacks_a_field_is_damage_in_words(tmp_path: Path, kept: list[str]) -> None:
    path = tmp_path / "artefacts.npz"
    np.savez(path, class_names=np.array(["a", "b"]), **{name: np.zeros((2, 2)) for name in kept})
    with pytest.raises(InputError, match="run it again"):
        read_artefacts(path)


def test_a_file_without_names_of_classes_is_no_artefacts(tmp_path: Path) -> None:
    np.savez(tmp_path / "artefacts.npz", other=np.zeros(2))
    with pytest.raises(InputError, match="run it again"):
        read_artefacts(tmp_path / "artefacts.npz")
