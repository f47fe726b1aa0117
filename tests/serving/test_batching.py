"""Requests that meet in a batch get their own answers, and none is lost."""

import threading
import time

import numpy as np
import pytest

from totalcal.files.predicting.answers import Answers
from totalcal.serving.batching import Batcher, BusyError, ClosedError


def echo(rows):
    """A model whose probability is the row itself."""
    values = np.stack(rows)
    if (values < 0).any():
        raise ValueError("a negative row")
    none = [""] * len(rows)
    return Answers((0,), values, {"entropy": values[:, 0]}, none, none, "means")


class Slow:
    """A model that waits until it is let go, and counts its calls."""

    def __init__(self):
        self.go, self.sizes = threading.Event(), []

    def __call__(self, rows):
        self.go.wait(10)
        self.sizes.append(len(rows))
        return echo(rows)


@pytest.fixture
def slow():
    model = Slow()
    yield model
    model.go.set()


def rows(*values):
    return [np.array([float(value)]) for value in values]


def test_every_one_of_64_threads_gets_the_answer_to_its_own_rows():
    batcher, found = Batcher(echo), {}

    def ask(number):
        for step in range(20):
            value = 1000 * number + step
            found[value] = batcher.submit(rows(value, value)).result(10).probabilities

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batcher.close()
    assert len(found) == 64 * 20
    assert all((answer == value).all() and answer.shape == (2, 1) for value, answer in found.items())


def test_what_comes_while_the_model_works_is_one_batch(slow):
    batcher = Batcher(slow)
    answers = [batcher.submit(rows(0))]
    time.sleep(0.05)
    answers += [batcher.submit(rows(value, value)) for value in range(10)]
    slow.go.set()
    assert [answer.result(10).probabilities[0, 0] for answer in answers] == [0, *range(10)]
    assert slow.sizes == [1, 20]
    batcher.close()


def test_exact_answers_each_request_by_itself(slow):
    batcher = Batcher(slow, exact=True)
    answers = [batcher.submit(rows(value, value)) for value in range(5)]
    slow.go.set()
    assert [len(answer.result(10).probabilities) for answer in answers] == [2] * 5
    assert slow.sizes == [2] * 5
    batcher.close()


def test_a_batch_is_held_open_for_a_request_that_is_being_read():
    model = Slow()
    model.go.set()
    batcher = Batcher(model, gather=5)
    batcher.expect(1)
    first = batcher.submit(rows(1))
    second = batcher.submit(rows(2))
    batcher.expect(-1)
    assert first.result(1).probabilities == 1
    assert second.result(1).probabilities == 2
    batcher.close()
    assert model.sizes == [2]


def test_a_request_that_fails_does_not_take_others_along(slow):
    batcher = Batcher(slow)
    first = batcher.submit(rows(0))
    time.sleep(0.05)
    good, bad, other = batcher.submit(rows(1)), batcher.submit(rows(-1)), batcher.submit(rows(2))
    slow.go.set()
    assert first.result(10).probabilities == 0
    assert good.result(10).probabilities == 1
    assert other.result(10).probabilities == 2
    with pytest.raises(ValueError, match="negative"):
        bad.result(10)
    batcher.close()
    assert batcher.waiting == 0


def test_closing_answers_all_that_was_submitted_and_refuses_the_rest(slow):
    batcher = Batcher(slow)
    answers = [batcher.submit(rows(value)) for value in range(30)]
    threading.Timer(0.1, slow.go.set).start()
    batcher.close()
    assert [answer.result(0).probabilities[0, 0] for answer in answers] == list(range(30))
    with pytest.raises(ClosedError):
        batcher.submit(rows(1))


def test_more_than_may_wait_is_refused_at_once(slow):
    batcher = Batcher(slow, most_waiting=3)
    batcher.submit(rows(1, 2))
    with pytest.raises(BusyError, match="2 rows"):
        batcher.submit(rows(3, 4))
    slow.go.set()
    batcher.close()


def test_an_answer_that_cannot_be_dealt_out_fails_its_request_alone():
    class Broken:
        def rows(self, start, stop):
            raise ValueError("no rows")

    batcher = Batcher(lambda rows: Broken() if rows[0] < 0 else echo(rows))
    with pytest.raises(ValueError, match="no rows"):
        batcher.submit(rows(-1)).result(10)
    assert batcher.submit(rows(3)).result(10).probabilities == 3
    batcher.close()
