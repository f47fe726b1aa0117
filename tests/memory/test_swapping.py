"""Predictions while another thread gives the model another memory: each is of one memory, whole."""

import threading

import torch
from torch import nn

from totalcal import remember, softmax


def test_a_prediction_is_of_one_memory_while_others_take_its_place():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(240) % 3
    rows = 2 * torch.eye(3, 4)[labels] + torch.randn(240, 4, generator=generator)
    torch.manual_seed(0)
    model = softmax(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), 3).eval()
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
