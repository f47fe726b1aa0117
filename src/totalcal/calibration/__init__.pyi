from .calibrate import calibrate as calibrate
from .calibrate import calibrate_probabilities as calibrate_probabilities
from .calibrator import CalibrationResult as CalibrationResult
from .calibrator import fit_calibrator as fit_calibrator
from .splitting import split_held_out as split_held_out
from .summary import CalibrationSummary as CalibrationSummary
