"""A model as a program that runs without totalcal: ONNX, or torch's own .pt2."""
