"""Rules of elementwise arithmetic, activations, norms and reductions."""
