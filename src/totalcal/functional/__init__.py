"""Pure tensor mathematics, one formula per function; nothing here knows a module or a model."""
