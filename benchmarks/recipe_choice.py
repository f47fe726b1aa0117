"""How a recipe of training does on held-out training images, as they are and corrupted: what to choose it by.

    totalcal-lab run fashion --preset best --models etp --seeds 1 --epochs 15 --out runs
    python benchmarks/recipe_choice.py runs [--images 500] [--data-dir DIR]

One line per finished run of images under `runs`: NLL, error and ECE of its own held-out images, then the same
as means over the 19 corruptions of some of them, severity by severity. No test image is looked at.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from totalcal_lab.corruptions import CORRUPTIONS
from totalcal_lab.data import task
from totalcal_lab.grid.building import load_data, restored_predictor
from totalcal_lab.grid.configuration import RunConfig
from totalcal_lab.grid.corruptions import Restored, Variant, judge_corrupted
from totalcal_lab.records.folders import RunFolder, run_folders
from totalcal_lab.records.store import read_records

SEVERITIES = (1, 3, 5)


def is_of_images(config: Mapping[str, Any]) -> bool:
    return not config["needs"] and task(config["task"]).kind == "image"


def in_words(run: RunFolder, images: int, data_dir: Path | None) -> str:
    config = RunConfig.from_json(run.config)
    data = load_data(config, data_dir, panel=())
    held_out = Restored(data.held_out, [config], [restored_predictor(config, run, data)])
    record = read_records(run.records_file)[0]
    parts = [scores(*(record[f"held_out_{key}"] for key in ("nll", "error", "ece")))]
    for severity in SEVERITIES:
        lines = [judge_corrupted(Variant(type, severity, images), held_out)[0] for type in CORRUPTIONS]
        means = (sum(line[key] for line in lines) / len(lines) for key in ("nll", "error", "ece"))
        parts.append(scores(*means))
    settings = ", ".join(f"{name}={value}" for name, value in config.settings.items())
    title = f"{config.task} ({config.preset}), {config.model} {config.seed}: {settings or 'as it is'}"
    return f"{title}\n" + "".join(f"{part:>24}" for part in parts)


def scores(nll: float, error: float, ece: float) -> str:
    return f"{nll:.3f} {100 * error:6.2f} {100 * ece:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="?", default=Path("runs"))
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folders = run_folders(options.runs) if options.runs.is_dir() else []
    runs = [run for run in folders if run.is_done and is_of_images(run.config)]
    print("NLL, error (%) and ECE (%) of held-out images, then corrupted, severities 1, 3, 5")
    for run in runs:
        print(in_words(run, options.images, options.data_dir), flush=True)
    if not runs:
        print(f"no finished run of images under {options.runs}: train one first, as above.")


if __name__ == "__main__":
    main()
