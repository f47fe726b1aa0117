"""What is kept of a run's predictor: the verdict as a flat record; docs/grid.md has the keys."""

import hashlib
import platform
from functools import partial
from typing import Any

import numpy as np
import torch

import totalcal
from totalcal.baselines import TemperatureScaled
from totalcal.models import GivenContext, TuringProcess
from totalcal.scores import Verdict, evaluate
from totalcal.types import Predictor, Sampling
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.data.arrays import ArrayData
from totalcal_lab.data.domain import TaskData
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.configuration import RunConfig, derived
from totalcal_lab.grid.joint import dyadic_sets, joint_nll, joint_nll_of_draws
from totalcal_lab.grid.presets import base_preset

_SET_SIZE, _JOINT_DRAWS, _SETS_SEED = 10, 100, 0


def judge(config: RunConfig, predictor: Predictor, data: TaskData) -> Verdict:
    """All scores from one pass over each set."""
    options = config.sections["judging"]
    size = options["batch_size"]
    return evaluate(
        predictor,
        data.test.batches(size),
        {name: (batch.inputs for batch in rows.batches(size)) for name, rows in data.ood.items()},
        bins=options["bins"],
        draws=options["draws"],
        seed=config.seed,
        uncertainty=options["uncertainty"],
        batch_size=size,
    )


def record_of(config: RunConfig, verdict: Verdict, predictor: Predictor, data: TaskData) -> dict[str, Any]:
    """Everything that was measured, and what is needed to trust it."""
    scores = {key: value for key, value in verdict.to_dict().items() if value is not None}
    by_uncertainty = {
        f"auroc_by_{uncertainty}/{name}": ranking.auroc
        for name, member in verdict.panel.items()
        for uncertainty, ranking in member.rankings.items()
    }
    sets = {"train": data.train, "held_out": data.held_out, "test": data.test, **data.ood}
    return {
        **config.identity,
        "reduced": base_preset(config.task, config.preset).reduced,
        **scores,
        **by_uncertainty,
        **_joint(config, predictor, data),
        **_on_held_out(config, predictor, data),
        **_of_the_predictor(predictor),
        "prediction": prediction_in_words(verdict.sampling),
        "config": config.name,
        **{f"sha256/{name}": _digest(rows) for name, rows in sets.items()},
        "totalcal": totalcal.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def prediction_in_words(sampling: Sampling) -> str:
    """What was judged, as records say it.

    >>> from totalcal.types import DETERMINISTIC
    >>> prediction_in_words(Sampling(10, seed=0)), prediction_in_words(DETERMINISTIC)
    ('ten draws', 'no draws')
    """
    draws = sampling.draws
    if draws == "moments":
        return draws
    return {0: "no draws", 1: "one draw", 10: "ten draws"}.get(draws, f"{draws} draws")


def _joint(config: RunConfig, predictor: Predictor, data: TaskData) -> dict[str, float]:
    """The NLL of small sets of near test inputs; the sets are the same for all models.

    Nearness of words says little: no joint there.
    """
    if task(config.task).kind == "tokens":
        return {}
    options = config.sections["judging"]
    rows = dyadic_sets(data.test.inputs, options["joint_sets"], _SET_SIZE, seed=_SETS_SEED)
    inputs, labels = data.test.whole()
    seed = derived("joint", config.task, config.model, config.seed)
    if isinstance(predictor, TuringProcess):
        log_joint = partial(predictor.log_joint, draws=_JOINT_DRAWS, seed=seed)
    elif isinstance(predictor, GivenContext):
        log_joint = partial(
            predictor.process.log_joint, draws=_JOINT_DRAWS, context=predictor.context, seed=seed
        )
    elif config.model in BASELINES:
        draws = predictor.predict(inputs, draws=options["draws"], seed=seed).belief.mean
        return {"joint_nll": joint_nll_of_draws(draws.double().cpu().numpy(), labels.numpy(), rows)}
    else:
        return {}
    return {"joint_nll": joint_nll(log_joint, inputs, labels, rows)}


def _on_held_out(config: RunConfig, predictor: Predictor, data: TaskData) -> dict[str, float]:
    """Scores to choose settings by; never those of the test set."""
    if len(config.needs) > 1 or not len(data.held_out):
        return {}  # nets of several seeds have learned from each other's held-out rows
    options = config.sections["judging"]
    verdict = evaluate(predictor, data.held_out.batches(256), draws=options["draws"], seed=config.seed)
    return {"held_out_error": verdict.error, "held_out_nll": verdict.nll, "held_out_ece": float(verdict.ece)}


def _of_the_predictor(predictor: Predictor) -> dict[str, float]:
    if isinstance(predictor, TemperatureScaled):
        return {"temperature": predictor.temperature}
    if isinstance(predictor, GivenContext):
        return {"context_rows": len(predictor.context.labels)}
    return {}


def _digest(rows: ArrayData) -> str:
    digest = hashlib.sha256(rows.inputs.contiguous().numpy().tobytes())
    digest.update(rows.labels.numpy().tobytes())
    return digest.hexdigest()[:16]
