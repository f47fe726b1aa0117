"""Pure tensor mathematics, one formula a function; nothing here knows a module or a model."""
