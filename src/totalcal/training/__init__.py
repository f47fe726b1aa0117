"""Training: a plain loop to read, and `fit` for real work."""
