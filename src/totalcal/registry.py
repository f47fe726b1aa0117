"""The one list of models. Nothing is imported here, since readers of records know no torch.

A model is the function of its name in the file of its name, as `etp` in `models/etp.py`. To add one
takes that and its name here: public names, estimators and the tables of the laboratory follow.
"""

MODEL_NAMES = (
    "softmax",
    "bnn",
    "edl",
    "neural_process",
    "anp",
    "enp",
    "etp",
)  # fmt: skip
"""In the order in which tables list them: the plain net, then the family as it grows."""

_LONGEST_ACRONYM = 4


def classifier_name(model: str) -> str:
    """What the scikit-learn estimator of a model is called.

    >>> classifier_name("etp"), classifier_name("softmax"), classifier_name("neural_process")
    ('ETPClassifier', 'SoftmaxClassifier', 'NeuralProcessClassifier')
    """
    if len(model) <= _LONGEST_ACRONYM:
        return f"{model.upper()}Classifier"
    return "".join(word.capitalize() for word in model.split("_")) + "Classifier"
