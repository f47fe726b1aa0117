"""The code of the README runs as it stands, for every model."""

import re
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

import totalcal
from totalcal import MODELS
from totalcal.nets import mlp

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_blocks_of_the_readme_run_one_after_another() -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block.replace("epochs=20", "epochs=2"), names)
    assert names["prediction"].probabilities.shape == (597, 10)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_trains_from_the_readme_s_loop(model: str) -> None:
    names: dict[str, object] = {}
    for block in (block for block in BLOCKS if "evaluate" not in block):
        training = block.split("\nprediction =")[0].replace("epochs=20", "epochs=1")
        exec(training.replace("totalcal.etp", f"totalcal.{model}"), names)
    assert names["loss"].item() > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_wrapped_net_that_remembers_its_domain_gains_in_nll_ece_and_auroc(seed: int) -> None:
    torch.manual_seed(seed)
    images, digits = (torch.tensor(column) for column in load_digits(return_X_y=True))
    inputs = (images.float() - 8) / 6
    train, held_out, test = (
        (inputs[rows], digits[rows]) for rows in (slice(1000), slice(1000, 1200), slice(1200, None))
    )
    ood = {"shuffled pixels": test[0][:, torch.randperm(64)]}
    plain = totalcal.softmax(mlp(64, 10), num_classes=10)
    totalcal.train(plain, *train, epochs=20)
    model = totalcal.wrap(plain.backbone, num_classes=10)
    totalcal.fit_wrapped(model, held_out, progress=False)
    totalcal.remember(model, train, held_out)
    before, after = (
        totalcal.evaluate(plain, test, ood),
        totalcal.evaluate(model, test, ood, uncertainty="unfamiliarity"),
    )
    assert after.error == before.error
    assert after.nll < before.nll
    assert after.ece.value < before.ece.value
    assert after.auroc > before.auroc


def test_the_ten_lines_are_no_worse_than_a_plain_net() -> None:
    """Over six seeds, of which each sees 597 test rows: one row is 0.03 points of the mean error."""
    images, digits = (torch.tensor(column) for column in load_digits(return_X_y=True))
    inputs = (images.float() - 8) / 6
    test = inputs[1200:], digits[1200:]

    def verdict(model: str, seed: int) -> list[float]:
        torch.manual_seed(seed)
        net = MODELS[model](mlp(64, 10), num_classes=10)
        totalcal.train(net, inputs[:1200], digits[:1200], epochs=20, learning_rate=1e-2)
        found = totalcal.evaluate(net, test)
        return [found.error, found.nll, found.ece.value]

    plain, ours = (torch.tensor([verdict(name, seed) for seed in range(6)]) for name in ("softmax", "etp"))
    assert (ours[:, 1] < plain[:, 1]).all()
    assert (ours.mean(0) <= plain.mean(0)).all()
