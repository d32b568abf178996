"""Measurements against stock TensorFlow and Keras: `python -m benchmarks fit` or `ops`."""
