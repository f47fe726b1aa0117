"""A tiny model of digits that knows its domain, and a service of it on loopback."""

import threading
import time

import httpx
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import totalcal
from totalcal.data.preprocessing import PictureSteps, Preprocessing
from totalcal.decisions import FalseRejection, Gate
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.decisions.sets import PredictionSets
from totalcal.files.saved import Model
from totalcal.serving.guard import Limits
from totalcal.serving.listening import server
from totalcal.serving.service import Service

from ..gates import both


@pytest.fixture(scope="session")
def digits():
    """The digits' images in [0, 1], 1 × 8 × 8, and their labels."""
    found = load_digits()
    return found.images[:, None] / 16, found.target


@pytest.fixture(scope="session")
def saved(digits):
    images, labels = digits
    generator = torch.get_rng_state()
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10),
    )  # fmt: skip
    model = totalcal.etp(net, num_classes=10)
    preprocessing = Preprocessing(
        (1, 8, 8), torch.tensor(0.3), torch.tensor(0.4), pictures=PictureSteps((8, 8), colour=False)
    )
    inputs, truth = preprocessing(images), torch.tensor(labels)
    totalcal.train(model, inputs[:1000], truth[:1000], epochs=15)
    totalcal.remember(model, (inputs[:1000], truth[:1000]), (inputs[1000:1400], truth[1000:1400]))
    torch.set_rng_state(generator)
    held_out = images[1400:]
    without = Model(model, preprocessing=preprocessing, classes=tuple(range(10)))
    gates = (
        Gate.fit(without, held_out, labels[1400:], rule=FalseRejection(rate), score=score, draws=5)
        for score, rate in (("unfamiliarity", 0.005), ("entropy", 0.045))
    )
    gate = both(*gates)
    prediction = without.predict(held_out, draws=5)
    monitor = Monitor.start(watched_scores(prediction))
    sets = PredictionSets.fitted(prediction, labels[1400:], 0.9)
    return Model(model, gate, tuple(range(10)), preprocessing, monitor=monitor, sets=sets)


class Running:
    """An HTTP server in a thread."""

    def __init__(self, service):
        self.service, self.server = service, server(service, port=0)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def client(self, **more):
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False, **more)

    def stop(self):
        self.server.should_exit = True
        self.thread.join(30)


@pytest.fixture
def serve(saved):
    """Start services; all are stopped at the end."""
    running = []

    def start(**more):
        running.append(Running(Service(saved, "digits", **more)))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture(scope="module")
def running(saved):
    service = Running(Service(saved, "digits", limits=Limits(body=200_000, rows=50, seconds=2.0)))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def client(running):
    with running.client() as each:
        yield each


@pytest.fixture
def picture():
    """The bytes of a PNG of an 8 × 8 image in [0, 1]."""

    def png(image):
        from io import BytesIO

        from PIL import Image

        buffer = BytesIO()
        Image.fromarray(np.rint(image.reshape(8, 8) * 255).astype(np.uint8)).save(buffer, "PNG")
        return buffer.getvalue()

    return png
