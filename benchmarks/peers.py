"""Our steps, predictions, fits and verdicts next to those of other packages: one net, one run, one thread.

    python benchmarks/peers.py [--rounds 20]

The net is LeNet5 on 28×28 images in torch's default layout, as the users of each package have it; a batch has
128 rows. Packages: bayesian-torch, torch-uncertainty, laplace-torch, pytorch-ood, MAPIE. Those that are not
installed, or fail, are listed with the reason. All candidates of a job take turns; a ratio is the median over
the rounds of two times of a round. Ours remembers held-out rows too, half as many as are fitted.
"""

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import numpy as np
import torch
from interleaved import arguments, measured, table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from totalcal import Gate, bnn, remember, softmax
from totalcal.decisions import FalseRejection
from totalcal.models.process import TuringProcess
from totalcal_lab.backbones import lenet5

BATCH, DRAWS, CLASSES, FITTED, HELD_OUT = 128, 10, 10, 2_000, 1_000
Job = Callable[[], object]
Layer = Callable[[int, int], nn.Module]


def images(rows: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 1, 28, 28), torch.arange(rows) % CLASSES


class Jobs:
    """The candidates of one job; one whose package fails is listed, and leaves the others alone."""

    def __init__(self) -> None:
        self.candidates: dict[str, Job] = {}
        self.left_out: dict[str, str] = {}

    @contextmanager
    def trying(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # whatever a package of others does
            words = str(problem).splitlines() or [""]
            self.left_out[name] = f"{type(problem).__name__}: {words[0][:120]}"

    def add(self, name: str, make: Callable[[], Job]) -> None:
        with self.trying(name):
            job = make()
            job()
            self.candidates[name] = job

    def print(self, title: str, ours: str, rounds: int) -> None:
        print(f"## {title}\n\n{table(measured(self.candidates, rounds), ours)}")
        for name, reason in self.left_out.items():
            print(f"\nleft out: {name} ({reason})")
        print(flush=True)


def with_linear_layers(layer: Layer) -> nn.Sequential:
    """LeNet5 with its linear layers replaced."""
    return nn.Sequential(
        *(
            layer(link.in_features, link.out_features) if isinstance(link, nn.Linear) else link
            for link in lenet5(CLASSES)
        )
    )


class WithoutKL(nn.Module):
    """A layer of bayesian-torch in a chain: it gives its output and its KL."""

    def __init__(self, inputs: int, outputs: int, name: str) -> None:
        super().__init__()
        layers = importlib.import_module("bayesian_torch.layers")
        self.layer, self.kl = getattr(layers, name)(inputs, outputs), torch.zeros(())

    def forward(self, inputs: Tensor) -> Tensor:
        output, self.kl = self.layer(inputs)
        return output  # type: ignore[no-any-return]


def bayesian_torch_net(name: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    net = with_linear_layers(lambda inputs, outputs: WithoutKL(inputs, outputs, name))
    return net, lambda: sum((layer.kl for layer in net if isinstance(layer, WithoutKL)), torch.zeros(()))


def torch_uncertainty_net() -> tuple[nn.Module, Callable[[], Tensor]]:
    layers = importlib.import_module("torch_uncertainty.layers.bayesian")
    net = with_linear_layers(layers.BayesLinear)

    def kl() -> Tensor:
        drawn = [layer for layer in net if isinstance(layer, layers.BayesLinear)]
        parts = [layer.log_variational_posterior - layer.log_prior for layer in drawn]
        return torch.stack(parts).sum()

    return net, kl


def torch_step(net: nn.Module, kl: Callable[[], Tensor] | None) -> Job:
    (inputs, labels), optimizer = images(BATCH), torch.optim.Adam(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        if kl is not None:
            loss = loss + kl() / 60_000
        loss.backward()
        optimizer.step()

    return step


def own_step(model: TuringProcess) -> Job:
    (inputs, labels), optimizer = images(BATCH), torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(inputs, labels).total(examples=60_000).backward()
        optimizer.step()

    return step


def steps() -> Jobs:
    jobs = Jobs()
    jobs.add("ours, bnn", lambda: own_step(bnn(lenet5(CLASSES), CLASSES)))
    jobs.add("torch, the plain net", lambda: torch_step(lenet5(CLASSES), None))
    for name in ("LinearReparameterization", "LinearFlipout"):
        jobs.add(f"bayesian-torch, {name}", lambda name=name: torch_step(*bayesian_torch_net(name)))  # type: ignore[misc]
    jobs.add("torch-uncertainty, BayesLinear", lambda: torch_step(*torch_uncertainty_net()))
    return jobs


def own_prediction(model: TuringProcess, draws: int | str) -> Job:
    inputs = images(BATCH)[0]
    model.eval()

    def predict() -> object:
        prediction = model.predict(inputs, draws=draws)  # type: ignore[arg-type]
        return prediction.probabilities, prediction.entropy

    return predict


def drawn_prediction(net: nn.Module) -> Job:
    """As their users do: so many passes, and the mean of their probabilities."""
    inputs = images(BATCH)[0]
    net.eval()

    @torch.no_grad()
    def predict() -> object:
        probabilities = torch.stack([net(inputs).softmax(-1) for _ in range(DRAWS)]).mean(0)
        return probabilities, torch.special.entr(probabilities).sum(-1)

    return predict


def laplace(net: nn.Module) -> "object":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = importlib.import_module("laplace").Laplace(
            net, "classification", subset_of_weights="last_layer", hessian_structure="kron"
        )
        fitted.fit(loader(FITTED))
    return fitted


def laplace_prediction() -> Job:
    fitted, inputs = laplace(lenet5(CLASSES).eval()), images(BATCH)[0]
    return lambda: fitted(inputs, link_approx="probit")  # type: ignore[operator]


def predictions() -> Jobs:
    jobs, model = Jobs(), bnn(lenet5(CLASSES), CLASSES)
    jobs.add("ours, bnn, 10 draws", lambda: own_prediction(model, DRAWS))
    jobs.add("ours, bnn, moments", lambda: own_prediction(model, "moments"))
    jobs.add(
        "bayesian-torch, 10 passes",
        lambda: drawn_prediction(bayesian_torch_net("LinearReparameterization")[0]),
    )
    jobs.add("torch-uncertainty, 10 passes", lambda: drawn_prediction(torch_uncertainty_net()[0]))
    jobs.add("laplace-torch, last layer, probit", laplace_prediction)
    return jobs


def loader(rows: int) -> "DataLoader[tuple[Tensor, ...]]":
    return DataLoader(TensorDataset(*images(rows)), batch_size=BATCH)


DETECTORS = {
    "Mahalanobis": "features",
    "RMD": "features",
    "KNN": "features",
    "ViM": "features",
    "EnergyBased": "logits",
    "MaxSoftmax": "logits",
}


def detector(name: str) -> tuple[object, Job]:
    """A detector of pytorch-ood, and how it is fitted."""
    net = lenet5(CLASSES).eval()
    kind = getattr(importlib.import_module("pytorch_ood.detector"), name)
    classifier = net[-1]
    if name == "ViM":
        found = kind(net[:-1], d=100, w=classifier.weight, b=classifier.bias)
    else:
        found = kind(net[:-1] if DETECTORS[name] == "features" else net)
    return found, lambda: found.fit(loader(FITTED))


def own_memory() -> tuple[TuringProcess, Job]:
    model = softmax(lenet5(CLASSES), CLASSES).eval()
    train, held_out = images(FITTED), images(HELD_OUT)
    return model, lambda: remember(model, train, held_out, progress=False)


def fits() -> Jobs:
    jobs = Jobs()
    jobs.add("ours, remember (three layers)", lambda: own_memory()[1])
    for name in ("Mahalanobis", "RMD", "KNN", "ViM"):
        jobs.add(f"pytorch-ood, {name}", lambda name=name: detector(name)[1])  # type: ignore[misc]
    jobs.add("laplace-torch, last layer, kron", lambda: lambda: laplace(lenet5(CLASSES).eval()))
    return jobs


def verdicts() -> Jobs:
    """How unusual 128 inputs are, from pictures to numbers."""
    jobs, inputs = Jobs(), images(BATCH)[0]

    def own() -> Job:
        model, fit = own_memory()
        fit()
        return lambda: model.predict(inputs).familiarity

    def theirs(name: str) -> Job:
        found, fit = detector(name)
        fit()

        @torch.no_grad()
        def verdict() -> object:
            return found.predict(inputs)  # type: ignore[attr-defined]

        return verdict

    jobs.add("ours, familiarity (three layers)", own)
    for name in DETECTORS:
        jobs.add(f"pytorch-ood, {name}", lambda name=name: theirs(name))  # type: ignore[misc]
    return jobs


class Classifier:
    """The net with the face of scikit-learn that MAPIE asks for."""

    _estimator_type = "classifier"

    def __init__(self, model: TuringProcess) -> None:
        self.model, self.classes_, self.n_features_in_ = model, np.arange(CLASSES), 28 * 28

    def fit(self, rows: np.ndarray, labels: np.ndarray) -> "Classifier":
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> object:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().__sklearn_tags__()

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        pictures = torch.as_tensor(rows, dtype=torch.float32).view(-1, 1, 28, 28)
        return self.model.predict(pictures).probabilities.numpy()

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return self.predict_proba(rows).argmax(-1)


def promises() -> Jobs:
    """A threshold set on 1,000 held-out rows, and 128 new ones decided; the same net in both."""
    jobs, model = Jobs(), softmax(lenet5(CLASSES), CLASSES).eval()
    (held_out, labels), inputs = images(HELD_OUT), images(BATCH)[0]

    def gate() -> object:
        fitted = Gate.fit(model, held_out, labels, rule=FalseRejection(0.1))
        return fitted.decide(model, inputs)

    def mapie() -> Job:
        classification = importlib.import_module("mapie.classification")

        def decide() -> object:
            conformal = classification.SplitConformalClassifier(
                Classifier(model), confidence_level=0.9, prefit=True
            )
            conformal.conformalize(held_out.flatten(1).numpy(), labels.numpy())
            return conformal.predict_set(inputs.flatten(1).numpy())

        return decide

    jobs.add("ours, a gate", lambda: gate)
    jobs.add("MAPIE, split conformal", mapie)
    return jobs


def vision_operators() -> torch.library.Library | None:
    """torchvision, which others import, names operators that a build for another torch does not bring.

    The names hold as long as what is returned does.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
        return library
    except ImportError:
        pass
    return None


def main() -> None:
    options = arguments(__doc__, rounds=20)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    _operators = vision_operators()
    for package in ("bayesian-torch", "torch-uncertainty", "laplace-torch", "pytorch-ood", "mapie"):
        try:
            print(f"{package} {version(package)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{package}: not installed")
    print()
    steps().print("A training step", "ours, bnn", options.rounds)
    predictions().print("A prediction of 128 images", "ours, bnn, 10 draws", options.rounds)
    few = max(options.rounds // 5, 3)
    fits().print(f"Fitting a detector on {FITTED:,} images", "ours, remember (three layers)", few)
    verdicts().print("How unusual are 128 images?", "ours, familiarity (three layers)", options.rounds)
    promises().print("A threshold and its decisions", "ours, a gate", few)


if __name__ == "__main__":
    main()
