"""The tile ops: their library, twins of stock ops, shapes, numerics, and calls."""
