"""Keras 3 behind the adapters."""
