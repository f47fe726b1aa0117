"""The parts a process is put together from, by slot: weights, latents, heads."""
