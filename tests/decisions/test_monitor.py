"""An alarm that holds its level on streams of any length, and is quick when the domain changes."""

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chisquare

from totalcal.decisions.monitor import Bettor, Detector, Monitor, label_scores
from totalcal.errors import InputError


def stream(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).exponential(size=rows)


def watching(seed: int = 0, held_out: int = 100) -> Monitor:
    return Monitor.start({"unfamiliarity": stream(held_out, 1000 + seed)}, seed=seed)


def test_every_bet_is_fair():
    start = Bettor.start()

    def gain(rank: float, which: int) -> float:
        after, _ = start.bet([rank], 10**9)
        return float(np.exp(after.log_capital[which] - start.log_capital[which]))

    for which in range(len(start.log_capital)):
        assert quad(gain, 0, 1, args=(which,), limit=200)[0] == pytest.approx(1, abs=1e-4)
    assert np.exp(start.total) == pytest.approx(1)


def test_ranks_are_those_of_brute_force_up_to_binning():
    held_out, new = stream(50, 0), stream(200, 1)
    detector = Detector.start(held_out, level=1e9, seed=3)
    for i in range(len(new)):
        before = detector.ranks
        detector.update(new[i : i + 1])
        (tenth,) = np.flatnonzero(detector.ranks - before)
        others = np.concatenate([held_out, new[:i]])
        above = (others > new[i]).sum()
        lowest, highest = above / (len(others) + 1) - 0.02, (above + 1) / (len(others) + 1) + 0.02
        assert lowest <= (tenth + 1) / 10
        assert tenth / 10 <= highest


@pytest.mark.parametrize("held_out", [5, 100])
def test_ranks_of_an_in_domain_stream_are_uniform(held_out):
    detector = Detector.start(stream(held_out, 5), level=1e9, seed=0)
    detector.update(stream(2000, 6))
    assert chisquare(detector.ranks).pvalue > 1e-3


def false_alarms(streams, held_out, rows, ties):
    """How many of so many in-domain streams raise an alarm that may be raised in one of twenty."""
    alarms = 0
    for seed in range(streams):
        scores = stream(held_out + rows, seed)
        scores = np.round(scores) if ties else scores
        monitor = Monitor.start({"unfamiliarity": scores[:held_out]}, false_alarms=0.05, seed=seed)
        alarms += not monitor.update({"unfamiliarity": scores[held_out:]}).in_order
    return alarms


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("held_out", [10, 200])
def test_an_in_domain_stream_raises_the_alarm_in_one_of_twenty_cases_at_most(held_out, ties):
    assert false_alarms(150, held_out, 300, ties) <= 15  # 150 · 0.05 = 7.5; P(X > 15) < 0.5 %


@pytest.mark.exhaustive
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("held_out", [10, 200])
def test_five_hundred_long_streams_raise_no_more_alarms_than_promised(held_out, ties):
    assert false_alarms(500, held_out, 5000, ties) <= 40  # 500 · 0.05 = 25; P(X > 40) < 0.2 %


def alarms_of_servers(repetitions, rows):
    """Of so many services of one model, each of two servers that are stopped and started and then merged.

    Six scores that depend on each other are watched, and labels come for half of the rows.
    """
    names = "unfamiliarity", "far_from_domain", "far_from_classes", "entropy", "nll", "overconfidence"
    alarms = 0
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        drawn = noise.exponential(size=(1, 100 + 2 * rows)) + noise.exponential(size=(6, 100 + 2 * rows))
        held_out, *streams = np.split(drawn, [100, 100 + rows], 1)
        start = Monitor.start(dict(zip(names, held_out, strict=True)), false_alarms=0.05)
        servers = []
        for stream in streams:
            server = start.for_another_stream(int(noise.integers(2**60)))
            for part in np.array_split(stream, 4, axis=1):
                server.update(dict(zip(names[:4], part, strict=False)))
                server = Monitor.from_json(json.loads(json.dumps(server.as_json())))
                server.update(dict(zip(names[4:], part[4:, ::2], strict=True)))
            servers.append(server)
        alarms += not servers[0].merged(servers[1]).status.in_order
    return alarms


def test_two_servers_of_six_scores_together_keep_the_level():
    assert alarms_of_servers(40, 200) <= 7  # 40 · 0.05 = 2; P(X > 7) < 0.1 %


@pytest.mark.exhaustive
def test_five_hundred_pairs_of_servers_together_keep_the_level():
    assert alarms_of_servers(500, 2000) <= 40


