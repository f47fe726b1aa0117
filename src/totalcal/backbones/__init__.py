"""Networks v_w(x) that end in one column per class; a saved model names one here and its keyword arguments.

They know nothing of the models: any `nn.Module` with that last layer serves as well.

>>> sum(p.numel() for p in BACKBONES["lenet5"](num_classes=10).parameters())
431080
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import nn

from totalcal.backbones.nets import lenet5, lstm, mlp, resnet18, small_convnet

BACKBONES: Mapping[str, Callable[..., nn.Module]] = MappingProxyType(
    {"lenet5": lenet5, "lstm": lstm, "mlp": mlp, "resnet18": resnet18, "small_convnet": small_convnet}
)
"""Every backbone by name, as run configurations and saved models name it."""

__all__ = ["BACKBONES", "lenet5", "lstm", "mlp", "resnet18", "small_convnet"]
