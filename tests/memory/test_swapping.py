"""Predictions while another thread gives the model another memory: each is of one memory, whole."""

import copy
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import totalcal
from totalcal import SoftmaxClassifier, TuringProcess, remember, softmax
from totalcal.files.saved import Model
from totalcal.serving.service import Service

LABELS = torch.arange(240) % 3


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def rows_and_model() -> tuple[Tensor, TuringProcess]:
    generator = torch.Generator().manual_seed(0)
    rows = 2 * torch.eye(3, 4)[LABELS] + torch.randn(240, 4, generator=generator)
    torch.manual_seed(0)
    return rows, softmax(layers(), 3).eval()


def test_a_memory_that_predictions_may_be_reading_is_never_written_to():
    rows, model = rows_and_model()
    remember(model, (rows[:120], LABELS[:120]), (rows[120:], LABELS[120:]), progress=False)
    for change in (
        lambda: model.memorise(rows[:60] + 12, torch.full((60,), 3), name="new"),
        lambda: model.memorise(rows[:60] - 12, LABELS[:60], name="elsewhere"),
        lambda: model.forget("new"),
        lambda: remember(model, (rows[:90], LABELS[:90]), (rows[90:], LABELS[90:]), progress=False),
    ):
        before = model.domain
        state, settings = {k: v.clone() for k, v in before.state_dict().items()}, before.settings()
        change()
        assert model.domain is not before
        assert before.settings() == settings
        assert before.state_dict().keys() == state.keys()
        assert all(torch.equal(value, state[key]) for key, value in before.state_dict().items())


def test_a_prediction_is_of_one_memory_while_others_take_its_place():
    rows, model = rows_and_model()
    labels = LABELS
    asked, other = rows[:20], (rows[:60] + 12, labels[:60])

    def first() -> None:
        remember(model, (rows[:120], labels[:120]), (rows[120:], labels[120:]), progress=False)

    def second() -> None:
        model.memorise(*other, name="elsewhere")

    known = []
    for change in (first, second):
        change()
        known.append(model.predict(asked).familiarity)
    problems: list[object] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                found = model.predict(asked).familiarity
            except Exception as problem:
                problems.append(problem)
            else:
                if not any(torch.allclose(found, each) for each in known):
                    problems.append(found)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        first()
        second()
    over.set()
    for thread in threads:
        thread.join()
    assert not problems, (len(problems), problems[:2])


class Meanwhile:
    """A hook that does something the first time that a layer runs, as another thread might."""

    only_looks = True

    def __init__(self, what: Callable[[], object]) -> None:
        self.left = [what]

    def __call__(self, *_: object) -> None:
        while self.left:
            self.left.pop()()


def taught() -> tuple[Tensor, Model]:
    """Rows of three classes and a fourth, and a model that has learned the fourth."""
    rows, model = rows_and_model()
    remember(model, (rows[:120], LABELS[:120]), (rows[120:], LABELS[120:]), progress=False)
    found = Model(model, classes=("a", "b", "c"))
    found.memorise(rows[:60] + 12, ["d"] * 60, name="d")
    return torch.cat([rows, rows[:60] + 12]), found


NAMES = ["abc"[label] for label in LABELS.tolist()] + ["d"] * 60
IN_STEPS: dict[str, Callable[[Model, Tensor], Any]] = {
    "report": lambda model, rows: model.report((rows, NAMES)).verdict,
    "audit": lambda model, rows: len(totalcal.audit(model, rows, NAMES).probabilities[0]),
    "evaluate": lambda model, rows: str(totalcal.evaluate(model, (rows, NAMES), batch_size=50)),
}


@pytest.mark.parametrize("name", IN_STEPS)
def test_what_looks_at_a_model_in_steps_sees_one_model(name):
    rows, model = taught()
    expected = IN_STEPS[name](model, rows)
    model.process.backbone[0].register_forward_hook(Meanwhile(lambda: model.forget("d")))
    assert IN_STEPS[name](model, rows) == expected
    assert model.classes == ("a", "b", "c")


def test_a_report_leaves_the_answers_that_others_get_meanwhile_alone():
    rows, _ = rows_and_model()
    model = totalcal.calibrate(layers(), (rows[:120], LABELS[:120]), (rows[120:] * 3, LABELS[120:]))
    expected, found = model.predict(rows).probabilities, []
    hook = Meanwhile(lambda: None)
    model.process.backbone[0].register_forward_hook(hook)

    def ask() -> None:
        found.append(model.predict(rows).probabilities)
        if len(found) < 20:
            hook.left.append(ask)

    hook.left.append(ask)
    model.report((rows, LABELS))
    assert len(found) > 1
    assert all(torch.equal(each, expected) for each in found)


def test_a_file_is_of_one_model_whatever_it_learns_meanwhile(tmp_path):
    _, model = taught()
    before = model.digest

    class Scores(Mapping[str, float]):
        """They are read in the middle of the writing."""

        def __getitem__(self, name: str) -> float:
            return 0.5

        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[str]:
            if "d" in (model.classes or ()):
                model.forget("d")
            return iter(["nll"])

    model.scores = Scores()
    model.save(tmp_path / "it.totalcal")
    found = totalcal.load(tmp_path / "it.totalcal", backbone=layers())
    assert (found.classes, found.digest) == (("a", "b", "c", "d"), before)


COPIES: dict[str, Callable[[Model], Model]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
}


class Told(dict[str, float]):
    """Something happens when it is copied, as another thread might do it."""

    def __init__(self, what: Callable[[], object]) -> None:
        super().__init__()
        self.what = what

    def __reduce__(self) -> tuple[type, tuple[()]]:
        self.what()
        return dict, ()


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_of_one_model_whatever_it_learns_meanwhile(how):
    rows, model = taught()
    expected = model.predict(rows).probabilities
    model.gate = Told(lambda: "d" in model.classes and model.forget("d"))  # copied before the classes are
    found = COPIES[how](model)
    assert found.classes == ("a", "b", "c", "d")
    assert torch.equal(found.predict(rows).probabilities, expected)


@pytest.mark.parametrize("how", COPIES)
def test_what_a_copy_learns_the_model_does_not_know(how):
    _, model = taught()
    before = model.digest
    COPIES[how](model).forget("d")
    assert model.digest == before
    assert model.classes == ("a", "b", "c", "d")


def test_a_service_answers_by_the_model_that_its_digest_names():
    pytest.importorskip("prometheus_client")
    rows, model = taught()
    service = Service(model)
    model.forget("d")
    found = service.batcher.submit(list(rows[:3].numpy())).result(30)
    service.close()
    assert (found.classes, found.probabilities.shape) == (("a", "b", "c", "d"), (3, 4))
    assert service.digest == service.saved.digest != model.digest


def test_an_estimator_names_the_classes_of_one_memory():
    draw = np.random.default_rng(0)
    labels = np.arange(900) % 2
    rows = draw.normal(size=(900, 3)) + 8 * np.eye(2, 3)[labels]
    estimator = SoftmaxClassifier(max_epochs=5, random_state=0).fit(rows, np.array(["a", "b"])[labels])
    new = draw.normal(size=(60, 3)) + 15 * np.eye(3)[2]
    estimator.memorise(new, ["c"] * 60, "c")
    expected = estimator.predict(new)
    estimator.model_.backbone[0].register_forward_hook(Meanwhile(lambda: estimator.forget("c")))
    assert (estimator.predict(new) == expected).all()
    assert "c" in expected
    assert estimator.classes_.tolist() == ["a", "b"]
