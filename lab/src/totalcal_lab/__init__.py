"""The laboratory of totalcal: the paper's data, nets, studies and tables."""

__version__ = "0.3.0"
