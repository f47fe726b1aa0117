"""The one list of models and baselines. Nothing is imported here, since readers of records know no torch.

A model is the function of its name in the file of its name, as `etp` in `models/etp.py`; a baseline is an
entry of `BASELINES` in `baselines/baseline.py`. To add one takes that and its name here: public names,
estimators, the command line, tables and the report follow.
"""

from collections.abc import Mapping
from types import MappingProxyType

MODELS = (
    "softmax",
    "bnn",
    "edl",
    "neural_process",
    "anp",
    "enp",
    "etp",
)  # fmt: skip
"""In the order in which tables list them: the plain net, then the family as it grows."""

BASELINES = ("temperature", "mc_dropout", "ensemble")
"""What plain nets are made into, for comparison."""

ALIASES: Mapping[str, str] = MappingProxyType({"np": "neural_process"})
"""Names of before, as files, records and commands have them."""

SETTING_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "local_kl": "local_kl_scale",
        "latent_kl": "latent_kl_scale",
        "weight_kl": "weight_kl_scale",
    }
)
"""Arguments of models by their names of before, which run configurations, records and older files have."""

_RECORDED = {name: old for old, name in ALIASES.items()}
_RECORDED_SETTINGS = {name: old for old, name in SETTING_ALIASES.items()}
_LONGEST_ACRONYM = 4


def canonical(name: str) -> str:
    """The name of today; one that nobody knows stays as it is.

    >>> canonical("np"), canonical("etp")
    ('neural_process', 'etp')
    """
    return ALIASES.get(name, name)


def recorded(name: str) -> str:
    """The name in run folders and records, which never changes: a run is known by the hash of its settings.

    >>> recorded("neural_process"), recorded("etp")
    ('np', 'etp')
    """
    return _RECORDED.get(canonical(name), canonical(name))


def current_setting(name: str) -> str:
    """The name of a model's argument today, with its section if it has one.

    >>> current_setting("weight_kl"), current_setting("model.weight_kl"), current_setting("num_cells")
    ('weight_kl_scale', 'model.weight_kl_scale', 'num_cells')
    """
    return _renamed(name, SETTING_ALIASES)


def recorded_setting(name: str) -> str:
    """The name of a setting in run configurations and records, with its section if it has one.

    >>> recorded_setting("model.weight_kl_scale"), recorded_setting("width")
    ('model.weight_kl', 'width')
    """
    return _renamed(name, _RECORDED_SETTINGS)


def _renamed(setting: str, names: Mapping[str, str]) -> str:
    section, dot, rest = setting.rpartition(".")
    return section + dot + names.get(rest, rest)


def classifier_name(model: str) -> str:
    """What the scikit-learn estimator of a model is called.

    >>> classifier_name("etp"), classifier_name("softmax"), classifier_name("neural_process")
    ('ETPClassifier', 'SoftmaxClassifier', 'NeuralProcessClassifier')
    """
    if len(model) <= _LONGEST_ACRONYM:
        return f"{model.upper()}Classifier"
    return "".join(word.capitalize() for word in model.split("_")) + "Classifier"


ORDER = (*MODELS, *BASELINES)
"""Models and baselines as tables list them."""
