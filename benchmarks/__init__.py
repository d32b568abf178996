"""Measurements against the stock tools: `python -m benchmarks fit`, `ops` or `compile`."""

import os

# Both sides have oneDNN, which TensorFlow leaves off on processors without AVX-512.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
