"""Sets of classes on CLINC150's 150 intents beside MAPIE's: how many hold the true class, how large they are.

    python benchmarks/sets.py --queries clinc150_full.json [--coverage 0.9]

Logistic regression on words and pairs of words of 2,000 queries is right for 78 % of the 7,500 others, of
which 1,500 are held out and the rest are judged, in five splits. `split`, `aps` and `raps` are the methods of
`PredictionSets`, from the probabilities as they are; `calibrated` are the sets of `calibrate_probabilities`.
"""

import argparse
import json
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import totalcal
from totalcal.types import PointMass, Predictive

HELD_OUT, SPLITS = 1500, 5
MAPIES = {
    "MAPIE lac": ("lac", None),
    "MAPIE aps, randomised": ("aps", "randomized"),
    "MAPIE aps, last class included": ("aps", True),
    "MAPIE raps, randomised": ("raps", "randomized"),
}


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose input is what it answers."""

    def fit(self, inputs: np.ndarray, labels: np.ndarray) -> "Given":
        self.classes_, self.is_fitted_ = np.arange(inputs.shape[1]), True
        return self

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        return inputs

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        return inputs.argmax(1)


def probabilities(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Of queries that the classifier was not fitted on, and their intents as numbers."""
    queries = json.loads(path.read_text())
    few = np.random.default_rng(0).permutation(len(queries["train"]))[:2000]
    train, others = [queries["train"][row] for row in few], queries["test"] + queries["val"]
    words = TfidfVectorizer(ngram_range=(1, 2)).fit([text for text, _ in train])
    regression = LogisticRegression(C=30, max_iter=60)
    regression.fit(words.transform([text for text, _ in train]), [intent for _, intent in train])
    found = np.maximum(regression.predict_proba(words.transform([text for text, _ in others])), 1e-12)
    labels = np.searchsorted(regression.classes_, [intent for _, intent in others])
    return found / found.sum(1, keepdims=True), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--coverage", type=float, default=0.9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    given, labels = probabilities(options.queries)
    found = defaultdict(list)
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(labels))
        held_out, new = order[:HELD_OUT], order[HELD_OUT:]
        sets = {}
        for name, (method, last) in MAPIES.items():
            theirs = SplitConformalClassifier(
                Given().fit(given, labels), options.coverage, method, random_state=seed
            )
            theirs.conformalize(given[held_out], labels[held_out])
            more = {} if last is None else {"conformity_score_params": {"include_last_label": last}}
            sets[name] = theirs.predict_set(given[new], **more)[1][:, :, 0]
        prediction = Predictive(PointMass(torch.from_numpy(given[held_out]).log()[None]))
        for method in ("split", "aps", "raps"):
            fitted = totalcal.PredictionSets.fitted(prediction, labels[held_out], options.coverage, method)
            sets[method] = fitted.of(given[new])
        model = totalcal.calibrate_probabilities(given[held_out], labels[held_out])
        sets["calibrated"] = model.predict(torch.from_numpy(given[new])).set(options.coverage).numpy()
        for name, within in sets.items():
            held = within[np.arange(len(new)), labels[new]].mean()
            found[name].append((held, within.sum(1).mean(), within.sum(1).max()))
    right = (given.argmax(1) == labels).mean()
    print(f"{given.shape[1]} classes, {right:.1%} right, sets at {options.coverage:.0%}")
    for name, rows in found.items():
        held, size, largest = np.mean(rows, 0)
        print(f"{name}: holds {held:.1%}, {size:.2f} classes on average, {largest:.0f} at most")


if __name__ == "__main__":
    main()
