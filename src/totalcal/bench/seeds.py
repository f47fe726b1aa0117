"""Every random number of a cell follows from its coordinates, whichever worker, order or engine it meets."""

import hashlib


def derived(*coordinates: str | int) -> int:
    """A seed of 63 bits for one purpose at one place of the grid.

    >>> derived("split", "digits", 0) == derived("split", "digits", 0) != derived("split", "digits", 1)
    True
    """
    text = "/".join(map(str, coordinates))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
