from .wrapping import fit_wrapped as fit_wrapped
from .wrapping import wrap as wrap
