"""Predictions while another thread gives the model another memory: each is of one memory, whole."""

import threading

import torch
from torch import Tensor, nn

from totalcal import TuringProcess, remember, softmax

LABELS = torch.arange(240) % 3


def rows_and_model() -> tuple[Tensor, TuringProcess]:
    generator = torch.Generator().manual_seed(0)
    rows = 2 * torch.eye(3, 4)[LABELS] + torch.randn(240, 4, generator=generator)
    torch.manual_seed(0)
    return rows, softmax(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), 3).eval()


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
