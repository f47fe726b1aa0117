"""What a domain memory knows a map by, and how it joins its statistics: chosen on held-out training images.

    totalcal-lab run fashion --preset laptop --models etp --seeds 1 --out runs
    python benchmarks/domain_choice.py runs [--maps] [--data-dir DIR]

Each finished run of images under `runs` remembers its domain with three fifths of its held-out images. The
rest are told from pseudo-OOD images that are made of themselves: halves of two images of different classes
side by side, the mean of two, quadrants exchanged, smooth noise, added noise, an enlarged centre. None of
them is in a task's panel. The table has an AUROC for each way of joining, in %. A bar stands between groups:
Fisher's statistic within each group becomes a tail probability, and Fisher's statistic joins the groups. With
--maps the statistics are joined as they are in the library, and maps are known otherwise than by the mean and
the deviation of each channel: also by where in the image it responds, or position by position, as the tokens
of a sequence are.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from totalcal.memory.distances import Tails, fisher, pooled_map
from totalcal.memory.domain_memory import DomainMemory
from totalcal.memory.features import Features
from totalcal.memory.remembering import remember
from totalcal.models.process import TuringProcess
from totalcal.parts import taps
from totalcal.scores.ranking import rank
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.building import load_data, restored_predictor
from totalcal_lab.grid.configuration import RunConfig
from totalcal_lab.records.folders import RunFolder, run_folders

Statistic = Callable[[Tensor], Tensor]
MapFeatures = Callable[[Tensor], Features]
Columns = list[int]

AS_IN_THE_LIBRARY = "lower | last | entropy, energy"


def pseudo_ood(images: Tensor, labels: Tensor) -> Mapping[str, Tensor]:
    """Images that are not of the task, made of images that are."""
    generator = torch.Generator().manual_seed(0)
    height, width = images.shape[-2:]
    others = images[partners(labels, generator)]
    halves = torch.cat([images[..., : width // 2], others[..., width // 2 :]], -1)
    rolled = images.roll((height // 2, width // 2), dims=(-2, -1))
    low, high = float(images.min()), float(images.max())
    coarse = torch.rand(len(images), images.shape[1], 4, 4, generator=generator) * (high - low) + low
    centre = images[..., height // 4 : height - height // 4, width // 4 : width - width // 4]
    return {
        "two halves": halves,
        "mean of two": (images + others) / 2,
        "quadrants": rolled,
        "smooth noise": F.interpolate(coarse, size=(height, width), mode="bilinear"),
        "added noise": images + torch.randn(images.shape, generator=generator),
        "enlarged": F.interpolate(centre, size=(height, width), mode="bilinear"),
    }


def partners(labels: Tensor, generator: torch.Generator) -> Tensor:
    """For each row another one, of another class."""
    found = torch.randperm(len(labels), generator=generator)
    while (alike := (labels[found] == labels).nonzero()[:, 0]).numel():
        found[alike] = torch.randint(len(labels), (len(alike),), generator=generator)
    return found


def ways(layers: int, seen: Tensor) -> Mapping[str, Statistic]:
    """Ways of joining the statistics of so many layers; `seen` are those of the rows that make the tails."""
    each = Tails.fitted(seen)
    features, entropy, energy = list(range(2 * layers)), [2 * layers], [2 * layers + 1]
    lower, last = features[:-2], features[-2:]

    def joined(*groups: Columns) -> Statistic:
        tails = [Tails.fitted(fisher(each.log_p(seen)[:, group])[:, None]) for group in groups]

        def statistic(scores: Tensor) -> Tensor:
            log_p = each.log_p(scores)
            by_group = [fisher(log_p[:, group])[:, None] for group in groups]
            return fisher(torch.cat([tail.log_p(t) for tail, t in zip(tails, by_group, strict=True)], -1))

        return statistic

    return {
        "all in one": joined(features + entropy + energy),
        "all in one, no energy": joined(features + entropy),
        "features | entropy": joined(features, entropy),
        "features | energy": joined(features, energy),
        "features | entropy, energy": joined(features, entropy + energy),
        AS_IN_THE_LIBRARY: joined(lower, last, entropy + energy),
        "features alone": joined(features),
        "entropy alone": joined(entropy),
        "energy alone": joined(energy),
    }


def with_halves(maps: Tensor) -> Features:
    """Also how much more there is in the upper than in the lower half, and in the left than in the right."""
    height, width = maps.shape[-2] // 2, maps.shape[-1] // 2
    rows, columns = maps.mean(-1), maps.mean(-2)
    vertical = rows[..., :height].mean(-1) - rows[..., -height:].mean(-1)
    horizontal = columns[..., :width].mean(-1) - columns[..., -width:].mean(-1)
    return Features(torch.cat([pooled_map(maps), vertical, horizontal], -1))


def quadrants(maps: Tensor) -> Features:
    """The means of the four quadrants in the place of the mean."""
    deviations = pooled_map(maps)[:, maps.shape[1] :]
    return Features(torch.cat([F.adaptive_avg_pool2d(maps, 2).flatten(1), deviations], dim=-1))


def positions(maps: Tensor) -> Features:
    """The channels at each position; a distance is the mean over the positions."""
    each = maps.flatten(2).mT
    rows = torch.arange(len(maps)).repeat_interleave(each.shape[1])
    return Features(each.flatten(0, 1), rows)


MAPS = {"and halves": with_halves, "quadrants, deviation": quadrants, "positions": positions}


def statistics_of(model: TuringProcess, memory: DomainMemory, images: Tensor) -> Tensor:
    seen = [model.observe(part, memory.taps) for part in images.split(256)]
    return torch.cat([memory.distances(observation)[:, -1] for observation in seen])


def compare(run: RunFolder, data_dir: Path | None, maps: bool) -> None:
    """One row per way of joining, or per summary of a map joined as in the library."""
    header, rows = aurocs(run, data_dir)
    if maps:
        others = {name: aurocs_of_maps(run, data_dir, known_by) for name, known_by in MAPS.items()}
        rows = {"mean, deviation": rows[AS_IN_THE_LIBRARY], **others}
    print(header)
    for name, values in rows.items():
        shown = (*values, min(values), sum(values) / len(values))
        print(f"{name:32}" + "".join(f"{value:14.1f}" for value in shown), flush=True)


def aurocs_of_maps(run: RunFolder, data_dir: Path | None, known_by: MapFeatures) -> list[float]:
    usual, taps.map_features = taps.map_features, known_by
    try:
        return aurocs(run, data_dir)[1][AS_IN_THE_LIBRARY]
    finally:
        taps.map_features = usual


def aurocs(run: RunFolder, data_dir: Path | None) -> tuple[str, dict[str, list[float]]]:
    """The table's header, and for each way of joining an AUROC per set, in %."""
    config = RunConfig.from_json(run.config)
    data = load_data(config, data_dir, panel=())
    model = restored_predictor(config, run, data)
    assert isinstance(model, TuringProcess), "a model that needs no context"
    images, labels = data.held_out.whole()
    known = len(images) * 3 // 5
    memory = remember(model, data.train, (images[:known], labels[:known]), progress=False)
    seen = statistics_of(model, memory, images[:known:2])
    inside = statistics_of(model, memory, images[known:])
    sets = pseudo_ood(images[known:], labels[known:])
    outside = {name: statistics_of(model, memory, rows) for name, rows in sets.items()}
    title = f"\n{config.task} ({config.preset}), {config.model}: {', '.join(map(str, memory.taps))}\n"
    found = {}
    for name, statistic in ways(len(memory.taps), seen).items():
        usual = statistic(inside).numpy()
        found[name] = [100 * rank(usual, statistic(scores).numpy()).auroc for scores in outside.values()]
    return title + f"{'':32}" + "".join(f"{name:>14}" for name in (*sets, "worst", "mean")), found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="?", default=Path("runs"))
    parser.add_argument("--maps", action="store_true")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folders = run_folders(options.runs) if options.runs.is_dir() else []
    runs = [run for run in folders if run.is_done and is_of_images(run.config)]
    for run in runs:
        compare(run, options.data_dir, options.maps)
    if not runs:
        print(f"no finished run of images under {options.runs}: train one first, as above.")


def is_of_images(config: Mapping[str, Any]) -> bool:
    return not config["needs"] and task(config["task"]).kind == "image"


if __name__ == "__main__":
    main()
