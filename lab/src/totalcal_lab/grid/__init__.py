"""The grid: presets of the paper's tables, run configurations, engines to run them on."""
