"""One file a model: weights, memory, gate, preprocessing, class names; a zip of safetensors and JSON."""
