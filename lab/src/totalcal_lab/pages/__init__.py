"""Pages of the laboratory: the report of a folder of runs, Markdown pages filled from records. No torch."""

from totalcal_lab.pages.writing import write_figures, write_report

__all__ = ["write_figures", "write_report"]
