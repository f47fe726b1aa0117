"""Tables of the domain benchmark, from lines of records."""

import pytest

from totalcal.errors import InputError
from totalcal_lab.records.domain import TABLES

RUN = {"preset": "medium", "model": "softmax", "seed": 0, "epochs": 1, "settings": {}}
PANELS = {"svhn": {"cifar-10": "far", "cifar-100": "far"}, "cifar10": {"svhn": "far", "cifar-100": "near"}}


def lines(task):
    """One line for the test set and one per OOD set; familiarity is ahead of entropy by a tenth."""
    alarms = {"false_alarms/0.05": 0.05, "false_alarms/0.01": 0.01}
    yield {**RUN, "task": task, "ood": "none", **alarms}
    for name, nearness in PANELS[task].items():
        scores = {"auroc_by_entropy": 0.8, "auroc_by_unfamiliarity": 0.9}
        yield {**RUN, "task": task, "ood": name, "nearness": nearness, **scores}


BOTH = [line for task in PANELS for line in lines(task)]


def test_tasks_with_panels_of_their_own_share_a_table():
    table = TABLES["panel"](BOTH)
    assert table.columns[2:4] == [
        "cifar-10",
        "cifar-100",
    ]  # far of one task, near of the other: among the far
    for group in table.groups:
        task = group.title.split()[0]
        for _, _, *entries in group.rows:
            filled = {name for name, entry in zip(table.columns[2:], entries, strict=True) if entry.text}
            assert filled == set(PANELS[task])


def test_a_panel_says_how_many_test_rows_are_false_alarms():
    assert all("5.0 and 1.0" in group.title for group in TABLES["panel"](BOTH).groups)


def test_the_best_of_a_set_is_that_of_its_task():
    for group in TABLES["panel"](BOTH).groups:
        familiarity, entropy = group.rows
        assert all(entry.bold for entry in familiarity[1:] if entry.text)
        assert not any(entry.bold for entry in entropy[1:])


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("severity", "openood")])
def test_every_table_takes_tasks_with_panels_of_their_own(name):
    assert "medium" in str(TABLES[name](BOTH))


def test_openood_has_means_over_sets_and_then_over_seeds():
    aurocs = {
        "cifar-100": (0.8, 0.9),
        "tiny-imagenet-mean": (0.6, 0.7),
        "mnist": (1.0, 0.9),
        "svhn": (0.8, 0.9),
    }
    near = ("cifar-100", "tiny-imagenet-mean")
    found = TABLES["openood"](
        [
            {**RUN, "task": "cifar10", "seed": seed, "ood": name, "auroc_by_entropy": both[seed]}
            | {"nearness": "near" if name in near else "far"}
            for name, both in aurocs.items()
            for seed in (0, 1)
        ]
    )
    assert [entry.sort for entry in found.groups[0].rows[0][1:]] == pytest.approx([0.75, 0.9])
    assert [entry.text.split()[0] for entry in found.groups[0].rows[0][1:]] == ["75.0", "90.0"]


def test_openood_names_the_sets_that_are_missing():
    with pytest.raises(InputError, match="tiny-imagenet-mean"):
        TABLES["openood"](list(lines("cifar10")))
