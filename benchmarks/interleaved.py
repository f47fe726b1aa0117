"""Fair timing on a noisy machine: all candidates in turn, round after round; ratios within a round."""

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

WARM_UP, TURN = 1, 4
Times = Mapping[str, Sequence[float]]


def arguments(description: str | None, rounds: int) -> argparse.Namespace:
    """The options of a benchmark; one thread, whatever the machine has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return options


def measured(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each candidate in each round; the order is turned by one from round to round.

    A turn is several runs in a row, as in real use. The first is not counted: it finds the caches full of
    what another candidate left there.
    """
    names = list(candidates)
    times: dict[str, list[float]] = {name: [] for name in names}
    gc.disable()
    for index in range(-WARM_UP, rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            seconds = _turn(candidates[name])
            if index >= 0:
                times[name].append(seconds)
        gc.collect()
    gc.enable()
    return times


def _turn(candidate: Callable[[], object]) -> float:
    candidate()
    started = time.process_time()
    for _ in range(TURN):
        candidate()
    return (time.process_time() - started) / TURN


def ratio(times: Times, name: str, baseline: str) -> tuple[float, float, float]:
    """Median and quartiles of the ratio of two times of the same round."""
    ratios = [time / base for time, base in zip(times[name], times[baseline], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, low, high


def table(times: Times, baseline: str, targets: Sequence[tuple[str, str, float]] = ()) -> str:
    """Markdown: milliseconds with quartiles, ratios to the baseline, and what was aimed at."""
    lines = [f"| | ms (quartiles) | / {baseline} (quartiles) |", "|---|---|---|"]
    for name, seconds in times.items():
        low, middle, high = (1000 * value for value in statistics.quantiles(seconds, n=4))
        relative = "{:.3f} ({:.3f} to {:.3f})".format(*ratio(times, name, baseline))
        lines.append(f"| {name} | {middle:.2f} ({low:.2f} to {high:.2f}) | {relative} |")
    for name, base, limit in targets:
        reached = ratio(times, name, base)[0]
        lines.append(
            f"\n{name} / {base}: {reached:.3f}, aim ≤ {limit}: {'met' if reached <= limit else 'MISSED'}"
        )
    return "\n".join(lines)
