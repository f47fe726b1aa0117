"""The models and files of other rooms' tests, which commands are tried on."""

from ..data.conftest import cache  # noqa: F401  (no folder of the user's is looked at)
from ..exporting.conftest import rows_of, saved_model  # noqa: F401
from ..predicting.conftest import estimator, iris, lines, model_file, table  # noqa: F401
