"""How ETP's evidence map begins, and how its KLs scale with the number of rows: chosen on tables not judged.

    python benchmarks/small_tables_choice.py  # on twelve tables; `tables.py` judges on others

The free energy has the weights' KL divided by the number of rows N, so that with few rows the prior outweighs
them. A candidate is the scale of that KL, which may shrink with N, the scale of the local KL, and the
evidence map. The score of a table is the NLL by two-fold cross-validation, relative to the first candidate's,
so that every table has one voice; the least mean is taken. ECE is shown beside it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from tables import Table, generated

from totalcal import ETPClassifier, scores


class Candidate(NamedTuple):
    """`weights` is the scale of the weights' KL at `rows` rows and more; below, less, down to `least`."""

    weights: float
    rows: int
    least: float
    local: float
    evidence_map: str = "from_embedding"

    def arguments(self, rows: int) -> dict[str, Any]:
        scale = min(self.weights, max(self.least, self.weights * rows / self.rows))
        kls = {"weight_kl_scale": scale, "local_kl_scale": self.local}
        return {**kls, "evidence_map": self.evidence_map}

    def __str__(self) -> str:
        scale = f"{self.weights} from {self.rows:,} rows on, at least {self.least}"
        return f"{scale}; local {self.local}; {self.evidence_map}"


CANDIDATES = (
    Candidate(0.1, 1, 0.1, 1e-3),
    Candidate(0.1, 1, 0.1, 1e-4),
    Candidate(0.1, 1, 0.1, 1e-5),
    Candidate(0.1, 1_000, 0.0, 1e-3),
    Candidate(0.1, 1_000, 0.0, 1e-4),
    Candidate(0.1, 1, 0.1, 1e-3, "linear"),
)


def tables() -> Iterator[tuple[str, Table]]:
    """Small: 100 to 800 rows."""
    yield "iris", Table(*datasets.load_iris(return_X_y=True))
    for seed, (rows, columns, classes, overlap) in enumerate(
        [(100, 5, 2, 0.0), (200, 10, 3, 0.1), (300, 10, 2, 0.02), (600, 20, 4, 0.02), (800, 30, 5, 0.05)]
    ):
        made = datasets.make_classification(
            rows,
            columns,
            n_informative=columns // 2 + 1,
            n_classes=classes,
            class_sep=1.5,
            flip_y=overlap,
            random_state=seed,
        )
        yield f"made, {rows} × {columns}, {classes} classes", Table(*made)
    yield "Gaussians", generated(1, rows=400)
    yield "moons", Table(*datasets.make_moons(200, noise=0.3, random_state=0))
    yield "circles", Table(*datasets.make_circles(300, noise=0.15, factor=0.5, random_state=0))
    yield "blobs", Table(*datasets.make_blobs(150, 4, centers=5, cluster_std=3.0, random_state=0)[:2])
    yield (
        "quantiles",
        Table(*datasets.make_gaussian_quantiles(n_samples=400, n_features=4, n_classes=3, random_state=0)),
    )
    rows, labels = datasets.make_hastie_10_2(500, random_state=0)
    yield "Hastie's", Table(rows, (labels > 0).astype(int))


def cross_validated(candidate: Candidate, table: Table) -> tuple[float, float]:
    """NLL and ECE of the rows when each was held out."""
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    arguments = candidate.arguments(len(table.labels) // 2)
    model = ETPClassifier(model_arguments=arguments, remember=False, random_state=0)
    found = cross_val_predict(model, *table, cv=folds, method="predict_proba")
    return scores.nll(found, table.labels), float(scores.ece(found, table.labels))


def main() -> None:
    torch.set_num_threads(1)
    print("| table: NLL (ECE %) |", " | ".join(map(str, CANDIDATES)), "|")
    print("|---" * (1 + len(CANDIDATES)) + "|")
    parts, errors = [], []
    for name, table in tables():
        found = np.array([cross_validated(candidate, table) for candidate in CANDIDATES])
        parts.append(found[:, 0] / found[0, 0])
        errors.append(found[:, 1])
        print(
            f"| {name} |", " | ".join(f"{nll:.3f} ({100 * ece:.1f})" for nll, ece in found), "|", flush=True
        )
    means, calibration = np.mean(parts, axis=0), 100 * np.mean(errors, axis=0)
    cells = [f"{mean:.3f} ({ece:.1f})" for mean, ece in zip(means, calibration, strict=True)]
    print("| relative to the first |", " | ".join(cells), "|")
    print("least:", CANDIDATES[int(means.argmin())])


if __name__ == "__main__":
    main()
