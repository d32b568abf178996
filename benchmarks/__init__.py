"""Measurements against the stock tools: `python -m benchmarks fit`, `ops` or `compile`."""