def row_by_row(held_out: np.ndarray, new: np.ndarray, uniforms: np.ndarray) -> list[float]:
    """log of all the money after each row: one row at a time, and each strategy's capital as a logarithm."""
    powers, seen = np.array([0.1, 0.3, 0.6]), list(held_out)
    capital, totals = np.log([0.5, *[0.125] * 4]), []
    for step, (score, uniform) in enumerate(zip(new, uniforms, strict=True)):
        seen.append(score)
        rank = (np.sum(seen > score) + uniform * np.sum(seen == score)) / len(seen)
        mixed = np.logaddexp(
            np.log1p(-1 / (step + 2)) + capital,
            np.log(1 / (step + 2) / 5) + np.logaddexp.reduce(capital),
        )
        small, large = np.log(powers) + (powers - 1) * np.log(rank), np.log(0.6) - 0.4 * np.log1p(-rank)
        capital = mixed + np.array([0, *small, large])
        totals.append(float(np.logaddexp.reduce(capital)))
    return totals


def test_the_capital_is_that_of_a_plain_loop_over_rows():
    held_out = np.round(3 * stream(200, 0))  # whole numbers: many ties, and a bin for each
    new = np.round(3 * np.concatenate([stream(300, 1), 2 * stream(300, 2)]))
    detector = Detector.start(held_out, level=1e3, seed=5)
    detector.update(new)
    uniforms = np.random.Generator(np.random.PCG64(5)).random(600)
    totals = row_by_row(held_out, new, uniforms)
    assert detector.bettor.total == pytest.approx(totals[-1], rel=1e-9)
    assert detector.alarm_at == 1 + int(np.argmax(np.array(totals) >= np.log(1e3)))


