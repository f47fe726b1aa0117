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


def measured(
    candidates: Mapping[str, Callable[[], object]], rounds: int, fastest: bool = False
) -> dict[str, list[float]]:
    """CPU seconds of each candidate in each round; the order is turned by one from round to round.

    A turn is several runs in a row, as in real use. The first is not counted: it finds the caches full of
    what another candidate left there. A turn counts by the mean of its runs, or by the `fastest`: of runs so
    short that most of them meet another process on a busy machine.
    """
    names = list(candidates)
    times: dict[str, list[float]] = {name: [] for name in names}
    gc.disable()
    for index in range(-WARM_UP, rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            seconds = (min if fastest else statistics.fmean)(_turn(candidates[name]))
            if index >= 0:
                times[name].append(seconds)
        gc.collect()
    gc.enable()
    return times


def _turn(candidate: Callable[[], object]) -> list[float]:
    candidate()
    seconds = []
    for _ in range(TURN):
        started = time.process_time()
        candidate()
        seconds.append(time.process_time() - started)
    return seconds


def spread(values: Sequence[float], digits: int = 3) -> str:
    """The median, and the quartiles in parentheses.

    >>> spread([1.0, 2.0, 4.0], digits=1)
    '2.0 (1.0 to 4.0)'
    """
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def ratios(times: Times, name: str, baseline: str) -> list[float]:
    """The ratio of two times of the same round, for each round."""
    return [time / base for time, base in zip(times[name], times[baseline], strict=True)]


def table(times: Times, baseline: str, targets: Sequence[tuple[str, str, float]] = ()) -> str:
    """Markdown: milliseconds with quartiles, ratios to the baseline, and what was aimed at."""
    lines = [f"| | ms (quartiles) | / {baseline} (quartiles) |", "|---|---|---|"]
    for name, seconds in times.items():
        milliseconds = spread([1000 * value for value in seconds], digits=2)
        lines.append(f"| {name} | {milliseconds} | {spread(ratios(times, name, baseline))} |")
    for name, base, limit in targets:
        found = ratios(times, name, base)
        verdict = "met" if statistics.median(found) <= limit else "MISSED"
        lines.append(f"\n{name} / {base}: {spread(found)}, aim ≤ {limit}: {verdict}")
    return "\n".join(lines)
