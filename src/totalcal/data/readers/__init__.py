"""Readers of the official formats, a file a format: (folder, split) → uint8 images, or tokens, and labels."""
