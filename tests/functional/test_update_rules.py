"""The rules, against loops over the paper's formula."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from totalcal.functional.cells import blend, identity, tanh_blend, written_content


def example(
    seed: int, draws: int, context: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randn(3, 4, generator=generator)
    weights = torch.rand(draws, context, 3, generator=generator)
    embedding = torch.randn(context, 4, generator=generator)
    labels = torch.randint(4, (context,), generator=generator)
    return cells, weights, embedding, labels


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 5))
def test_the_paper_s_rule_agrees_with_a_loop_over_its_formula(seed: int, draws: int, context: int) -> None:
    cells, weights, embedding, labels = example(seed, draws, context)
    ours = tanh_blend(cells, written_content(weights, embedding, labels), 0.9)
    for r in range(3):
        for k in range(4):
            expected = 0.0
            for s in range(draws):
                added = 0.0
                for j in range(context):
                    soft = float(embedding[j].softmax(-1)[k])
                    added += float(weights[s, j, r]) * ((int(labels[j]) == k) + soft)
                expected += math.tanh(0.9 * float(cells[r, k]) + 0.1 * added) / draws
            assert math.isclose(float(ours[r, k]), expected, rel_tol=1e-4, abs_tol=1e-6)


def test_the_toys_rule_is_the_paper_s_without_the_tanh() -> None:
    cells, weights, embedding, labels = example(0, 1, 5)
    written = written_content(weights, embedding, labels)
    torch.testing.assert_close(tanh_blend(cells, written, 0.99), blend(cells, written, 0.99).tanh())


def test_the_identity_rule_leaves_the_cells_alone() -> None:
    cells, weights, embedding, labels = example(0, 2, 5)
    assert identity(cells, written_content(weights, embedding, labels), 0.5) is cells


def test_full_retention_forgets_nothing_and_learns_nothing() -> None:
    cells, weights, embedding, labels = example(1, 2, 5)
    written = written_content(weights, embedding, labels)
    torch.testing.assert_close(blend(cells, written, 1.0), cells)
