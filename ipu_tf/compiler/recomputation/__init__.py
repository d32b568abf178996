"""Recomputation: the backward pass computes activations again, which the forward pass frees."""
