"""Lowering of element-wise operations, reductions, windows, norms and random numbers."""
