"""Data: sets by name as arrays, wherever they come from; batches; the tasks of the paper.

The names resolve when they are first used; `__init__.pyi` lists them.

>>> from totalcal_lab.data import load_set
>>> images, labels = load_set("digits", "test")
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
