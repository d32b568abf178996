"""Gradients of the tile ops, and their rules for vectorised loops."""
