"""The grid: presets of the paper's tables, cells, engines to run them on."""
