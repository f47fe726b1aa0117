"""The joint law of several labels (Definition 1)."""

import math

from torch import Tensor


def log_joint(log_likelihoods: Tensor) -> Tensor:
    """log p_M(Y) = log E_θ Π_i p(y_i | θ), property (i) of Definition 1; draws × set to a scalar.

    The mean over draws stands outside of the product: labels are independent given θ, not without it.
    """
    joint = log_likelihoods.double().sum(-1)  # [draws]
    return joint.logsumexp(0) - math.log(joint.shape[0])
