"""Finished runs on CIFAR-10 against the votes of people: each net as it is and calibrated, and ensembles.

Nothing is fitted on test images or votes: `calibrate` sees held-out training images, and its gate is the one
that a user gets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from totalcal import calibrate
from totalcal.baselines import Ensemble
from totalcal.errors import DataError, InputError
from totalcal.files import Model
from totalcal.models import TuringProcess
from totalcal.types import Predictive, Predictor
from totalcal_lab.data.arrays import ArrayData
from totalcal_lab.data.loading import load_set
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.building import data_options, restored_predictor
from totalcal_lab.grid.configuration import RunConfig, derived
from totalcal_lab.grid.jobs import one_thread
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.studies.people import (
    Votes,
    entropy_curve,
    half_against_half,
    is_ambiguous,
    one_against_rest,
    people_scores,
    term_correlations,
)

TASK, VOTES = "cifar10", "cifar-10h"
HALVINGS = 5
_BATCH = 500
_AGREE = 0.9  # 99.2 % of CIFAR-10H


def judge_people(runs: Sequence[RunFolder], data_dir: Path | None = None) -> Iterator[dict[str, Any]]:
    """A line for each run as it is and calibrated, one for each ensemble of several seeds, and the people.

    Args:
        runs: Finished runs; those of other tasks, and baselines made of other runs' nets, are left out.
        data_dir: A folder that holds the sets.

    Yields:
        Records, as `totalcal-lab truth people --records` writes them.

    Raises:
        InputError: None of the runs is of CIFAR-10.
        DataError: The votes are not in the order of the test images.
    """
    mine = [run for run in runs if run.is_done and run.config["task"] == TASK and not run.config["needs"]]
    if not mine:
        raise InputError(f"no finished run is of {TASK}: give a folder of `totalcal-lab run {TASK}`.")
    votes = votes_of(load_set(VOTES, "test", data_dir).inputs, load_set("cifar-10", "test", data_dir).labels)
    yield from people_lines(votes)
    groups: dict[tuple[str, str, str], list[tuple[RunConfig, Predictor]]] = {}
    with one_thread():
        for run in mine:
            config = RunConfig.from_json(run.config)
            options = replace(data_options(config), test_limit=None, panel=())
            data = task(TASK).load(derived("split", TASK, config.seed), data_dir, options)
            predictor = restored_predictor(config, run, data)
            common = {**config.identity, "config": config.name}
            draws, seed = config.sections["judging"]["draws"], config.seed
            found = predicted(predictor, data.test, draws=draws, seed=seed)
            yield {**common, "form": "as it is", **scores_of(found, votes)}
            process = getattr(predictor, "process", predictor)
            assert isinstance(process, TuringProcess)
            model = calibrate(process, data.train, data.held_out, progress=False)
            found = predicted(model, data.test)
            yield {**common, "form": "calibrated", **scores_of(found, votes), **asked(found, votes)}
            group = (config.preset, config.model, str(dict(config.settings)))
            groups.setdefault(group, []).append((config, predictor))
        for members in groups.values():
            if len(members) > 1:
                config = members[0][0]
                ensemble = Ensemble([predictor for _, predictor in members])
                draws = config.sections["judging"]["draws"]
                found = predicted(ensemble, data.test, draws=draws, seed=config.seed)
                form = f"ensemble of {len(members)}"
                yield {**config.identity, "config": "", "form": form, **scores_of(found, votes)}


def votes_of(counts: Any, labels: Any) -> Votes:
    """Votes as whole numbers, if they are of these test images.

    >>> votes_of(np.array([[0.0, 9.0], [8.0, 1.0]]), np.array([1, 0]))
    array([[0, 9],
           [8, 1]])
    """
    votes = np.asarray(counts, dtype=np.int64)
    share = float((votes.argmax(1) == labels).mean()) if len(votes) == len(labels) else 0.0
    if share < _AGREE:
        raise DataError(
            f"the most voted class is the label of {share:.0%} of the test images, expected 99 %: the "
            "votes are not in the order of the test set. Fetch both sets again: "
            "totalcal-lab data fetch cifar-10 cifar-10h"
        )
    return votes


def people_lines(votes: Votes) -> Iterator[dict[str, Any]]:
    """What people reach themselves."""
    common = {"task": TASK, "preset": "people", "epochs": 0, "settings": {}, "config": ""}
    for seed in range(HALVINGS):
        found = half_against_half(votes, seed)._asdict()
        yield {**common, "model": "half of the votes", "seed": seed, "form": "", **found}
    yield {**common, "model": "one person", "seed": 0, "form": "", **one_against_rest(votes)._asdict()}


def predicted(predictor: Predictor | Model, rows: ArrayData, **how: Any) -> Predictive:
    """The predictions of all rows, in their order."""
    return Predictive.joined([predictor.predict(batch.inputs, **how) for batch in rows.batches(_BATCH)])


def scores_of(found: Predictive, votes: Votes) -> dict[str, Any]:
    """All scores of one predictor's predictions."""
    terms = {name: term.double().numpy() for name, term in found.decompose().summed()._asdict().items()}
    probabilities = found.probabilities.double().numpy()
    return {
        **people_scores(probabilities, votes)._asdict(),
        **term_correlations(terms, votes),
        "entropy_curve": entropy_curve(probabilities, votes),
    }


def asked(found: Predictive, votes: Votes) -> dict[str, float]:
    """The share of the ambiguous images, and of the clear ones, that the model's gate sends to a person."""
    sent, ambiguous = np.array(found.decision) != "accept", is_ambiguous(votes)
    return {"asked_ambiguous": float(sent[ambiguous].mean()), "asked_clear": float(sent[~ambiguous].mean())}
