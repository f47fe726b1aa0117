"""The scikit-learn face of the family: tables in, labels, probabilities and uncertainties out.

A class for each model of the registry. All take the same parameters; `model_arguments` go to the model.
"""

from totalcal.estimator.classifier import ProcessClassifier

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are drawn in proportion to their weights: a weight of 2 is two rows on average, not to the bit"
    ),
}
"""For scikit-learn's `check_estimator(…, expected_failed_checks=…)`; its SGDClassifier has the same."""


class SoftmaxClassifier(ProcessClassifier):
    """The plain net."""

    _model_name = "softmax"


class BNNClassifier(ProcessClassifier):
    """The Bayesian neural net: its weights have a distribution."""

    _model_name = "bnn"


class EDLClassifier(ProcessClassifier):
    """Evidential deep learning: a Dirichlet over the class probabilities."""

    _model_name = "edl"


class NPClassifier(ProcessClassifier):
    """The neural process, predicting without a context."""

    _model_name = "np"


class ANPClassifier(ProcessClassifier):
    """The attentive neural process; it keeps some training rows as the context of its predictions."""

    _model_name = "anp"


class ENPClassifier(ProcessClassifier):
    """The evidential neural process."""

    _model_name = "enp"


class ETPClassifier(ProcessClassifier):
    """The Evidential Turing Process: a memory, random weights, and a Dirichlet for every input."""

    _model_name = "etp"


ESTIMATORS = {
    "softmax": SoftmaxClassifier,
    "bnn": BNNClassifier,
    "edl": EDLClassifier,
    "np": NPClassifier,
    "anp": ANPClassifier,
    "enp": ENPClassifier,
    "etp": ETPClassifier,
}

__all__ = [
    "ESTIMATORS",
    "EXPECTED_FAILED_CHECKS",
    "ANPClassifier",
    "BNNClassifier",
    "EDLClassifier",
    "ENPClassifier",
    "ETPClassifier",
    "NPClassifier",
    "ProcessClassifier",
    "SoftmaxClassifier",
]
