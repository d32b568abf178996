"""Traced functions: tile ops, native ops, layers, and the device program."""
