"""The life of a model in any order: predict, memorise, forget, save, load, export, serve, watch, kills.

    python soak/lifecycle.py --steps 10000 --seed 0

Beside the model goes a list of what it was taught. After every step it has to be the model that this list
makes of the file it began as: in its answers, its digest, its file, its service, its export and its tables.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import torch
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import totalcal
from journal import Journal
from totalcal.data.preprocessing import Preprocessing
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.decisions.watching import watch_file
from totalcal.errors import TotalcalError
from totalcal.files.container import read_container
from totalcal.files.exporting.writing import export
from totalcal.files.predicting.exported import open_exported
from totalcal.files.predicting.stream import predict_file
from totalcal.files.saved import Model
from totalcal.nets import mlp
from totalcal.serving.app import application
from totalcal.serving.service import Service

WIDTH, CLASSES, AWAY = 8, 3, 6.0
EXPORTS = 0.02  # of the exports that are drawn: one takes seconds
STEPS: dict[str, int] = {}
"""How often each step was taken."""


class TornError(AssertionError):
    """A prediction that is neither of the model before a change nor of the one after."""


class Lesson(NamedTuple):
    """Rows of a class that the net does not know, on a corner of their own."""

    name: str
    corner: int
    seed: int

    def rows(self, count: int = 60) -> torch.Tensor:
        noise = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(self.seed))
        noise[:, CLASSES + self.corner] += 3 * AWAY
        return noise


def domain(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows like those that the net was trained on."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    rows = torch.randn(count, WIDTH, generator=draw)
    rows[torch.arange(count), labels] += AWAY
    return rows, labels


@cache
def beginning() -> Path:
    """The file of a calibrated model, which every life begins with."""
    torch.manual_seed(0)
    process = totalcal.etp(mlp(WIDTH, CLASSES, hidden=(16,)), CLASSES)
    train, held_out = domain(300, 1), domain(600, 2)
    totalcal.fit(process, train, epochs=5, progress=False)
    model = totalcal.calibrate(process, train, held_out, classes=["a", "b", "c"])
    path = Path(tempfile.mkdtemp(prefix="totalcal-life-")) / "begun.totalcal"
    steps = Preprocessing((WIDTH,), torch.zeros(WIDTH), torch.ones(WIDTH))
    monitor = Monitor.start(watched_scores(model.predict(held_out[0])))
    totalcal.save(
        model.process, path, gate=model.gate, classes=model.classes, preprocessing=steps, monitor=monitor
    )
    return path


PROBE = torch.cat([domain(12, 3)[0], *(Lesson("", corner, 4).rows(2) for corner in range(3))]).double()


@cache
def made(lessons: tuple[Lesson, ...]) -> tuple[str, Any]:
    """The digest and the answers of the model that these lessons make of the file at the beginning."""
    model = totalcal.load(beginning())
    for lesson in lessons:
        model.memorise(lesson.rows(), [lesson.name] * 60, name=lesson.name)
    return model.digest, answers(model)


def answers(model: Model) -> dict[str, np.ndarray]:
    prediction = model.predict(PROBE)
    return {
        "probabilities": np.asarray(prediction.probabilities),
        "familiarity": np.asarray(prediction.familiarity),
        "names": np.array(list(map(str, model.classes or ()))),
    }


def unlike(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> str:
    """What differs, in words."""
    return ", ".join(
        f"{name} {found[name].shape} by {np.abs(found[name] - values).max():.3g}"
        if found[name].shape == values.shape and values.dtype.kind == "f"
        else f"{name} {found[name]!s:.80} for {values!s:.80}"
        for name, values in expected.items()
    )


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(
        found[name].shape == values.shape
        and (
            np.array_equal(found[name], values)
            if values.dtype.kind == "U"
            else np.allclose(found[name], values, atol=1e-6)
        )
        for name, values in expected.items()
    )


class Life(RuleBasedStateMachine):
    """One model from its file to the end of the run, in the steps that hypothesis chooses."""

    exports = EXPORTS

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="totalcal-life-"))
        self.model = totalcal.load(beginning())
        self.lessons: tuple[Lesson, ...] = ()
        self.checked = -1
        self.is_watched = True  # until it learns

    def teardown(self) -> None:
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)

    def count(self, step: str) -> None:
        STEPS[step] = STEPS.get(step, 0) + 1

    @invariant()
    def it_is_what_its_lessons_make_it(self) -> None:
        if hasattr(self, "lessons") and self.checked != hash(self.lessons):
            digest, expected = made(self.lessons)
            assert same(answers(self.model), expected), [each.name for each in self.lessons]
            assert self.model.digest == digest, [each.name for each in self.lessons]
            assert (self.model.monitor is not None) == self.is_watched
            self.checked = hash(self.lessons)

    def taught(self, lessons: tuple[Lesson, ...]) -> None:
        self.lessons, self.checked, self.is_watched = lessons, -1, False

    # -- steps

    @rule(seed=st.integers(0, 10**6))
    def predict(self, seed: int) -> None:
        """Finite, on the simplex, the same for any order, and familiar as often as was promised."""
        self.count("predict")
        rows, _ = domain(200, 10 + seed)
        prediction = self.model.predict(rows)
        order = torch.randperm(200, generator=torch.Generator().manual_seed(seed))
        again = self.model.predict(rows[order])
        p = np.asarray(prediction.probabilities)
        assert np.isfinite(p).all()
        assert (p >= 0).all()
        assert np.allclose(p.sum(1), 1, atol=1e-5)
        assert np.allclose(np.asarray(again.probabilities), p[order], atol=1e-5)
        p_values = np.asarray(prediction.familiarity)
        assert ((p_values > 0) & (p_values <= 1)).all()
        for level in (0.05, 0.2):  # beyond the binomial's and the held-out rows' own spread, five times
            spread = 5 * np.sqrt(level * (1 - level) * (1 / 200 + 1 / 150))
            assert (p_values <= level).mean() <= level + spread

    @precondition(lambda self: len(self.lessons) < 3)
    @rule(corner=st.integers(0, 2), seed=st.integers(0, 3))
    def memorise(self, corner: int, seed: int) -> None:
        assume(corner not in {lesson.corner for lesson in self.lessons})
        self.count("memorise")
        lesson = Lesson(f"new {corner}", corner, 100 + seed)
        self.model.memorise(lesson.rows(), [lesson.name] * 60, name=lesson.name)
        self.taught((*self.lessons, lesson))
        fresh = Lesson("", corner, 999).rows(20)
        found = self.model.predict(fresh)
        names = [str(self.model.classes[place]) for place in found.probabilities.argmax(1).tolist()]
        assert names.count(lesson.name) >= 18

    @precondition(lambda self: self.lessons)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        self.count("forget")
        gone = data.draw(st.sampled_from(self.lessons))
        self.model.forget(gone.name)
        self.taught(tuple(each for each in self.lessons if each != gone))

    @rule()
    def refuse(self) -> None:
        """What cannot be learned leaves the model as it was."""
        self.count("refuse")
        before = self.model.digest
        for rows, labels, name in (
            (torch.full((60, WIDTH), float("nan")), ["x"] * 60, "x"),
            (torch.zeros(60, WIDTH + 1), ["x"] * 60, "x"),
            (torch.zeros(0, WIDTH), [], "x"),
            *((each.rows(), [each.name] * 60, each.name) for each in self.lessons[:1]),
        ):
            try:
                self.model.memorise(rows, labels, name=name)
            except TotalcalError:
                continue
            raise AssertionError(f"rows of shape {tuple(rows.shape)} were learned as {name}")
        assert self.model.digest == before

    @rule()
    def save_and_load(self) -> None:
        self.count("save and load")
        path = self.folder / "saved.totalcal"
        self.model.save(path)
        found = totalcal.load(path)
        assert read_container(path).digest == found.digest == self.model.digest
        assert same(answers(found), answers(self.model))
        self.model = found

    @rule(fraction=st.floats(0, 1))
    def kill_while_saving(self, fraction: float) -> None:
        self.count("kill")
        path = self.folder / "killed.totalcal"
        shutil.copy(beginning(), path)
        child = os.fork()
        if child == 0:
            while True:
                self.model.save(path)
        time.sleep(0.03 * fraction)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        digest = read_container(path).digest
        assert digest in (self.model.digest, read_container(beginning()).digest)
        assert totalcal.load(path).digest == digest

    @precondition(lambda self: len(self.lessons) < 3)
    @rule(corner=st.integers(0, 2), seed=st.integers(0, 3))
    def memorise_and_forget_while_others_predict(self, corner: int, seed: int) -> None:
        """What they see and would save is one of the two models, never a part of both."""
        assume(corner not in {lesson.corner for lesson in self.lessons})
        self.count("threads")
        lesson = Lesson(f"new {corner}", corner, 100 + seed)
        (digest, before), (other, after) = made(self.lessons), made((*self.lessons, lesson))
        torn: list[str] = []
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                try:
                    prediction = self.model.predict(PROBE)
                    found = {
                        "probabilities": np.asarray(prediction.probabilities),
                        "familiarity": np.asarray(prediction.familiarity),
                        "names": np.array(list(map(str, prediction.classes or ()))),
                    }
                    if not (same(found, before) or same(found, after)):
                        torn.append(unlike(found, before))
                    if self.model.digest not in (digest, other):
                        torn.append("a file of neither model")
                except Exception as error:
                    torn.append(repr(error))

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            self.model.memorise(lesson.rows(), [lesson.name] * 60, name=lesson.name)
            self.model.forget(lesson.name)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        if torn:
            raise TornError(torn[:3])
        self.taught(self.lessons)

    @rule()
    def serve(self) -> None:
        """Over HTTP, all at once: the answers of the model, and its name."""
        self.count("serve")

        async def ask(app: Any) -> list[Any]:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                posts = [client.post("/predict", json={"row": row}) for row in PROBE.tolist()]
                return [each.json() for each in await asyncio.gather(*posts)]

        service = Service(self.model)
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):  # its log
            with ThreadPoolExecutor(1) as outside:  # a browser of other tests has a loop in this thread
                said = outside.submit(asyncio.run, ask(application(service))).result()
            service.close()
        assert {each["digest"] for each in said} == {self.model.digest}
        found = np.array([list(each["predictions"][0]["probabilities"].values()) for each in said])
        assert np.allclose(found, answers(self.model)["probabilities"], atol=1e-5)

    @rule()
    def predict_a_file_and_watch(self) -> None:
        self.count("table")
        model, table, rows = (self.folder / name for name in ("m.totalcal", "out.csv", "rows.npz"))
        for left in (table, model):
            left.unlink(missing_ok=True)
        np.savez(rows, PROBE.numpy())
        self.model.save(model)
        done = predict_file(model, rows, table, expect=self.model.digest)
        assert (done.rows, done.bad_rows) == (len(PROBE), 0)
        found = np.genfromtxt(table, delimiter=",", names=True, dtype=None, encoding="utf-8")
        columns = [found[name] for name in found.dtype.names[2 : 2 + len(self.model.classes)]]
        assert np.allclose(np.stack(columns, 1), answers(self.model)["probabilities"], atol=1e-5)
        assert all(each.startswith(self.model.digest) for each in found["model"])
        if self.is_watched:
            assert watch_file(table, model).status.rows == len(PROBE)

    @rule(luck=st.randoms(use_true_random=False))
    def export(self, luck: random.Random) -> None:
        assume(luck.random() < self.exports)
        self.count("export")
        path = self.folder / "it.pt2"
        export(self.model, path)
        found = open_exported(path)
        assert found.digest == self.model.digest
        assert np.allclose(
            found.predict(PROBE.numpy())["probabilities"], answers(self.model)["probabilities"], atol=1e-5
        )


def live(steps: int, seed: int, *, each: int = 40, exports: float = EXPORTS) -> dict[str, int]:
    """So many steps, in lives of `each`; the first that breaks a promise is told as its shortest form.

    Returns:
        How often each step was taken.
    """
    STEPS.clear()
    Life.exports = exports
    warnings.simplefilter("ignore")
    lives = settings(
        max_examples=max(1, -(-steps // each)),
        stateful_step_count=each,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    machine = Life
    machine.TestCase.settings = lives
    from hypothesis import seed as seeded

    run_state_machine_as_test(seeded(seed)(machine), settings=lives)
    return dict(STEPS)


BLOCK = 100  # steps that the journal keeps together: a kill costs no more


def run(steps: int, seed: int, journal: Journal) -> None:
    """Blocks of lives until there are so many steps; a broken promise is kept with its shortest form."""
    block = 0
    while sum(summed(journal)[0].values()) < steps:
        key, block = f"{seed + block}", block + 1
        if key in journal:
            continue
        try:
            journal.note(key, "right", json.dumps(live(BLOCK, seed + block - 1)))
        except Exception as error:  # each ends a block, none the soak
            is_wrong = "wrong" if isinstance(error, AssertionError) else "traceback"
            end = "torn" if isinstance(error, TornError) else is_wrong
            notes = getattr(error, "__notes__", ())
            journal.note(key, end, json.dumps([*STEPS.items(), repr(error), *notes]))


def summed(journal: Journal) -> tuple[Counter[str], list[str]]:
    """How many steps ended right, and the blocks that did not."""
    ends: Counter[str] = Counter()
    broken = []
    for key, (end, said, *_) in journal.ends.items():
        if end == "right":
            ends[end] += sum(json.loads(said).values())
        else:
            ends[end] += 1
            broken.append(f"{end}: --seed {key}: {said[:2000]}")
    return ends, broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, help="a file that remembers what was done, for going on")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    journal = Journal(chosen.journal)
    run(chosen.steps, chosen.seed, journal)
    ends, broken = summed(journal)
    print(dict(ends), *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
