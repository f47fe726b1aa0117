import numpy as np
from typer.testing import CliRunner

from totalcal.cli.app import app
from totalcal.cli.data import corrupt  # noqa: F401  registers the command

IMAGES = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)


def run(*words):
    return CliRunner().invoke(app, ["corrupt", *map(str, words)])


def test_corrupt_draws_a_sheet_and_saves_a_type(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    result = run(
        tmp_path / "images.npy", "--sheet", tmp_path / "s.png", "--save", tmp_path / "out", "--type", "fog"
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    assert np.load(tmp_path / "out" / "fog.npy").shape == (15, 28, 28)


def test_corrupt_wants_to_know_what_to_make(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    result = run(tmp_path / "images.npy")
    assert result.exit_code == 2
    assert "--sheet" in result.output


def test_an_image_that_there_is_not_is_a_wrong_use(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((2, 32, 32, 3), np.uint8))
    result = run(tmp_path / "images.npy", "--sheet", tmp_path / "a.png", "--index", 2)
    assert result.exit_code == 2
    assert not (tmp_path / "a.png").exists()
