"""The code of the README runs as it stands, for every model."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import totalcal
from totalcal import MODELS
from totalcal.data import digits, letters
from totalcal.nets import mlp, small_convnet
from totalcal.scores import auroc, ece, error, nll

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_blocks_of_the_readme_run_one_after_another() -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(re.sub(r"epochs=\d+", "epochs=2", block), names)
    assert names["prediction"].probabilities.shape == (597, 10)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_trains_from_the_readme_s_loop(model: str) -> None:
    names: dict[str, object] = {}
    for block in (block for block in BLOCKS if "evaluate" not in block and "calibrate" not in block):
        training = block.split("\nprediction =")[0].replace("epochs=20", "epochs=1")
        exec(training.replace("totalcal.etp", f"totalcal.{model}"), names)
    assert names["loss"].item() > 0


def test_the_first_example_gains_in_nll_ece_and_ood_detection_and_refuses_letters() -> None:
    """Means of six seeds; also beside logistic regression, and with hardly a letter accepted."""
    pictures, labels = (torch.tensor(part) for part in digits())
    pictures = pictures[:, None] / 128 - 1
    others = torch.tensor(letters(size=8, count=1000).inputs)[:, None] / 128 - 1

    def scores(seed: int) -> list[list[float]]:
        torch.manual_seed(seed)
        order = torch.randperm(1797)
        train, held_out, test = ((pictures[rows], labels[rows]) for rows in order.split([900, 500, 397]))
        net = totalcal.softmax(small_convnet(10), num_classes=10)
        totalcal.train(net, *train, epochs=80, learning_rate=3e-3, batch_size=64)
        model = totalcal.calibrate(net.backbone, train, held_out, progress=False)
        before, after, far = net.predict(test[0]), model.predict(test[0]), model.predict(others)
        linear = LogisticRegression(max_iter=2000).fit(train[0].flatten(1), train[1])
        judged = [
            [float(score(found.probabilities, test[1])) for score in (error, nll, ece)]
            for found in (before, after)
        ]
        judged[0].append(auroc(before.entropy, net.predict(others).entropy))
        judged[1].append(auroc(after.unfamiliarity, far.unfamiliarity))
        alarms = np.mean([verdict == "not my domain" for verdict in after.decision])
        refused = np.mean([verdict != "accept" for verdict in far.decision])
        return [*judged, [1 - linear.score(test[0].flatten(1), test[1]), alarms, refused, 0]]

    before, after, (linear, alarms, refused, _) = np.mean([scores(seed) for seed in range(6)], axis=0)
    assert after[0] <= linear
    assert after[1] < before[1]
    assert after[2] < before[2]
    assert after[3] > before[3]
    assert alarms < 0.07
    assert refused >= 0.95


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
    assert (ours.mean(0) <= plain.mean(0) + 1e-6).all()