def labelled(rows: int, seed: int, overconfidence: float = 0.0) -> dict[str, np.ndarray]:
    """The scores of a two-class model that is right as often as it says, or less often."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.6, 1, rows)
    is_right = rng.random(rows) < confidence - overconfidence
    return label_scores(np.where(is_right, confidence, 1 - confidence), confidence)


def test_calibration_that_drifts_is_noticed_once_labels_come_and_told():
    monitor = Monitor.start({"entropy": stream(500, 0), **labelled(500, 1)})
    monitor.update({"entropy": stream(2000, 2)})
    calm = monitor.update(labelled(1000, 3))
    assert calm.in_order
    assert (calm.rows, calm.labelled) == (2000, 1000)
    shifted = monitor.update(labelled(1000, 4, overconfidence=0.2))
    assert 1000 < shifted.alarms["overconfidence"] < 1500
    assert shifted.means["overconfidence"][1] - 1 == pytest.approx(0.1, abs=0.03)
    assert "confidence less accuracy +0.1" in str(shifted)


def test_means_are_those_of_the_scores():
    monitor = watching()
    rows = stream(300, 9)
    held_out, seen = monitor.update({"unfamiliarity": rows}).means["unfamiliarity"]
    assert held_out == pytest.approx(stream(100, 1000).mean(), abs=1e-6)
    assert seen == pytest.approx(rows.mean(), abs=1e-6)


def test_rows_of_another_domain_are_noticed_within_ten():
    monitor = watching()
    monitor.update({"unfamiliarity": stream(1000, 2)})
    status = monitor.update({"unfamiliarity": 20 + stream(10, 3)})
    assert 1000 < status.alarms["unfamiliarity"] <= 1010
    assert "noticed at row" in str(status)


def test_a_small_drift_is_noticed_too():
    monitor = watching()
    monitor.update({"unfamiliarity": stream(500, 2)})
    assert not monitor.update({"unfamiliarity": 1.5 * stream(2000, 3)}).in_order


def test_how_rows_come_in_batches_does_not_matter():
    rows = stream(100, 7)
    whole, cut = watching(), watching()
    whole.update({"unfamiliarity": rows})
    for part in np.split(rows, [1, 17, 60]):
        cut.update({"unfamiliarity": part})
    assert whole.as_json() == cut.as_json()


def test_a_monitor_goes_on_from_its_file():
    monitor = watching()
    monitor.update({"unfamiliarity": stream(50, 1)}, accepted=np.ones(50, dtype=bool))
    again = Monitor.from_json(json.loads(json.dumps(monitor.as_json())))
    for each in (monitor, again):
        each.update({"unfamiliarity": stream(50, 2)}, accepted=np.zeros(50, dtype=bool))
    assert monitor.as_json() == again.as_json()
    assert monitor.status.accepted == 0.5
    assert len(json.dumps(monitor.as_json())) < 20_000


def test_a_damaged_state_is_refused():
    state = json.loads(json.dumps(watching().as_json()))
    state["detectors"]["unfamiliarity"]["ranks"] = [1, 2]
    with pytest.raises(InputError, match="10 shares of ranks, but got 2"):
        Monitor.from_json(state)


def test_monitors_of_two_servers_are_merged():
    one, other = watching(), watching()
    one.update({"unfamiliarity": stream(200, 1)})
    other.update({"unfamiliarity": 30 + stream(200, 2)})
    both = one.merged(other)
    assert both.rows == 400
    assert not both.status.in_order
    assert one.merged(watching()).status.in_order
    with pytest.raises(InputError, match="same held-out"):
        one.merged(watching(seed=4))


def test_the_level_is_shared_among_scores_and_labels_may_come_later():
    monitor = Monitor.start({"entropy": stream(100, 0), "nll": stream(100, 1)})
    assert all(each.level == 200 for each in monitor.detectors.values())
    monitor.update({"entropy": stream(10, 2)})
    assert monitor.update({"nll": 40 + stream(10, 3)}).alarms.keys() == {"nll"}


@pytest.mark.parametrize("scores", [[-1.0], [np.nan], []])
def test_scores_that_cannot_be_ranked_are_refused_and_change_nothing(scores):
    monitor = watching()
    before = monitor.as_json()
    with pytest.raises(InputError, match="finite and not negative"):
        monitor.update({"unfamiliarity": scores})
    with pytest.raises(InputError, match="Start the monitor with it"):
        monitor.update({"unfamiliarity": [1.0], "entropy": [1.0]})
    assert monitor.as_json() == before


def test_monitors_of_one_file_bet_each_in_their_own_way_and_go_on_as_they_began():
    rows = np.zeros(300)  # ties all along: only chance tells rows apart
    monitor = Monitor.start({"unfamiliarity": np.zeros(100)})
    streams = [monitor.for_another_stream() for _ in range(200)]
    capital = [each.update({"unfamiliarity": rows}).capital["unfamiliarity"] for each in streams]
    assert len(set(capital)) == 200
    again = [Monitor.from_json(monitor.for_another_stream(7).as_json()) for _ in range(2)]
    assert len({each.update({"unfamiliarity": rows}).capital["unfamiliarity"] for each in again}) == 1
    assert np.mean(np.array(capital) > 20) < 0.05 + 3 * np.sqrt(0.05 / 200)


def test_it_says_which_way_inputs_moved():
    names = "unfamiliarity", "far_from_domain", "far_from_classes"
    monitor = Monitor.start({name: stream(400, seed) for seed, name in enumerate(names)})
    rows = {name: stream(300, 10 + seed) for seed, name in enumerate(names)}
    assert "rather than" not in str(monitor.update(rows))
    rows["far_from_classes"], rows["unfamiliarity"] = rows["far_from_classes"] + 5, rows["unfamiliarity"] + 5
    status = monitor.update(rows)
    assert set(status.alarms) == {"unfamiliarity", "far_from_classes"}
    assert "inputs are unlike any class" in str(status)


def test_acceptance_is_counted_by_class_through_files_and_merges():
    monitor = Monitor.start({"entropy": stream(100, 0)})
    accepted, predicted = np.arange(100) % 4 > 0, np.where(np.arange(100) < 50, "cat", "dog")
    monitor.update({"entropy": stream(100, 1)}, accepted & (predicted == "cat"), predicted)
    again = Monitor.from_json(json.loads(json.dumps(monitor.as_json())))
    assert again.status.by_class == {"cat": (50, 37), "dog": (50, 0)}
    assert again.merged(monitor).by_class == {"cat": (100, 74), "dog": (100, 0)}
    assert "0.0% of dog" in str(again.status)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("detectors", {}), ("detectors", 3), ("false_alarms", 0), ("rows", None), ("by_class", [["a", 1]]),
        ("detectors/unfamiliarity", None), ("detectors/unfamiliarity/held_out", []),
        ("detectors/unfamiliarity/held_out", [["x", 1]]), ("detectors/unfamiliarity/seen", [[-1, 1]]),
        ("detectors/unfamiliarity/sums", [1]), ("detectors/unfamiliarity/shares", [0.5, 0.5]),
        ("detectors/unfamiliarity/level", 0), ("detectors/unfamiliarity/step", "x"),
    ],
)  # fmt: skip
def test_a_forged_state_is_refused_when_it_is_read(place, value):
    state = json.loads(json.dumps(watching().as_json()))
    part, (*above, name) = state, place.split("/")
    for each in above:
        part = part[each]
    part[name] = value
    with pytest.raises(InputError):
        Monitor.from_json(state)
