"""The grid: from what was asked for to run configurations, to jobs, to records in run folders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from totalcal.errors import InputError, UnknownNameError
from totalcal.models import MODELS
from totalcal_lab.backbones.baselines import BASELINES, Nets
from totalcal_lab.data.tasks import task as task_named
from totalcal_lab.grid.building import build_process, data_options, load_data, predictor_of, training_options
from totalcal_lab.grid.configuration import RunConfig, Sections, all_settings, check_known, overridden
from totalcal_lab.grid.jobs import Jobs, attempt, one_thread
from totalcal_lab.grid.judging import judge, record_of
from totalcal_lab.grid.presets import AUTHORS, authors_overrides, base_preset
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import append

_GROUPS = {"all": tuple(MODELS), "baselines": tuple(BASELINES)}
_PLAIN = "softmax"


def models_named(text: str) -> list[str]:
    """Models and baselines from a list with commas.

    Args:
        text: Names; `all` is the family, `baselines` what it is compared with.

    Returns:
        The names, each once, in the order given.

    Raises:
        UnknownNameError: One of them is neither a model nor a baseline.

    Example:
        >>> models_named("etp,baselines")
        ['etp', 'temperature', 'mc_dropout', 'ensemble']
    """
    known = [*MODELS, *BASELINES]
    words = [word.strip() for word in text.split(",")]
    names = [name for word in words for name in _GROUPS.get(word, (word,))]
    for name in names:
        if name not in known:
            raise UnknownNameError("model", name, [*known, *_GROUPS])
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Grid:
    """What was asked for: a task with a preset, and settings that differ from it.

    >>> grid = Grid("digits", "laptop", {"epochs": 5})
    >>> [(run.model, run.seed) for run in grid.configurations(["softmax", "etp"], seeds=2)]
    [('softmax', 0), ('etp', 0), ('softmax', 1), ('etp', 1)]
    """

    task: str
    preset: str
    overrides: Mapping[str, Any]

    def configurations(self, models: Sequence[str], seeds: int, first_seed: int = 0) -> list[RunConfig]:
        """Seed-major, so that a stopped grid is a balanced one; plain nets first, since baselines need them.

        A baseline that takes the plain nets of all seeds is one run, and comes last.

        Args:
            models: Names of models and baselines.
            seeds: How many seeds.
            first_seed: The first of them.

        Returns:
            Run configurations, in the order in which they run.

        Raises:
            InputError: A setting is refused by a model or by the data.
            UnknownNameError: A setting means nothing to any of the models.
        """
        if seeds < 1:
            raise InputError(f"a grid needs seeds ≥ 1, but got {seeds}.")
        if first_seed < 0:
            raise InputError(f"seeds are counted from 0, but the first is to be {first_seed}.")
        names = _plain_first(models)
        check_known(self.overrides, [self._sections(name) for name in names])
        rows = [
            self._row([name for name in names if _nets(name) is not Nets.OF_ALL_SEEDS], seed)
            for seed in range(first_seed, first_seed + seeds)
        ]
        configs = [config for row in rows for config in row.values()]
        for name in names:
            if _nets(name) is Nets.OF_ALL_SEEDS:
                configs.append(self._configuration(name, first_seed, [row[_PLAIN] for row in rows]))
        for config in rows[0].values():
            build_process(config)  # a setting that is refused is refused before any work is done
            data_options(config)
            training_options(config)
        return configs

    def _row(self, names: Sequence[str], seed: int) -> dict[str, RunConfig]:
        row: dict[str, RunConfig] = {}
        for name in names:
            needs = [row[_PLAIN]] if _nets(name) is Nets.OF_ITS_SEED else []
            row[name] = self._configuration(name, seed, needs)
        return row

    def _configuration(self, name: str, seed: int, needs: Sequence[RunConfig]) -> RunConfig:
        sections, settings = overridden(self._sections(name), self.overrides)
        if _nets(name) is Nets.OF_ALL_SEEDS:
            settings["members"] = len(needs)
        return RunConfig(
            self.task, self.preset, name, seed, sections, settings, tuple(need.name for need in needs)
        )

    def _sections(self, name: str) -> Sections:
        """The preset's settings for a model or a baseline."""
        trained = name if name in MODELS else _PLAIN
        sections: Sections = all_settings(trained, base_preset(self.task, self.preset))
        if name in BASELINES and BASELINES[name].dropout:
            sections, _ = overridden(sections, {"backbone.dropout": BASELINES[name].dropout})
        if self.preset == AUTHORS:
            sections, _ = overridden(sections, authors_overrides(trained, task_named(self.task)))
        return sections


@dataclass(frozen=True)
class RunJob:
    """A run configuration and where it is worked on; small enough to travel to any worker."""

    run: RunConfig
    root: Path
    data_dir: Path | None = None

    @property
    def config(self) -> dict[str, Any]:
        return self.run.as_json

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.root / self.run.name)

    def __call__(self) -> None:
        attempt(self.folder, self._work, [RunFolder(self.root / need) for need in self.run.needs])

    def _work(self, folder: RunFolder) -> None:
        run_configuration(self.run, folder, self.data_dir)


def grid_jobs(configs: Sequence[RunConfig], root: Path, data_dir: Path | None = None) -> Jobs:
    """The runs of a grid as jobs, each in the folder that its configuration names."""
    return Jobs.planned([RunJob(config, root.absolute(), data_dir) for config in configs])


def run_configuration(config: RunConfig, folder: RunFolder, data_dir: Path | None = None) -> None:
    """Train, judge, leave a record: a pure function of the configuration.

    What an earlier attempt may have left of the results is made anew; its training is taken up.
    """
    folder.configure(config.as_json)
    folder.records_file.unlink(missing_ok=True)
    with one_thread():
        data = load_data(config, data_dir)
        predictor = predictor_of(config, folder, data)
        verdict = judge(config, predictor, data)
        append(folder.records_file, record_of(config, verdict, predictor, data))


def _nets(name: str) -> Nets:
    """Which plain nets a baseline takes; a model trains its own."""
    return BASELINES[name].nets if name in BASELINES else Nets.OWN


def _plain_first(models: Sequence[str]) -> list[str]:
    needed = _PLAIN in models or any(_nets(name) is not Nets.OWN for name in models)
    return [_PLAIN] * needed + [model for model in models if model != _PLAIN]
