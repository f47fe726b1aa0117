"""One file per model: weights, memory, gate, preprocessing, class names; a zip of safetensors and JSON."""
