"""Predictions for whole files: in a stream of constant memory that survives a kill."""
