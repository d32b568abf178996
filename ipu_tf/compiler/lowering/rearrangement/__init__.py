"""Lowering of operations that move elements: copies, views, slices, lookups, sorting."""
