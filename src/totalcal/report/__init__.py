"""The report: one page from the records of a folder of runs; figures and tables for a paper. No torch."""

from totalcal.report.page import write_figures, write_report

__all__ = ["write_figures", "write_report"]
