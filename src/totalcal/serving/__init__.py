"""A model in service: HTTP, batches, limits, a page for people, metrics."""
