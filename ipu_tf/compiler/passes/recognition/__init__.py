"""Passes that find what one vertex computes: norms, activations, softmax, random numbers."""
