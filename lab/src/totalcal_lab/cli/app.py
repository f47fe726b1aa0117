"""The one application of the laboratory; every file of commands adds its own."""

from totalcal.cli import application

app = application("totalcal-lab", "The paper's experiments: data sets, runs, tables, studies.")
