"""Ensembles of finished runs against their members, and a student that learns from one.

    totalcal-lab run fashion --preset best --models etp --seeds 5 --out runs
    python benchmarks/ensembles.py runs [--model etp] [--preset best] [--sizes 5 10] [--student FOLDER]
        [--data-dir DIR]

Members are the finished runs of one model with one preset. Every line has error, NLL, ECE, and the worst
AUROC by entropy over the task's own OOD sets: the mean over members, the same with a temperature each (fitted
on its own held-out rows; no row is held out from all members), and the ensembles of both: of all members, or
of as many of the first seeds as --sizes says. With --student, a net of the same recipe and a seed that no
member has is trained with the ensemble of all as its teacher, in that folder: a killed run goes on where it
was. It remembers its domain; its familiarity is listed by OOD set.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from totalcal import remember
from totalcal.baselines import Ensemble, temperature_scaled
from totalcal.models.process import TuringProcess
from totalcal.training.fit import fit
from totalcal.training.options import Distillation
from totalcal.types import Predictor
from totalcal_lab.data.domain import TaskData
from totalcal_lab.data.synthetic import SYNTHETIC_OOD
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.building import build_process, load_data, restored_predictor, training_options
from totalcal_lab.grid.configuration import RunConfig, derived
from totalcal_lab.grid.judging import judge
from totalcal_lab.records.folders import RunFolder, finished_runs

Figures = tuple[float, float, float, float]


def members(root: Path, model: str, preset: str) -> list[RunFolder]:
    """The runs of the preset as it stands, by seed."""
    wanted = {"model": model, "preset": preset, "settings": {}}
    runs = [
        run for run in finished_runs(root) if all(run.config[key] == value for key, value in wanted.items())
    ]
    return sorted(runs, key=lambda run: int(run.config["seed"]))


def figures(config: RunConfig, predictor: Predictor, data: TaskData) -> Figures:
    verdict = judge(config, predictor, data)
    worst = min(member.rankings["entropy"].auroc for member in verdict.panel.values())
    return 100 * verdict.error, verdict.nll, 100 * float(verdict.ece), 100 * worst


def line(name: str, found: Sequence[Figures]) -> str:
    means, spreads = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) if len(found) > 1 else None
    cells = [f"{mean:.{3 if place == 1 else 2}f}" for place, mean in enumerate(means)]
    if spreads is not None:
        cells = [
            f"{cell} ± {spread:.{3 if place == 1 else 2}f}"
            for place, (cell, spread) in enumerate(zip(cells, spreads, strict=True))
        ]
    return f"| {name} | {' | '.join(cells)} |"


def compare(runs: Sequence[RunFolder], sizes: Sequence[int], data_dir: Path | None) -> Ensemble:
    """Prints a line for members and ensembles; the ensemble of all members as they are."""
    plain, tempered, alone, alone_scaled = [], [], [], []
    for run in runs:
        config = RunConfig.from_json(run.config)
        data = load_data(config, data_dir)
        plain.append(restored_predictor(config, run, data))
        tempered.append(temperature_scaled(plain[-1], tuple(data.held_out.whole())))
        alone.append(figures(config, plain[-1], data))
        alone_scaled.append(figures(config, tempered[-1], data))
    print("| | error, % | NLL | ECE, % | AUROC by entropy, worst set |\n|---|---:|---:|---:|---:|")
    print(line(f"one net, mean of {len(runs)}", alone))
    print(line("with a temperature", alone_scaled), flush=True)
    for size in sizes:
        name = f"ensemble of {size}"
        print(line(name, [figures(config, Ensemble(plain[:size]), data)]), flush=True)
        scaled = figures(config, Ensemble(tempered[:size]), data)
        print(line(f"{name}, each with a temperature", [scaled]), flush=True)
    return Ensemble(plain)


def student(config: RunConfig, teacher: Predictor, folder: Path, data: TaskData) -> TuringProcess:
    """Half of its loss is the teacher's, who answers at mean cells: its spread is that over members."""
    process = build_process(config)
    fit(
        process,
        data.train,
        **config.sections["training"],
        seed=derived("training", config.task, config.model, config.seed),
        **training_options(config),
        teacher=teacher,
        distillation=Distillation(draws=0),
        checkpoints=folder,
    )
    return process


def print_familiarity(config: RunConfig, process: TuringProcess, data_dir: Path | None) -> None:
    panel = tuple(member.name for member in task(config.task).members(None)) + tuple(SYNTHETIC_OOD)
    data = load_data(config, data_dir, panel=panel)
    remember(process, data.train, data.held_out)
    print("\n| OOD set | AUROC by familiarity | by entropy |\n|---|---:|---:|")
    for name, member in judge(config, process, data).panel.items():
        by = [100 * member.rankings[score].auroc for score in ("unfamiliarity", "entropy")]
        print(f"| {name} | {by[0]:.1f} | {by[1]:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="?", default=Path("runs"))
    parser.add_argument("--model", default="etp")
    parser.add_argument("--preset", default="best")
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--student", type=Path)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = members(options.runs, options.model, options.preset) if options.runs.is_dir() else []
    if len(runs) < 2:
        parser.error(
            f"two finished runs or more make an ensemble, but {options.runs} has {len(runs)}: train them."
        )
    sizes = options.sizes or [len(runs)]
    if not all(2 <= size <= len(runs) for size in sizes):
        parser.error(f"there are {len(runs)} members for an ensemble, but --sizes asks for {sizes}.")
    ensemble = compare(runs, sizes, options.data_dir)
    if options.student:
        last = RunConfig.from_json(runs[-1].config)
        config = replace(last, seed=last.seed + 1)
        data = load_data(config, options.data_dir)
        process = student(config, ensemble, options.student, data)
        print(line("one net that learnt from the ensemble", [figures(config, process, data)]), flush=True)
        print_familiarity(config, process, options.data_dir)


if __name__ == "__main__":
    main()
