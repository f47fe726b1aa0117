"""How much of a batch is its context."""

import torch

from totalcal.training.options import PAPER_CONTEXTS, Contexts


def context_size(
    rows: int, generator: torch.Generator | None = None, contexts: Contexts = PAPER_CONTEXTS
) -> int:
    """How many of a batch's first rows are the context: uniform in [3, min(50, rows)) unless told.

    A batch too small for that gives no context.

    >>> context_size(3), context_size(4)
    (0, 3)
    """
    limit = min(contexts.limit, rows)
    if limit <= contexts.shortest:
        return 0
    return int(torch.randint(contexts.shortest, limit, (), generator=generator))
