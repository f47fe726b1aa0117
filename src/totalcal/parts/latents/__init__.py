"""The slot for Z: what a model knows beyond its weights."""

from totalcal.parts.latents.base import Latent, NoLatent
from totalcal.parts.latents.context import SetLatent, TargetLatent
from totalcal.parts.latents.memory import ExternalMemory

__all__ = ["ExternalMemory", "Latent", "NoLatent", "SetLatent", "TargetLatent"]
