"""The slot for Z: what a model knows beyond its weights."""

from totalcal.parts.latents.base import Latent
from totalcal.parts.latents.context import SetLatent, TargetLatent
from totalcal.parts.latents.memory import ExternalMemory
from totalcal.parts.latents.none import NoLatent

__all__ = ["ExternalMemory", "Latent", "NoLatent", "SetLatent", "TargetLatent"]
