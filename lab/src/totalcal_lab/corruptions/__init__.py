"""The corruption benchmark: 19 types at 5 severities, batched, at the strength of CIFAR-10-C."""

from totalcal_lab.corruptions.registry import CORRUPTIONS, SEVERITIES, Corruption
from totalcal_lab.corruptions.stream import corrupt, corrupted_blocks

__all__ = ["CORRUPTIONS", "SEVERITIES", "Corruption", "corrupt", "corrupted_blocks"]
