import pytest
import torch
from scipy.stats import chisquare

from totalcal.calibration.splitting import (
    OverlapWarning,
    check_apart,
    split_held_out,
    spread_keys,
)
from totalcal.errors import InputError
from totalcal.memory.rows import row_keys


def contents(inputs, labels, places):
    return sorted(zip(inputs[places].flatten(1).tolist(), labels[places].tolist(), strict=True))


def table(rows=200, seed=0):
    """Few different rows, many of them equal, as in tables of categories."""
    noise = torch.Generator().manual_seed(seed)
    return torch.randint(3, (rows, 2), generator=noise).float(), torch.randint(2, (rows,), generator=noise)


def test_the_split_depends_on_the_rows_and_not_on_their_order():
    inputs, labels = table()
    order = torch.randperm(200)
    first = split_held_out(inputs, labels, needed=39)
    second = split_held_out(inputs[order], labels[order], needed=39)
    assert contents(inputs, labels, first.promising) == contents(
        inputs[order], labels[order], second.promising
    )


def test_every_row_serves_once():
    split = split_held_out(*table(), needed=39)
    assert sorted(torch.cat([split.fitting, split.promising]).tolist()) == list(range(200))


def test_equal_rows_are_spread_over_both_parts_as_by_chance():
    inputs, labels = torch.zeros(1000, 1), torch.zeros(1000, dtype=torch.long)
    split = split_held_out(inputs, labels, needed=39)
    thirds = torch.bincount(split.promising // 200, minlength=5)
    assert chisquare(thirds.numpy()).pvalue > 1e-3


def test_another_seed_gives_another_split():
    inputs, labels = torch.randn(100, 2), torch.zeros(100, dtype=torch.long)
    first, second = (
        split_held_out(inputs, labels, needed=39, seed=seed).promising.tolist() for seed in (0, 1)
    )
    assert set(first) != set(second)


def test_of_few_rows_more_promise():
    inputs, labels = torch.randn(70, 2), torch.zeros(70, dtype=torch.long)
    assert len(split_held_out(inputs, labels, needed=45).promising) == 45
    assert len(split_held_out(inputs, labels, needed=10**6).promising) == 50


def test_groups_are_never_divided():
    inputs, labels = torch.randn(300, 2), torch.zeros(300, dtype=torch.long)
    groups = [f"patient {k % 30}" for k in range(300)]
    split = split_held_out(inputs, labels, needed=39, groups=groups)
    parts = [{groups[place] for place in part.tolist()} for part in (split.fitting, split.promising)]
    assert not parts[0] & parts[1]
    assert 100 < len(split.promising) < 200
    assert split.groups == len(parts[1])


def test_a_single_group_cannot_be_divided():
    with pytest.raises(InputError, match="group"):
        split_held_out(torch.randn(50, 2), torch.zeros(50, dtype=torch.long), needed=39, groups=[1] * 50)


def test_copies_have_keys_of_their_own_and_share_them_with_no_other_row():
    inputs, labels = table(1000)
    assert len(set(spread_keys(inputs, labels).tolist())) == 1000


def test_training_rows_among_the_held_out_are_warned_of_and_refused_above_half():
    rows = torch.randn(100, 3)
    keys = row_keys(rows)
    assert check_apart(keys[:50], keys[50:]) == 0
    with pytest.warns(OverlapWarning, match="20.0%"):
        assert check_apart(keys[:60], keys[50:]) == pytest.approx(0.2)
    with pytest.raises(InputError, match="training rows"):
        check_apart(keys[:90], keys[50:])
