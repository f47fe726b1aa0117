"""The paper's networks v_w(x); importing them lets `totalcal.load` open files that name them.

>>> sum(p.numel() for p in lenet5(num_classes=10).parameters())
431080
"""

from totalcal_lab.backbones.nets import lenet5, lstm, resnet18

__all__ = ["lenet5", "lstm", "resnet18"]
