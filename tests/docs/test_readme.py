"""The code of the README runs as it stands, and what it promises of six seeds holds."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import totalcal
from totalcal.data import digits, letters
from totalcal.nets import small_convnet
from totalcal.scores import auroc, ece, error, nll

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_blocks_of_the_readme_run_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(re.sub(r"epochs=\d+", "epochs=2", block), names)
    assert names["model"].predict(names["test"][0]).probabilities.shape == (797, 10)
    assert list(tmp_path.glob("*.totalcal"))


def test_the_first_example_gains_in_nll_ece_and_ood_detection_and_refuses_letters() -> None:
    """Means of six seeds; also beside logistic regression, and with hardly a letter accepted."""
    pictures, labels = (torch.tensor(part) for part in digits())
    pictures = pictures[:, None] / 128 - 1
    others = torch.tensor(letters(size=8, count=1000).inputs)[:, None] / 128 - 1

    def scores(seed: int) -> list[list[float]]:
        torch.manual_seed(seed)
        order = torch.randperm(1797)
        train, held_out, test = ((pictures[rows], labels[rows]) for rows in order.split([500, 500, 797]))
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

    found = np.array([scores(seed) for seed in range(6)])
    _, after, (linear, alarms, refused, _) = found.mean(0)
    changes = found[:, 1] - found[:, 0]
    _, nll_change, ece_change, auroc_change = changes.mean(0) / (changes.std(0, ddof=1) / np.sqrt(6))
    assert after[0] <= linear
    assert nll_change < -2  # standard errors of the paired difference
    assert ece_change < -1
    assert auroc_change > 5
    assert alarms < 0.07
    assert refused >= 0.95
