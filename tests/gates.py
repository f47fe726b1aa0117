"""Gates with two bars, as `calibrate` makes them, from gates of one bar on any scores."""

from dataclasses import replace

from totalcal.decisions import Gate
from totalcal.decisions.gate import ASK, NOT_MY_DOMAIN


def both(domain: Gate, overlap: Gate) -> Gate:
    """What the first rejects is "not my domain"; of the rest, what the second rejects is asked about."""
    bars = replace(domain.bars[0], verdict=NOT_MY_DOMAIN), replace(overlap.bars[0], verdict=ASK)
    return replace(overlap, bars=bars)
