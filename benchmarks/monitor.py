"""What a monitor costs, how often it cries wolf, and how soon it finds a shift; one thread.

    python benchmarks/monitor.py [--rounds 10] [--streams 1000]

The cost of a row is set against a plain loop over rows in NumPy, and against LeNet5's own prediction with ten
draws. Scores are exponential; after 1,000 rows in order they grow by a factor f, which sets the AUROC of old
against new rows to f / (1 + f). A delay is the number of new rows until the alarm.
"""

import argparse

import numpy as np
import torch
from interleaved import measured, ratios, spread

from totalcal import etp
from totalcal.decisions.monitor import Monitor
from totalcal_lab.backbones import lenet5

ROWS, HELD_OUT, BEFORE, MOST = 2_000, 500, 1_000, 5_000
AUROCS = (0.6, 0.7, 0.8, 0.9, 0.99)


def plain_loop(held_out: np.ndarray, new: np.ndarray) -> float:
    """The same bets, a row at a time."""
    edges, powers = np.geomspace(1e-6, 1e4, 1023), np.array([0.1, 0.3, 0.6])
    counts = np.bincount(np.searchsorted(edges, held_out), minlength=1024)
    capital = np.log([0.5, *[0.125] * 4])
    for step, place in enumerate(np.searchsorted(edges, new)):
        counts[place] += 1
        rank = (counts[place + 1 :].sum() + 0.5 * counts[place]) / counts.sum()
        moving = 1 / (step + 2)
        total = np.logaddexp.reduce(capital)
        mixed = np.logaddexp(np.log1p(-moving) + capital, np.log(moving / 5) + total)
        small, large = np.log(powers) + (powers - 1) * np.log(rank), np.log(0.6) - 0.4 * np.log1p(-rank)
        capital = mixed + np.array([0, *small, large])
    return float(np.logaddexp.reduce(capital))


def cost(rounds: int) -> None:
    rng = np.random.default_rng(0)
    held_out, new = rng.exponential(size=HELD_OUT), rng.exponential(size=ROWS)
    model, images = etp(lenet5(10), num_classes=10).eval(), torch.randn(100, 1, 28, 28)
    times = measured(
        {
            "monitor": lambda: Monitor.start({"score": held_out}).update({"score": new}),
            "plain loop": lambda: plain_loop(held_out, new),
            "LeNet5": lambda: model.predict(images),
        },
        rounds,
    )
    against_loop = spread(ratios(times, "monitor", "plain loop"))
    a_row = spread([each * len(images) / ROWS for each in ratios(times, "monitor", "LeNet5")], digits=4)
    print(f"a row of one score: {1e6 * np.median(times['monitor']) / ROWS:.1f} µs,", end=" ")
    print(f"{against_loop} of a plain loop, {a_row} of LeNet5's prediction by moments (quartiles)")


def false_alarms(streams: int) -> None:
    raised = 0
    for seed in range(streams):
        scores = np.random.default_rng(seed).exponential(size=HELD_OUT + MOST)
        monitor = Monitor.start({"score": scores[:HELD_OUT]}, seed=seed)
        raised += not monitor.update({"score": scores[HELD_OUT:]}).in_order
    print(f"alarms in {streams} in-distribution streams of {MOST} rows: {raised} ({raised / streams:.2%})")


def delays(streams: int) -> None:
    print("| AUROC of new rows | found | median delay | 95 % within |\n|---|---|---|---|")
    for auroc in AUROCS:
        found = np.array([delay(auroc, seed) for seed in range(streams)])
        middle, late = np.quantile(found, [0.5, 0.95])
        print(f"| {auroc} | {np.isfinite(found).mean():.1%} | {middle:.0f} | {late:.0f} |")


def delay(auroc: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    monitor = Monitor.start({"score": rng.exponential(size=HELD_OUT)}, seed=seed)
    monitor.update({"score": rng.exponential(size=BEFORE)})
    status = monitor.update({"score": auroc / (1 - auroc) * rng.exponential(size=MOST)})
    return status.alarms["score"] - BEFORE if status.alarms else np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--streams", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cost(options.rounds)
    false_alarms(options.streams)
    delays(max(options.streams // 5, 1))


if __name__ == "__main__":
    main()
