from . import (
    backbones as backbones,
)
from . import (
    baselines as baselines,
)
from . import (
    corruptions as corruptions,
)
from . import (
    data as data,
)
from . import (
    functional as functional,
)
from . import (
    models as models,
)
from . import (
    parts as parts,
)
from . import (
    records as records,
)
from . import (
    scores as scores,
)
from . import (
    training as training,
)
from .baselines import BASELINES as BASELINES
from .corruptions import corrupt as corrupt
from .estimator import (
    ANPClassifier as ANPClassifier,
)
from .estimator import (
    BNNClassifier as BNNClassifier,
)
from .estimator import (
    EDLClassifier as EDLClassifier,
)
from .estimator import (
    ENPClassifier as ENPClassifier,
)
from .estimator import (
    ETPClassifier as ETPClassifier,
)
from .estimator import (
    NeuralProcessClassifier as NeuralProcessClassifier,
)
from .estimator import (
    SoftmaxClassifier as SoftmaxClassifier,
)
from .estimator.pipeline import Pipeline as Pipeline
from .exporting.writing import export as export
from .files.saved import SavedModel as SavedModel
from .files.saved import load as load
from .files.saved import save as save
from .models import MODELS as MODELS
from .models.anp import anp as anp
from .models.bnn import bnn as bnn
from .models.edl import edl as edl
from .models.enp import enp as enp
from .models.etp import etp as etp
from .models.neural_process import neural_process as neural_process
from .models.softmax import softmax as softmax
from .monitoring import Monitor as Monitor
from .preprocessing import Preprocessing as Preprocessing
from .process import TuringProcess as TuringProcess
from .rejection import Gate as Gate
from .rejection.predictions import PredictionSets as PredictionSets
from .remembering import remember as remember
from .scores import Verdict as Verdict
from .scores import evaluate as evaluate
from .thumbnails import Thumbnails as Thumbnails
from .training.fit import fit as fit
from .training.step import train as train
from .types import (
    Batch as Batch,
)
from .types import (
    Decomposition as Decomposition,
)
from .types import (
    KLScales as KLScales,
)
from .types import (
    LossTerms as LossTerms,
)
from .types import (
    Predictive as Predictive,
)
from .types import (
    Predictor as Predictor,
)
from .wrapping import fit_wrapped as fit_wrapped
from .wrapping import wrap as wrap

__version__: str
